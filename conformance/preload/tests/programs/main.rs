//! Programs print with the library what they print without.
//!
//! Each case is a server and a client. It runs four times: plain, with the library in the
//! server, in the client, and in both. The transcripts and statuses must be the same, and
//! in the last run SMC must have carried the connections.
#![cfg(target_os = "linux")]

mod case;
mod process;
mod program;

use case::{Carrier, Case};
use program::Program;

/// Runs every case of a program; `differing` are those that are not as [`Case::new`] has it.
fn compare(name: &str, differing: &[(&str, Carrier)]) {
    let program = Program::compile(name);
    let cases = program.cases();
    for (case, _) in differing {
        assert!(
            cases.iter().any(|of| of == case),
            "{name} has no case {case}"
        );
    }
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let carrier = differing.iter().find(|(of, _)| of == case);
            let carrier = carrier.map_or(Carrier::Smc, |(_, carrier)| *carrier);
            Case::new(&program, case, carrier).compare().err()
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn calls() {
    compare(
        "calls",
        &[
            // splice reaches the kernel, and the connection stays TCP from there.
            ("splice", Carrier::Any),
        ],
    );
}

#[test]
fn descriptors() {
    compare(
        "descriptors",
        &[
            // Another process than the one that accepted serves the connection.
            ("child-serves", Carrier::Any),
            ("cloned", Carrier::Any),
            // The process cannot have a driver.
            ("threadless-server", Carrier::Any),
            ("threadless-client", Carrier::Any),
            ("exec", Carrier::Any),
            ("spawn", Carrier::Any),
            ("executed", Carrier::Any),
            // The library has no descriptor left for SMC.
            ("limit", Carrier::Any),
            // EINVAL: the other process does not have the memory.
            ("passed-on", Carrier::Differs),
        ],
    );
}

#[test]
fn readiness() {
    compare("readiness", &[]);
}

#[test]
fn connecting() {
    compare("connecting", &[]);
}

#[test]
fn stdio() {
    compare(
        "stdio",
        &[
            // The C library reads past every other one, and the connection stays TCP from there.
            ("standard", Carrier::Any),
            ("wrong-streams", Carrier::Any),
        ],
    );
}

#[test]
fn waits() {
    compare(
        "waits",
        &[
            // The server gives up while its peer is still asked.
            ("timeouts", Carrier::Any),
        ],
    );
}

#[test]
fn threads() {
    compare("threads", &[]);
}

#[test]
fn races() {
    compare(
        "races",
        &[
            // The client takes so long that a connection may go on with TCP.
            ("in-time", Carrier::Any),
            ("goes-on", Carrier::Any),
            // The library has no descriptor left for SMC.
            ("few-left-to-connect", Carrier::Any),
        ],
    );
}

#[test]
fn traps() {
    compare(
        "traps",
        &[
            // The server takes so long that a client may go on with TCP.
            ("late", Carrier::Any),
        ],
    );
}
