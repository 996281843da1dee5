//! Commands of the guide whose output is shown (`console run`): they are run, one page after
//! another, and print what the page shows.
//!
//! A line of `...` stands for any lines, and `[..]` for any part of a line. A command that runs in
//! the background is followed by the next one when something listens to the last port that it
//! names; what it began is ended with its page.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The longest that the commands of a page may take, in seconds.
const LIMIT: &str = "120";

/// What is run before the commands of a page.
const PRELUDE: &str = r#"
listening() { # PORT: waits until something listens there
  local hex try
  hex=$(printf ':%04X ' "$1")
  for try in $(seq 200); do
    ! grep -q "$hex.* 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null || return 0
    sleep 0.05
  done
  echo "nothing listens at port $1"
}
"#;

struct Block {
    line: usize,
    text: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut within = None;
    for (number, line) in page.lines().enumerate() {
        match (within, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                within = Some(kind == "console run");
                if kind == "console run" {
                    let (line, text) = (number + 1, Vec::new());
                    found.push(Block { line, text });
                }
            }
            (Some(_), Some(_)) => within = None,
            (Some(true), None) => found.last_mut().unwrap().text.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// The commands of a block: a line that ends with a backslash goes on in the next one.
fn commands(block: &Block) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in &block.text {
        match line.strip_prefix("$ ") {
            Some(command) if !goes_on => all.push(command.to_owned()),
            _ if goes_on => all.last_mut().unwrap().push_str(&format!("\n{line}")),
            _ => {}
        }
        goes_on = (goes_on || line.starts_with("$ ")) && line.ends_with('\\');
    }
    all
}

/// The last port that a command names.
fn port(command: &str) -> Option<u16> {
    let numbers = command.split(|c: char| !c.is_ascii_digit());
    numbers
        .filter_map(|digits| digits.parse().ok())
        .rfind(|port| (7000..8000).contains(port))
}

/// Runs the blocks of a page in one shell, and gives what each printed, commands included.
fn run(blocks: &[Block]) -> Vec<String> {
    const END: &str = "end-of-a-block-of-the-guide";
    let mut script = PRELUDE.to_owned();
    for block in blocks {
        for command in commands(block) {
            writeln!(script, "cat <<'{END}'\n$ {command}\n{END}\n{command}").unwrap();
            if let Some(port) = port(&command).filter(|_| command.ends_with('&')) {
                writeln!(script, "listening {port}").unwrap();
            }
        }
        writeln!(script, "echo {END}").unwrap();
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_smcx")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("timeout");
    shell
        .args([LIMIT, "bash", "-c", &format!("exec 2>&1\n{script}")])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("SMC_POLICY", "")
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    // What stays in the background holds the pipe: read until the last block has ended.
    let mut child = shell.spawn().unwrap();
    let group = Pid::from_child(&child);
    let reader = {
        let mut stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            use std::io::Read;
            let mut all = Vec::new();
            let _ = stdout.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        })
    };
    let status = child.wait().unwrap();
    let _ = kill_process_group(group, Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    let _ = kill_process_group(group, Signal::KILL);
    let printed = reader.join().unwrap();
    assert_ne!(
        status.code(),
        Some(124),
        "not done within {LIMIT} s:\n{printed}"
    );
    let mut all: Vec<String> = printed
        .split(&format!("{END}\n"))
        .map(str::to_owned)
        .collect();
    assert_eq!(all.len(), blocks.len() + 1, "{printed}");
    all.pop();
    all
}

/// Whether a line is as the guide shows it.
fn line_fits(shown: &str, printed: &str) -> bool {
    let pieces: Vec<&str> = shown.split("[..]").collect();
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    if pieces.len() == 1 {
        return shown == printed;
    }
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    for piece in &pieces[1..pieces.len() - 1] {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether lines are as the guide shows them.
fn fits(shown: &[String], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == "..." => {
            (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..]))
        }
        ([first, shown @ ..], [line, printed @ ..]) => {
            line_fits(first, line.trim_end()) && fits(shown, printed)
        }
        _ => false,
    }
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn output_is_compared() {
    assert!(fits(
        &owned(&["a", "...", "c [..] e"]),
        &["a", "b", "b", "c d e"]
    ));
    assert!(fits(&owned(&["..."]), &[]));
    assert!(!fits(&owned(&["a", "...", "c"]), &["a", "b"]));
    assert!(!fits(&owned(&["c [..] e"]), &["c d f"]));
    assert!(!fits(&owned(&["a"]), &["a", "b"]));
    assert!(!fits(&owned(&["a"]), &[]));
}

#[test]
fn blocks_and_their_commands_are_found() {
    let page = "```console\n$ no\n```\n```console run\n$ a \\\n  b\nx\n$ c 7001 &\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 4);
    assert_eq!(commands(&found[0]), ["a \\\n  b", "c 7001 &"]);
    assert_eq!((port("c 7001 &"), port("sleep 5 &")), (Some(7001), None));
}

#[test]
fn commands_print_what_the_guide_shows() {
    let chapters = root().join("docs/guide/src");
    let (mut run_blocks, mut wrong) = (0, String::new());
    let mut pages: Vec<_> = fs::read_dir(chapters)
        .unwrap()
        .map(|entry| entry.unwrap())
        .collect();
    pages.sort_by_key(|entry| entry.file_name());
    for entry in pages {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".md") {
            continue;
        }
        let blocks = blocks(&fs::read_to_string(entry.path()).unwrap());
        if blocks.is_empty() {
            continue;
        }
        for (block, printed) in blocks.iter().zip(run(&blocks)) {
            run_blocks += 1;
            let lines: Vec<&str> = printed.lines().collect();
            if !fits(&block.text, &lines) {
                let line = block.line;
                writeln!(wrong, "{name}:{line} prints\n{printed}").unwrap();
            }
        }
    }
    assert!(run_blocks > 10, "{run_blocks} blocks: where is the guide?");
    assert!(wrong.is_empty(), "{wrong}");
}
