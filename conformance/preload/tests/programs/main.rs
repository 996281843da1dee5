//! Programs print with the library what they print without.
//!
//! Each case is a server and a client. It runs four times: plain, with the library in the
//! server, in the client, and in both. The transcripts and statuses must be the same, and
//! in the last run SMC must have carried the connections.
#![cfg(target_os = "linux")]

mod case;
mod drawn;
mod process;
mod program;

use case::{Carrier, Case};
use program::Program;

/// Every program.
const PROGRAMS: [&str; 14] = [
    "calls",
    "connecting",
    "descriptors",
    "edges",
    "processes",
    "races",
    "readiness",
    "resets",
    "stdio",
    "storms",
    "threads",
    "traps",
    "urgent",
    "waits",
];

/// Cases of programs that are not as [`Carrier::Smc`] has it.
const DIFFERING: [(&str, &str, Carrier); 24] = [
    // splice reaches the kernel, and the connection stays TCP from there.
    ("calls", "splice", Carrier::Any),
    // Another process than the one that accepted serves the connection.
    ("processes", "child-serves", Carrier::Any),
    ("processes", "cloned", Carrier::Any),
    // The process cannot have a driver.
    ("processes", "threadless-server", Carrier::Any),
    ("processes", "threadless-client", Carrier::Any),
    ("processes", "exec", Carrier::Any),
    ("processes", "spawn", Carrier::Any),
    ("processes", "vfork-exec", Carrier::Any),
    ("processes", "exec-blocking", Carrier::Any),
    ("processes", "by-number", Carrier::Any),
    ("processes", "exec-and-go-on", Carrier::Any),
    ("descriptors", "executed", Carrier::Any),
    // The library has no descriptor left for SMC.
    ("descriptors", "limit", Carrier::Any),
    ("descriptors", "counted", Carrier::Any),
    // EINVAL: the other process does not have the memory.
    ("descriptors", "passed-on", Carrier::Differs),
    // The C library reads past every other one, and the connection stays TCP from there.
    ("stdio", "standard", Carrier::Any),
    ("stdio", "wrong-streams", Carrier::Any),
    // Children serve the connections.
    ("storms", "forks", Carrier::Any),
    // The server gives up while its peer is still asked.
    ("waits", "timeouts", Carrier::Any),
    // The client takes so long that a connection may go on with TCP.
    ("races", "in-time", Carrier::Any),
    ("races", "goes-on", Carrier::Any),
    // The library has no descriptor left for SMC.
    ("races", "few-left-to-connect", Carrier::Any),
    ("races", "few-left-to-accept", Carrier::Any),
    // The server takes so long that a client may go on with TCP.
    ("traps", "late", Carrier::Any),
];

/// What is expected of a case.
fn carrier(program: &str, case: &str) -> Carrier {
    let mut differing = DIFFERING.iter();
    let found = differing.find(|at| (at.0, at.1) == (program, case));
    found.map_or(Carrier::Smc, |at| at.2)
}

/// Runs every case of a program.
fn compare(name: &str) {
    let program = Program::compile(name);
    let cases = program.cases();
    for (_, case, _) in DIFFERING.iter().filter(|at| at.0 == name) {
        assert!(
            cases.iter().any(|of| of == case),
            "{name} has no case {case}"
        );
    }
    all_succeed(cases.iter().map(|case| {
        let case = Case::new(&program, case, carrier(name, case));
        case.compare()
    }));
}

fn all_succeed(outcomes: impl Iterator<Item = Result<(), String>>) {
    let failures: Vec<String> = outcomes.filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs cases of a sanitized program with the library, which have to be as the plain program is:
/// what a sanitizer finds ends a program with another status.
fn compare_sanitized(sanitized: &Program, cases: &[String]) {
    let file = sanitized.path.file_name().unwrap().display();
    let plain = Program::compile_as(&sanitized.name, &format!("{file}-plain"));
    all_succeed(cases.iter().map(|case| {
        let case = Case::new(sanitized, case, carrier(&plain.name, case));
        case.compare_with(&plain)
    }));
}

#[test]
fn calls() {
    compare("calls");
}

#[test]
fn descriptors() {
    compare("descriptors");
}

#[test]
fn processes() {
    compare("processes");
}

#[test]
fn readiness() {
    compare("readiness");
}

#[test]
fn edges() {
    compare("edges");
}

#[test]
fn resets() {
    compare("resets");
}

#[test]
fn urgent() {
    compare("urgent");
}

#[test]
fn connecting() {
    compare("connecting");
}

#[test]
fn stdio() {
    compare("stdio");
}

#[test]
fn waits() {
    compare("waits");
}

#[test]
fn storms() {
    compare("storms");
}

#[test]
fn threads() {
    compare("threads");
}

#[test]
fn races() {
    compare("races");
}

#[test]
fn traps() {
    compare("traps");
}

#[test]
fn programs_with_the_address_sanitizer() {
    for name in PROGRAMS {
        let program = Program::with_addresses(name);
        compare_sanitized(&program, &program.cases());
    }
}

/// Not those with handlers of signals, which the sanitizer puts off, nor those whose threads are
/// cancelled within the library, which it does not expect.
#[test]
fn programs_with_the_thread_sanitizer() {
    for name in ["races", "connecting"] {
        let program = Program::with_threads(name);
        compare_sanitized(&program, &program.cases());
    }
    let storms = Program::with_threads("storms");
    compare_sanitized(&storms, &["many-threads".to_owned()]);
}
