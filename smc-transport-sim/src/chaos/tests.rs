//! Runs drawn from seeds.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use smc_proto::version::Technology;

use super::*;
use crate::fault::{FaultKind, Phase};
use crate::oracle::Outcome;
use smc_capture::follow::items;
use smc_capture::reader::CaptureReader;
use smc_capture::writer::CaptureWriter;

/// `SMC_SEEDS` sets the number of seeds, 40 otherwise.
#[test]
fn whatever_fails_every_connection_ends_as_it_must() {
    //= CASE-C14 test
    //= CASE-C12 test
    //= CASE-C07 test
    let seeds = std::env::var("SMC_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(40);
    let mut coverage = Coverage::default();
    for seed in 0..seeds {
        let report = run(seed);
        assert!(report.is_well(), "{report}");
        assert!(report.connections.len() >= 8, "{report}");
        let smcr = report.technology == Technology::SmcR;
        assert!(report.groups >= if smcr { 2 } else { 1 }, "{report}");
        assert!(report.faults >= 3, "{report}");
        coverage.add(&report);
    }
    assert_eq!(coverage.runs, seeds);
    // Data crosses, links break while it does, and some transfers make it.
    assert!(coverage.outcomes[&Outcome::Complete] > seeds, "{coverage}");
    assert!(coverage.outcomes[&Outcome::Broken] > 0, "{coverage}");
    let struck = |phase: Phase| -> u64 {
        let kinds = FaultKind::ALL.iter();
        kinds.map(|kind| coverage.times(*kind, phase)).sum()
    };
    for phase in [Phase::Handshake, Phase::FirstContact, Phase::Data] {
        assert!(
            struck(phase) > 0,
            "nothing struck while {phase}\n{coverage}"
        );
    }
}

/// `SMC_SEEDS` sets the number of seeds, 240 otherwise.
#[test]
fn every_fault_of_smcd_strikes_and_some_connections_make_it() {
    let seeds = std::env::var("SMC_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(240);
    let mut coverage = Coverage::default();
    for seed in (0..seeds).filter(|seed| technology(*seed) == Technology::SmcD) {
        let report = run(seed);
        if !report.is_well() {
            println!("{report}");
        }
        coverage.add(&report);
    }
    assert!(coverage.failed.is_empty(), "{coverage}");
    assert_eq!(coverage.smcd_runs, seeds / 4);
    assert!(
        coverage.outcomes[&Outcome::Complete] > seeds / 4,
        "{coverage}"
    );
    assert!(coverage.outcomes[&Outcome::Broken] > 0, "{coverage}");
    // A clock must go wrong while something waits for it, which is seldom.
    let clocks = [
        FaultKind::JumpClock,
        FaultKind::FreezeClock,
        FaultKind::LateTimers,
    ];
    for kind in FaultKind::SMCD.iter().filter(|kind| !clocks.contains(kind)) {
        let times = |phase| coverage.times(*kind, phase);
        let struck: u64 = Phase::ALL.into_iter().map(times).sum();
        assert!(struck > 0, "{kind} never\n{coverage}");
    }
}

#[test]
fn a_connection_that_completes_laps_every_ring() {
    let completes = |report: &Report| report.count(Outcome::Complete) > 0;
    let report = (0..20).map(run).find(completes).expect("some complete");
    let rings = 2 * report.count(Outcome::Complete) as u64;
    assert!(report.bytes >= rings * scenario::LAPS * scenario::RING);
}

/// A file that a capture can be written to and read from.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_replay_is_the_same_run_with_its_messages() {
    let before = run(5);
    let file = Shared::default();
    let capture = CaptureWriter::new(file.clone()).unwrap();
    let (report, ladder) = replay(5, 1_000_000, Some(capture)).unwrap();
    assert_eq!(report.fingerprint, before.fingerprint);
    assert_eq!(report.to_string(), before.to_string());
    assert_ne!(run(6).fingerprint, before.fingerprint);
    let messages = ladder.messages();
    assert!(messages.iter().any(|m| m.contains("CLC Proposal")));
    assert!(messages.iter().any(|m| m.contains("RDMA WRITE")));
    let bytes = file.0.lock().unwrap().clone();
    let frames = CaptureReader::new(bytes.as_slice()).unwrap();
    assert!(frames.count() > messages.len());
}

#[test]
fn what_a_run_sends_is_read_from_its_capture_without_a_fault() {
    // Some hosts have no room for all their connections, some connections fall
    // back and go on over TCP, some are reset while they do.
    for seed in 0..16 {
        let file = Shared::default();
        let capture = CaptureWriter::new(file.clone()).unwrap();
        replay(seed, 0, Some(capture)).unwrap();
        let bytes = file.0.lock().unwrap().clone();
        for item in items(CaptureReader::new(bytes.as_slice()).unwrap()) {
            let item = item.unwrap();
            assert!(!item.content.is_malformed(), "seed {seed}: {item:?}");
        }
    }
}

#[test]
fn sums_do_not_depend_on_how_the_seeds_were_dealt() {
    let reports: Vec<_> = (0..4).map(run).collect();
    let sum = |reports: &[Report]| {
        let mut sum = Coverage::default();
        reports.iter().for_each(|report| sum.add(report));
        sum
    };
    let mut merged = sum(&reports[2..]);
    merged.merge(&sum(&reports[..2]));
    assert_eq!(merged, sum(&reports));
}

#[test]
fn a_failure_names_its_seed_and_how_to_replay_it() {
    let mut report = run(2);
    assert!(!report.to_string().contains("replay"));
    report.failures.push("something".to_owned());
    let text = report.to_string();
    assert!(text.contains("FAILURE something"));
    assert!(text.contains("cargo run --release -- sim --seeds 2..3"));
    let mut coverage = Coverage::default();
    coverage.add(&report);
    assert_eq!(coverage.failed, [2]);
}
