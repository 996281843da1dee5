//! `smcx run`: how programs are started, with a library that does nothing.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A directory with a copy of the command, and with the library beside it.
pub(super) struct Installation(PathBuf);

/// A C program or library, compiled.
fn compile(source: &str, to: &Path, options: &[&str]) {
    let text = to.with_extension("c");
    fs::write(&text, source).unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.args(options).arg("-o").arg(to).arg(&text).status();
    assert!(status.unwrap().success(), "{source}");
}

pub(super) fn installation() -> &'static Installation {
    static ONE: OnceLock<Installation> = OnceLock::new();
    ONE.get_or_init(|| {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let place = place.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a child that another test forks meanwhile would keep a copy
        // that is open for writing from being executed.
        let mut copy = Command::new("cp");
        let copied = copy.arg(env!("CARGO_BIN_EXE_smcx")).arg(&place).status();
        assert!(copied.unwrap().success());
        let library = place.join("libsmc-preload.so");
        compile(
            "int smc_preload_of_a_test;",
            &library,
            &["-shared", "-fPIC"],
        );
        fs::set_permissions(&library, fs::Permissions::from_mode(0o644)).unwrap();
        Installation(place)
    })
}

impl Installation {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A C program of this name.
    fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let path = self.path(name);
        compile(source, &path, options);
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("smcx"));
        for variable in [
            "LD_PRELOAD",
            "SMC_RCVBUF",
            "SMC_SNDBUF",
            "SMC_DEBUG",
            "SMC_STATS",
        ] {
            command.env_remove(variable);
        }
        command
            .arg("run")
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments).spawn().unwrap())
    }
}

