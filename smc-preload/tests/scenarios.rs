//! One program for each thing that broke a library of this kind before: it has to see the same
//! over TCP, and over SMC with the library preloaded.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Where Cargo puts the library beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libsmc_preload.so");
    assert!(beside.exists(), "{} is missing", beside.display());
    beside
}

/// The program of the scenarios, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/scenarios.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios");
        let compiler = Command::new("cc")
            .args(["-O1", "-Wall", "-pthread", "-o"])
            .args([&program, &source])
            .output()
            .expect("a C compiler");
        let errors = String::from_utf8_lossy(&compiler.stderr).into_owned();
        assert!(compiler.status.success(), "{errors}");
        program
    })
}

fn run(scenario: &str, with: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(program());
    command.arg(scenario).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("SMC_POLICY");
    with(&mut command);
    command.output().unwrap()
}

/// Runs a scenario with the library: how many connections of each side were SMC.
fn preloaded(scenario: &str) -> [usize; 2] {
    let preloaded = run(scenario, |command| {
        command.env("LD_PRELOAD", library()).env("SMC_DEBUG", "1");
    });
    let lines = String::from_utf8_lossy(&preloaded.stderr).into_owned();
    assert!(preloaded.status.success(), "{}\n{lines}", preloaded.status);
    ["connected: SMC-D", "accepted: SMC-D"].map(|line| lines.matches(line).count())
}

/// Runs a scenario over TCP, and then over SMC. It has to succeed each time; on a busy machine a
/// connection may stay on TCP, and it is run again.
fn same(scenario: &str) {
    let plain = run(scenario, |_| {});
    assert!(plain.status.success(), "over TCP: {plain:?}");
    let over_smc = |_: &usize| preloaded(scenario).iter().all(|count| *count > 0);
    assert!((0..10).any(|at| over_smc(&at)), "no connection was SMC");
}

macro_rules! scenarios {
    ($($name:ident: $scenario:literal;)*) => {
        $(
            #[test]
            fn $name() {
                same($scenario);
            }
        )*
    };
}

scenarios! {
    a_megabyte_comes_back_as_it_was: "echo";
    a_second_connect_returns_how_the_first_went: "second-connect";
    a_set_reports_a_connection_that_was_registered_before_it_connected: "epoll-before-connect";
    a_set_reports_by_level_by_edge_and_once: "epoll-kinds";
    a_set_in_a_set_and_one_that_is_polled_are_ready_when_their_connections_are: "nested";
    a_connection_ends_with_its_last_duplicate: "dup";
    a_file_is_sent: "sendfile";
    a_child_serves_what_its_parent_has_accepted: "fork";
    several_processes_accept_from_one_listener: "workers";
    a_half_closed_connection_goes_on_in_the_other_direction: "half-close";
    poll_select_and_epoll_wait_for_connections_and_others: "mixed";
    a_thread_reads_while_another_writes: "threads";
    threads_that_wait_at_a_set_are_woken_for_connections_that_it_gets: "shared-set";
    flags_and_options_are_those_of_tcp: "flags";
    a_signal_ends_a_wait: "signal";
    a_connection_that_is_refused_is_refused: "refused";
    libc_streams_read_and_write: "stdio";
    what_is_printed_to_a_descriptor_arrives: "printed";
    of_a_process_that_is_killed_the_peer_gets_the_end: "killed";
    calls_by_number_reach_the_library: "number";
    a_connection_is_not_passed_to_another_process: "passed";
    a_child_that_closes_its_copy_leaves_the_connection_alone: "inherited";
}

/// A program that knows nothing of the library has the connection from its parent.
#[test]
fn a_connection_that_another_program_gets_is_tcp() {
    let plain = run("exec", |_| {});
    assert!(plain.status.success(), "over TCP: {plain:?}");
    assert_eq!(preloaded("exec"), [0, 0]);
}
