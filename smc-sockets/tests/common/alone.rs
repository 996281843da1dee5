//! Tests that get a process of their own: they change what a process has once (limits, signals,
//! children), or count what it holds.

use std::any::type_name;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Names the test that a process was started for.
const TEST: &str = "SMC_SOCKETS_TEST_ALONE";

/// Longest time that a test may take in its process, in seconds.
const LIMIT: u32 = 120;

/// Returns whether this process runs nothing but `test`. If not, starts such a process, in which
/// the test must pass; the caller then returns.
#[must_use]
pub(crate) fn alone<Test: Fn()>(test: &Test) -> bool {
    alone_within(LIMIT, test)
}

/// Is [`alone`] with another limit, in seconds; 0 is none.
#[must_use]
pub(crate) fn alone_within<Test: Fn()>(limit: u32, _test: &Test) -> bool {
    // libtest omits the crate's name.
    let (_, name) = type_name::<Test>().split_once("::").unwrap();
    if std::env::var(TEST).is_ok_and(|test| test == name) {
        // SAFETY: it takes a number. The signal ends the process.
        unsafe { libc::alarm(limit) };
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(TEST, name)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that is wrong would select no test, and nothing would fail.
    assert!(
        output.status.success() && text.contains("test result: ok. 1 passed"),
        "{name} (signal {:?}): {text}{}",
        output.status.signal(),
        String::from_utf8_lossy(&output.stderr)
    );
    // Figures of the test, and the reason why it is skipped, are this process's output, too.
    let of_libtest = |line: &&str| line.starts_with("test ") || line.starts_with("running ");
    for line in text.lines().filter(|line| !of_libtest(line)) {
        println!("{line}");
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    false
}
