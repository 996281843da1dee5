//! A short soak. `docs/assurance.md` lists the long ones.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn soak(arguments: &[&str]) -> Output {
    let mut soak = Command::new(env!("CARGO_BIN_EXE_smc-soak"));
    soak.args(arguments).output().expect("it starts")
}

/// The limit of the soak is far above what a loaded machine takes: a wake-up that is lost takes for
/// ever.
#[test]
fn no_wake_up_is_lost_and_nothing_left_while_processes_end_stop_and_fork() {
    let arguments = "--for 12s --connections 120 --stall 5s --every 200ms";
    let output = soak(&arguments.split(' ').collect::<Vec<_>>());
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "smc-soak {arguments}\n{printed}\n{errors}"
    );
}

#[test]
fn a_limit_that_nothing_can_keep_is_a_finding() {
    let arguments = "--for 3s --connections 30 --stall 1us --every 1m";
    let begin = Instant::now();
    let output = soak(&arguments.split(' ').collect::<Vec<_>>());
    // The first intervention would be later than the end.
    assert!(begin.elapsed() < Duration::from_secs(40));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("FINDING client"), "{printed}");
}