/// Waits for a child, for a limited time.
pub(super) fn finish(child: Child) -> Output {
    let process = child.id();
    let (done, waits) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if waits.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // The name is the child's until it is waited for, which has not happened yet.
            let _ = Command::new("kill")
                .args(["-KILL", &process.to_string()])
                .status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    guard.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn outcome(output: &Output) -> (Option<i32>, &str, &str) {
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

const SHOW: &str = "echo $LD_PRELOAD; echo $SMC_RCVBUF:$SMC_SNDBUF:$SMC_DEBUG:$SMC_STATS; echo $$";

#[test]
fn the_library_is_preloaded_and_the_program_replaces_the_command() {
    let at = installation();
    let child = at.command(&["--", "sh", "-c", SHOW]).spawn().unwrap();
    let process = child.id();
    let output = finish(child);
    let library = at.path("libsmc-preload.so");
    let shown = format!("{}\n:::\n{process}\n", library.display());
    assert_eq!(outcome(&output), (Some(0), shown.as_str(), ""));
}

#[test]
fn a_limit_of_file_sizes_is_named_and_ends_nothing_by_a_signal() {
    let at = installation();
    let limited = "ulimit -f 1; exec \"$0\" run --stats true";
    let mut shell = Command::new("bash");
    shell.args(["-c", limited]).arg(at.path("smcx"));
    shell.env("SMC_POLICY", "").stdin(Stdio::null());
    let shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = finish(shell.unwrap());
    let (status, _, errors) = outcome(&output);
    assert_eq!(status, Some(125), "{errors}");
    assert!(errors.contains("1024 bytes (RLIMIT_FSIZE"), "{errors}");
}

#[test]
fn options_of_smc_run_become_its_variables() {
    let at = installation();
    let output = at.run(&["-r", "64K", "-t", "1m", "-d", "sh", "-c", SHOW]);
    let shown = text(&output.stdout).lines().nth(1).unwrap().to_owned();
    assert_eq!(shown, "65536:1048576:1:");
    for wrong in ["0", "1G", "-1", "x", ""] {
        let output = at.run(&["-r", wrong, "true"]);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let mut variables = at.command(&["sh", "-c", SHOW]);
    variables.env("SMC_RCVBUF", "much").env("SMC_DEBUG", "1");
    let output = finish(variables.spawn().unwrap());
    assert_eq!(text(&output.stdout).lines().nth(1), Some("much::1:"));
    assert_eq!(
        text(&output.stderr),
        "smcx: SMC_RCVBUF=much is not a size and is ignored\n"
    );
}

#[test]
fn the_program_keeps_its_arguments() {
    let at = installation();
    for arguments in [
        ["printf", "%s,", "--stats", "-r", "--", "x"].as_slice(),
        &["--", "printf", "%s,", "--stats", "-r", "--", "x"],
    ] {
        assert_eq!(
            outcome(&at.run(arguments)),
            (Some(0), "--stats,-r,--,x,", "")
        );
    }
}

#[test]
fn libraries_of_others_are_kept_and_nesting_adds_nothing() {
    let at = installation();
    let other = at.path("libother.so");
    compile("int other_of_a_test;", &other, &["-shared", "-fPIC"]);
    let smcx = at.path("smcx");
    let nested = ["--", smcx.to_str().unwrap(), "run", "--", "sh", "-c", SHOW];
    let mut command = at.command(&nested);
    command.env("LD_PRELOAD", &other);
    let output = finish(command.spawn().unwrap());
    let library = at.path("libsmc-preload.so");
    let expected = format!("{}:{}", other.display(), library.display());
    assert_eq!(text(&output.stdout).lines().next(), Some(expected.as_str()));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_status_is_the_programs() {
    let at = installation();
    // The library of a test counts nothing, so that it is not known whether SMC was used.
    for (more, success) in [([].as_slice(), 0), (&["--stats"], 0), (&["--require"], 123)] {
        let run = |program: &[&str]| at.run(&[more, &["--"], program].concat()).status;
        assert_eq!(run(&["true"]).code(), Some(success), "{more:?}");
        assert_eq!(run(&["sh", "-c", "exit 7"]).code(), Some(7), "{more:?}");
        assert_eq!(
            run(&["sh", "-c", "kill -TERM $$"]).signal(),
            Some(15),
            "{more:?}"
        );
        assert_eq!(
            run(&["sh", "-c", "kill -KILL $$"]).signal(),
            Some(9),
            "{more:?}"
        );
        assert_eq!(run(&["no-such-program"]).code(), Some(127), "{more:?}");
        assert_eq!(run(&["/etc/passwd"]).code(), Some(126), "{more:?}");
    }
}

/// The library of a test counts nothing, as one of another version.
#[test]
fn a_library_of_another_version_is_named() {
    let uncounted = "connections of the program are not counted: it does not have the preload \
                     library of this version";
    let output = installation().run(&["--stats", "echo", "done"]);
    let shown = format!("smcx: {uncounted}\n");
    assert_eq!(outcome(&output), (Some(0), "done\n", shown.as_str()));
    let output = installation().run(&["--require", "echo", "done"]);
    let refused = format!("smcx: {uncounted}, and SMC is required\n");
    assert_eq!(outcome(&output), (Some(123), "done\n", refused.as_str()));
}

/// Reads from a pipe until there is a line.
fn first_line(child: &mut Child) -> String {
    use std::io::BufRead;
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    std::io::BufReader::new(stdout)
        .read_line(&mut line)
        .unwrap();
    line
}

fn kill(signal: &str, process: u32) {
    let status = Command::new("kill")
        .args([signal, &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn signals_reach_the_program_behind_the_statistics() {
    let at = installation();
    let script = "trap 'exit 9' USR1; trap 'exit 8' USR2; echo ready; \
                  while :; do sleep 1 & wait $!; done";
    for (signal, status) in [("-USR1", 9), ("-USR2", 8)] {
        let mut child = at
            .command(&["--stats", "--", "sh", "-c", script])
            .spawn()
            .unwrap();
        assert_eq!(first_line(&mut child), "ready\n");
        kill(signal, child.id());
        let ended = finish(child);
        assert_eq!(ended.status.code(), Some(status), "{signal}");
    }
    let mut child = at.command(&["--stats", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut child = child.spawn().unwrap();
    assert_eq!(first_line(&mut child), "ready\n");
    kill("-TERM", child.id());
    assert_eq!(finish(child).status.signal(), Some(15));
}

/// What this command waits for itself is not blocked in the program.
#[test]
fn the_program_has_the_signals_of_its_caller() {
    let at = installation();
    let show = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"];
    let bare = Command::new(show[0]).args(&show[1..]).output().unwrap();
    for more in [[].as_slice(), &["--stats"]] {
        let output = at.run(&[more, &["--"], &show].concat());
        assert_eq!(text(&output.stdout), text(&bare.stdout), "{more:?}");
    }
}

/// A process that ignores the end of its children hands that on to this command.
#[test]
fn the_status_is_known_although_the_parent_ignores_its_children() {
    let smcx = installation().path("smcx");
    let script = format!(
        "trap '' CHLD; {} run --stats -- sh -c 'exit 5'",
        smcx.display()
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("SMC_POLICY", "")
        .output();
    assert_eq!(output.unwrap().status.code(), Some(5));
}

/// Runs a program that is out of reach, and one with SMC required.
fn out_of_reach(program: &str, why: &str) {
    let at = installation();
    let output = at.run(&["--", program]);
    let (status, stdout, stderr) = outcome(&output);
    assert_eq!((status, stdout), (Some(0), "runs\n"), "{stderr}");
    assert_eq!(
        stderr,
        format!("smcx: {program} {why}; its connections are TCP\n")
    );
    let output = at.run(&["--require", "--", program]);
    let refused = format!("smcx: {program} {why}, and SMC is required\n");
    assert_eq!(outcome(&output), (Some(125), "", refused.as_str()));
}

const RUNS: &str = "#include <stdio.h>\nint main(void) { puts(\"runs\"); return 0; }";

#[test]
fn a_static_program_is_named_and_runs() {
    let program = installation().program("static", RUNS, &["-static"]);
    out_of_reach(program.to_str().unwrap(), "is statically linked");
    let script = installation().path("script");
    fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    out_of_reach(script.to_str().unwrap(), "is statically linked");
}

/// Only as root, which may give a file to another user: the program becomes that user.
#[test]
fn a_set_user_id_program_is_named_and_runs() {
    let at = installation();
    let program = at.program("set-user-id", RUNS, &[]);
    if std::os::unix::fs::chown(&program, Some(54_321), None).is_err() {
        println!("not run: only root can make a program of another user");
        return;
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    out_of_reach(program.to_str().unwrap(), "is set-user-ID");
    // Its rights are gained although SMC was asked for.
    let id = at.path("set-user-id-id");
    let copied = Command::new("cp").arg("/usr/bin/id").arg(&id).status();
    assert!(copied.unwrap().success());
    std::os::unix::fs::chown(&id, Some(54_321), None).unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = at.run(&["--", id.to_str().unwrap(), "-u"]);
    assert_eq!(text(&output.stdout), "54321\n");
}

/// The section and the note by which Go's linker marks what it makes.
#[test]
fn a_go_program_is_named_and_runs() {
    let mark = "__asm__(\".section .go.buildinfo,\\\"a\\\"\\n.byte 0\\n.text\");\n";
    let source = format!("{mark}{RUNS}");
    let program = installation().program("go", &source, &[]);
    out_of_reach(
        program.to_str().unwrap(),
        "is a Go program, which makes system calls by itself",
    );
}

#[test]
fn another_c_library_is_named_and_not_given_the_library() {
    let at = installation();
    // The linker of this machine by another name.
    let own = Command::new("sh")
        .args(["-c", "readelf -p .interp /bin/sh | grep -o '/[^ ]*'"])
        .output()
        .unwrap();
    let linker = at.path("ld-musl-test.so.1");
    let _ = fs::remove_file(&linker);
    std::os::unix::fs::symlink(text(&own.stdout).trim(), &linker).unwrap();
    let option = format!("-Wl,--dynamic-linker={}", linker.display());
    let source = "#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { puts(getenv(\"LD_PRELOAD\") ? \"preloaded\" : \"runs\"); return 0; }";
    let program = at.program("musl", source, &[&option]);
    out_of_reach(
        program.to_str().unwrap(),
        "uses another C library (ld-musl-test.so.1)",
    );
}

/// Asks for a ring; the status is 0 if there is none.
const URING: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <sys/syscall.h>\n\
    #include <unistd.h>\n\
    int main(void) { return !(syscall(SYS_io_uring_setup, 0, 0) == -1 && errno == ENOSYS); }";

#[test]
fn io_uring_is_hidden_unless_it_is_kept() {
    let at = installation();
    let program = at.program("uring", URING, &[]);
    let program = program.to_str().unwrap();
    assert_eq!(at.run(&["--", program]).status.code(), Some(0));
    assert_eq!(at.run(&["--stats", "--", program]).status.code(), Some(0));
    let bare = Command::new(program).status().unwrap();
    assert_eq!(at.run(&["--keep-io-uring", program]).status, bare);
    // The filter of the outer command serves the inner one.
    let smcx = at.path("smcx");
    let nested = ["--", smcx.to_str().unwrap(), "run", "--", program];
    assert_eq!(at.run(&nested).status.code(), Some(0));
}

#[test]
fn a_policy_that_forbids_smc_is_named() {
    let at = installation();
    let path = at.path("policy.toml");
    for (content, key) in [
        ("enabled = false", "enabled"),
        ("transports = []", "transports"),
        ("permit = []", "permit"),
    ] {
        fs::write(&path, content).unwrap();
        let policy = path.to_str().unwrap();
        let output = at.run(&["--policy", policy, "sh", "-c", "echo $SMC_POLICY"]);
        let warning = format!("smcx: the policy forbids SMC ({key}); every connection is TCP\n");
        let stdout = format!("{policy}\n");
        assert_eq!(
            outcome(&output),
            (Some(0), stdout.as_str(), warning.as_str())
        );
    }
    let wrong = at.path("wrong.toml");
    fs::write(&wrong, "enabled = 1").unwrap();
    let output = at.run(&["--policy", wrong.to_str().unwrap(), "echo", "runs"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(125), "")
    );
}

#[test]
fn a_relative_policy_is_found_after_a_change_of_directory() {
    let at = installation();
    fs::write(at.path("relative.toml"), "").unwrap();
    let mut command = at.command(&["--policy", "relative.toml", "sh", "-c", "cat $SMC_POLICY"]);
    let status = finish(command.current_dir(&at.0).spawn().unwrap()).status;
    assert!(ExitStatus::success(&status));
    let mut command = at.command(&["--policy", "relative.toml", "sh", "-c", "echo $SMC_POLICY"]);
    let output = finish(command.current_dir(&at.0).spawn().unwrap());
    assert!(text(&output.stdout).starts_with('/'));
}

#[test]
fn without_the_library_nothing_runs() {
    let at = installation();
    let bare = at.path("bare");
    fs::create_dir_all(&bare).unwrap();
    let copied = Command::new("cp").arg(at.path("smcx")).arg(&bare).status();
    assert!(copied.unwrap().success());
    let output = Command::new(bare.join("smcx"))
        .args(["run", "echo", "runs"])
        .env("SMC_POLICY", "")
        .output()
        .unwrap();
    let (status, stdout, stderr) = outcome(&output);
    assert_eq!((status, stdout), (Some(125), ""));
    assert!(
        stderr.starts_with("smcx: the library to preload is missing"),
        "{stderr}"
    );
}

#[test]
fn the_help_names_the_statuses() {
    let output = installation().run(&["--help"]);
    let help = text(&output.stdout);
    for status in [
        "\n  123  --require",
        "\n  125  ",
        "\n  126  ",
        "\n  127  ",
        "\n  2    wrong usage",
    ] {
        assert!(help.contains(status), "{status}: {help}");
    }
}
