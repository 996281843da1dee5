//! The command as a process, of a user of one's choice.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user that runs the command.
pub(crate) enum User {
    /// The user that runs the tests.
    Own,
    /// Another user, without any right, with a copy of the command that it may read.
    Other(PathBuf, u32),
}

/// A user ID that no user has, and not the one of users unknown to the namespace.
const UID: u32 = 54_321;

/// A copy of the program that other users can execute, in a directory of its own.
fn copy_for(uid: u32) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = format!("smcx-user-{uid}-{}-{next}", std::process::id());
    let directory = std::env::temp_dir().join(directory);
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = directory.join("smcx");
    // By another process: a child that another test forks while this process has the copy open
    // for writing would keep it from being executed.
    let status = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_smcx"))
        .arg(&copy)
        .status();
    assert!(status.unwrap().success());
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

impl User {
    /// A user without any right: the one that runs the tests, if it has none.
    pub(crate) fn without_rights() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        if capabilities(&status) == 0 {
            return Self::Own;
        }
        Self::with_uid(UID)
    }

    /// A user without any right; tests that want one run as root.
    pub(crate) fn with_uid(uid: u32) -> Self {
        Self::Other(copy_for(uid), uid)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self {
            Self::Own => Command::new(env!("CARGO_BIN_EXE_smcx")),
            Self::Other(path, uid) => {
                let mut command = Command::new(path);
                // A process that changes from root to another user loses all capabilities.
                command.uid(*uid).gid(*uid).current_dir("/");
                command
            }
        };
        command
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Self::Other(path, _) = self {
            let _ = fs::remove_dir_all(path.parent().unwrap());
        }
    }
}

fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

/// Runs the command: its output, its errors, and whether it succeeded.
pub(crate) fn smcx(user: &User, arguments: &[&str]) -> (String, String, bool) {
    with_input(user, arguments, b"")
}

pub(crate) fn with_input(user: &User, arguments: &[&str], input: &[u8]) -> (String, String, bool) {
    let mut child = user.command(arguments).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.success(),
    )
}

/// `smcx listen`, which ends with this.
pub(crate) struct Listener {
    child: Child,
    pub(crate) address: String,
}

impl Listener {
    pub(crate) fn start(user: &User, arguments: &[&str]) -> Self {
        let all = [&["listen", "127.0.0.1:0", "--verbose"], arguments].concat();
        let mut child = user.command(&all).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("smcx: listening on ");
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        // What it says of its connections is not read, and must not stop it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Self { child, address }
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Stops its process, which keeps its sockets.
    pub(crate) fn stop(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::STOP).unwrap();
        // All its threads have stopped then.
        let options = rustix::process::WaitOptions::UNTRACED;
        let (_, status) = rustix::process::waitpid(Some(id), options)
            .unwrap()
            .unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// Effective capabilities of the process.
    pub(crate) fn capabilities(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        capabilities(&status.unwrap())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
