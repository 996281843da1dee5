//! One connection; its link fails between every two steps of every write, in
//! every way, at every kind of place in both rings.
//!
//! `FAILOVER_CASE=<name>` runs one case and prints what happens in it;
//! `FAILOVER_ALL=1` visits more places of the rings (some minutes).
#![allow(clippy::print_stdout)]

use conformance::twolinks::Action::{Abort, Close, ShutdownWrite, Urgent, Write};
use conformance::twolinks::explore::{Count, Expect, Scenario};
use conformance::twolinks::{Action, Failure, Reading};

const RING: u32 = 16 << 10;

/// Runs scenarios, or only the one that `FAILOVER_CASE` names.
fn run(scenarios: Vec<Scenario>) {
    if let Ok(case) = std::env::var("FAILOVER_CASE") {
        let mut parts = case.split('/');
        let (name, path, failure) = (parts.next(), parts.next(), parts.next());
        for scenario in scenarios {
            if Some(scenario.name.as_str()) == name {
                let failure = Failure::named(failure.unwrap_or("none")).expect("a failure");
                let world = scenario.replay(path.unwrap_or(""), failure);
                println!("{}", world.log.unwrap_or_default().join("\n"));
                assert!(world.errors.is_empty(), "{}", world.errors.join("\n"));
            }
        }
        return;
    }
    let mut all = Count::default();
    let start = std::time::Instant::now();
    for scenario in scenarios {
        let count = scenario.explore(&Failure::ALL);
        all.states += count.states;
        all.cases += count.cases;
    }
    println!("{all:?} in {:?}", start.elapsed());
}

fn thorough() -> bool {
    std::env::var("FAILOVER_ALL").is_ok()
}

fn named(name: &str, client: &[Action], server: &[Action]) -> Scenario {
    Scenario::new(name, client, server)
}

/// Writes that end before, at and behind the ring's end, and fill it.
fn at_every_boundary(name: &str, client: &[Action], server: &[Action]) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let places: &[u64] = if thorough() {
        &[0, 1, 99, 100, 101, 250, 299, 300, 301]
    } else {
        &[0, 100, 101, 300]
    };
    for &back in places {
        for (receive, send) in [(RING, RING), (2 * RING, RING), (RING, 2 * RING)] {
            // The end of the receive ring, and of the send ring.
            for ring in [receive.min(send), receive.max(send)] {
                let offset = u64::from(ring) - back;
                let mut s = named(&format!("{name}-{receive}-{send}-{offset}"), client, server);
                s.shape.receive = [receive; 2];
                s.shape.send = [send; 2];
                s.offsets = [offset, offset];
                if !scenarios.iter().any(|t: &Scenario| t.name == s.name) {
                    scenarios.push(s);
                }
            }
        }
    }
    scenarios
}

#[test]
fn two_writes_at_every_boundary() {
    //= FAILOVER-002 test
    //= FAILOVER-003 test
    //= FAILOVER-016 test
    //= FAILOVER-018 test
    //= FAILOVER-021 test
    //= FAILOVER-024 test
    let scenarios = at_every_boundary("two", &[Write(100), Write(200)], &[]);
    run(scenarios);
}

#[test]
fn both_directions_at_every_boundary() {
    //= FAILOVER-001 test
    //= FAILOVER-010 test
    //= FAILOVER-020 test
    let scenarios = at_every_boundary("both", &[Write(300)], &[Write(300)]);
    run(scenarios);
}

#[test]
fn the_window_is_full() {
    //= FAILOVER-012 test
    let mut scenarios = Vec::new();
    for (number, script) in [
        &[Write(RING)][..],
        &[Write(RING - 1), Write(1)],
        &[Write(RING), Write(RING)],
        &[Write(RING - 1), Write(2)],
        &[Write(RING), Urgent(10)],
    ]
    .into_iter()
    .enumerate()
    {
        let ring = u64::from(RING);
        let places: &[u64] = if thorough() {
            &[0, 1, ring - 1, ring / 2]
        } else {
            &[ring - 1]
        };
        for &offset in places {
            for send in [RING, 2 * RING] {
                for reading in [Reading::Eager, Reading::Late] {
                    let name = format!("full-{number}-{offset}-{send}-{reading:?}");
                    let mut s = named(&name, script, &[]);
                    s.offsets = [offset, 0];
                    s.shape.send = [send; 2];
                    s.reading[1] = reading;
                    scenarios.push(s);
                }
            }
        }
    }
    run(scenarios);
}

#[test]
fn urgent_bytes() {
    let mut scenarios = Vec::new();
    for (number, script) in [
        &[Urgent(100)][..],
        &[Write(50), Urgent(1), Write(50)],
        &[Urgent(60), Urgent(60)],
        &[Urgent(1), Write(10), Urgent(20)],
    ]
    .into_iter()
    .enumerate()
    {
        for offset in [0, u64::from(RING) - 1, u64::from(RING) - 60] {
            for (inline, reading) in [
                (true, Reading::Eager),
                (true, Reading::Late),
                (false, Reading::TakeUrgent),
            ] {
                let name = format!("urgent-{number}-{offset}-{reading:?}");
                let mut s = named(&name, script, &[]);
                s.offsets = [offset, 0];
                s.shape.urgent_inline = inline;
                s.reading[1] = reading;
                scenarios.push(s);
            }
        }
    }
    run(scenarios);
}

#[test]
fn closing_in_order() {
    //= FAILOVER-004 test
    //= LLC-052 test
    //= LLC-053 test
    let mut scenarios = Vec::new();
    for (number, (client, server)) in [
        (&[Write(100), ShutdownWrite][..], &[][..]),
        (&[Write(100), ShutdownWrite], &[Write(100)]),
        (&[Write(100), ShutdownWrite], &[Write(100), ShutdownWrite]),
        (&[Write(100), Close], &[]),
        (&[ShutdownWrite, Close], &[ShutdownWrite]),
        (&[Close], &[Close]),
        (&[], &[Write(100), ShutdownWrite]),
        (&[], &[Write(100), Close]),
    ]
    .into_iter()
    .enumerate()
    {
        for slow in [false, true] {
            let mut s = named(&format!("close-{number}-{slow}"), client, server);
            s.slow_drain = slow;
            s.offsets = [u64::from(RING) - 50, u64::from(RING) - 50];
            scenarios.push(s);
        }
    }
    run(scenarios);
}

#[test]
fn closing_with_loss() {
    let mut scenarios = Vec::new();
    for (number, (client, server)) in [
        (&[Write(100), Abort][..], &[][..]),
        (&[Write(100), Abort], &[Write(100)]),
        (&[Write(100)], &[Abort]),
        (&[Abort], &[Abort]),
        (&[Write(100), Close], &[Write(100)]),
        (&[Write(100), Close], &[Write(100), Close]),
        (&[Write(100), ShutdownWrite], &[Close]),
        (&[Write(100), Close], &[Abort]),
    ]
    .into_iter()
    .enumerate()
    {
        for slow in [false, true] {
            let mut s = named(&format!("abort-{number}-{slow}"), client, server);
            s.slow_drain = slow;
            s.expect = Expect::Ended;
            scenarios.push(s);
        }
    }
    run(scenarios);
}
