//! Signals of the program and the threads of this crate.

use std::time::Duration;

use crate::common::{settles, stack};

const LIMIT: Duration = Duration::from_secs(10);

/// The signals that the threads of drivers block, as bits.
fn blocked_of_drivers() -> Vec<u64> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = threads.map(|of| std::fs::read_to_string(of.unwrap().path().join("status")));
    let blocked = statuses.filter_map(|status| {
        let status = status.ok()?;
        let blocked = status.lines().find_map(|at| at.strip_prefix("SigBlk:"))?;
        let is_driver = status.starts_with("Name:\tsmc-driver\n");
        is_driver.then(|| u64::from_str_radix(blocked.trim(), 16).unwrap())
    });
    blocked.collect()
}

/// Handlers of signals are the program's: in the driver's thread, one would run beside the only
/// thread of the program.
#[test]
fn the_driver_takes_no_signal() {
    let _stack = stack();
    // A thread names itself when it runs.
    assert!(settles(LIMIT, || !blocked_of_drivers().is_empty()));
    for blocked in blocked_of_drivers() {
        // SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD; and SIGRTMIN + 2.
        for signal in [1, 2, 10, 12, 14, 15, 17, 36] {
            assert_ne!(blocked & 1 << (signal - 1), 0, "{signal}: {blocked:x}");
        }
    }
}
