//! Commands of the guide whose output is shown (`console run`): they are run, one page after
//! another, and print what the page shows. Policies that it shows are read.
//!
//! A line of `...` stands for any lines, and `[..]` for any part of a line. A command that runs in
//! the background is followed by the next one when something listens to the last port that it
//! names; what it began is ended with its page.
//!
//! A block of the kind `console run with PROGRAM ...` is run where these programs are installed; in
//! CI they have to be. `namespaces` among them stands for the right to make some: with it, the page
//! is run in a network namespace of its own.
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

#[derive(Default)]
struct Block {
    line: usize,
    /// What it cannot be run without.
    needs: Vec<String>,
    text: Vec<String>,
}

const NAMESPACES: &str = "namespaces";

impl Block {
    /// What is missing here for it.
    fn missing(&self) -> Vec<&str> {
        let needs = self.needs.iter().map(String::as_str);
        needs.filter(|need| !is_there(need)).collect()
    }

    fn needs_namespaces(&self) -> bool {
        self.needs.iter().any(|need| need == NAMESPACES)
    }
}

/// Whether a program is installed, or namespaces can be made.
fn is_there(need: &str) -> bool {
    if need == NAMESPACES {
        let mut made = Command::new("unshare");
        made.args(["--net", "--mount", "ip", "link", "set", "lo", "up"]);
        let made = made.stderr(Stdio::null()).status();
        return made.is_ok_and(|status| status.success());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|at| at.join(need).is_file())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The blocks of a page whose kind is wanted: what stands behind the kind's beginning, if it is.
fn blocks_of(page: &str, wanted: impl Fn(&str) -> Option<Vec<String>>) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut within = None;
    for (number, line) in page.lines().enumerate() {
        match (within, line.strip_prefix("```")) {
            (None, Some(kind)) => {
                let needs = wanted(kind);
                within = Some(needs.is_some());
                found.extend(needs.map(|needs| Block {
                    line: number + 1,
                    needs,
                    text: Vec::new(),
                }));
            }
            (Some(_), Some(_)) => within = None,
            (Some(true), None) => found.last_mut().unwrap().text.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// The blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<Block> {
    blocks_of(page, |kind| {
        let needs = match kind.strip_prefix("console run")? {
            "" => "",
            others => others.strip_prefix(" with ")?,
        };
        Some(needs.split_whitespace().map(str::to_owned).collect())
    })
}

/// A command with its prompt.
type Typed = (char, String);

/// The commands of a block: a line that ends with a backslash goes on in the next one.
fn commands(block: &Block) -> Vec<Typed> {
    // What other programs print may begin with the prompt of root.
    let prompts: &[char] = match block.needs_namespaces() {
        true => &['$', '#'],
        false => &['$'],
    };
    let mut all: Vec<Typed> = Vec::new();
    let mut goes_on = false;
    for line in &block.text {
        let typed = prompts.iter().find_map(|prompt| {
            let command = line.strip_prefix(*prompt)?.strip_prefix(' ')?;
            Some((*prompt, command.to_owned()))
        });
        let begins = typed.is_some();
        match (all.last_mut(), typed) {
            (Some((_, command)), _) if goes_on => command.push_str(&format!("\n{line}")),
            (_, typed) => all.extend(typed),
        }
        goes_on = (goes_on || begins) && line.ends_with('\\');
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
        for (prompt, command) in commands(block) {
            writeln!(
                script,
                "cat <<'{END}'\n{prompt} {command}\n{END}\n{command}"
            )
            .unwrap();
            if let Some(port) = port(&command).filter(|_| command.ends_with('&')) {
                writeln!(script, "listening {port}").unwrap();
            }
        }
        writeln!(script, "echo {END}").unwrap();
    }
    let binaries = Path::new(env!("CARGO_BIN_EXE_smcx")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let own_network = blocks.iter().any(Block::needs_namespaces);
    let (program, begin): (&[&str], _) = match own_network {
        true => (&["unshare", "--net", "--mount"], "ip link set lo up\n"),
        false => (&[], ""),
    };
    let mut shell = Command::new("timeout");
    shell
        .arg(LIMIT)
        .args(program)
        .args(["bash", "-c", &format!("exec 2>&1\n{begin}{script}")])
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
    let typed = |prompt, command: &str| (prompt, command.to_owned());
    let (first, second) = (typed('$', "a \\\n  b"), typed('$', "c 7001 &"));
    assert_eq!(commands(&found[0]), [first, second]);
    let page = "```console run with no-such-program sh namespaces\n# d\n#e\n```\n```console runs\n$ f\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 1);
    assert_eq!(commands(&found[0]), [typed('#', "d")]);
    assert_eq!(found[0].missing()[0], "no-such-program");
    assert_eq!(commands(&blocks("```console run\n# d\n```\n")[0]), []);
    assert_eq!((port("c 7001 &"), port("sleep 5 &")), (Some(7001), None));
}

/// The chapters: their names and texts.
fn chapters() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs/guide/src")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let pages = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let page = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    pages.map(page).collect()
}

#[test]
fn commands_print_what_the_guide_shows() {
    let (mut run_blocks, mut wrong) = (0, String::new());
    for (name, page) in chapters() {
        let mut here = Vec::new();
        for block in blocks(&page) {
            let missing = block.missing();
            if missing.is_empty() {
                here.push(block);
                continue;
            }
            let line = block.line;
            let may_be_skipped = std::env::var_os("CI").is_none() || missing == [NAMESPACES];
            assert!(may_be_skipped, "{name}:{line} needs {missing:?}");
            eprintln!("SKIPPED: {name}:{line} needs {missing:?}");
        }
        if here.is_empty() {
            continue;
        }
        for (block, printed) in here.iter().zip(run(&here)) {
            run_blocks += 1;
            // Some programs write over a line that they have begun.
            let lines: Vec<&str> = printed.lines().collect();
            let last = |line: &str| {
                line.trim_end()
                    .rsplit('\r')
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            };
            let lines: Vec<String> = lines.into_iter().map(last).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            if !fits(&block.text, &lines) {
                let line = block.line;
                writeln!(wrong, "{name}:{line} prints\n{printed}").unwrap();
            }
        }
    }
    assert!(run_blocks > 10, "{run_blocks} blocks: where is the guide?");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn policies_that_the_guide_shows_have_no_mistake() {
    let mut read = 0;
    for (name, page) in chapters() {
        for block in blocks_of(&page, |kind| (kind == "toml").then(Vec::new)) {
            let text = block.text.join("\n");
            // What Cargo reads is no policy.
            if text.contains("[dependencies]") {
                continue;
            }
            read += 1;
            let policy = smc_sockets::Policy::parse(&text);
            policy.unwrap_or_else(|error| panic!("{name}:{}: {error}", block.line));
        }
    }
    assert!(read >= 3, "{read} policies: where is the guide?");
}
