//! Many seeds, each with faults of its own: whatever happens, the engines do
//! nothing their RNICs would refuse, bytes arrive as they left, everything ends,
//! and everything is given back.

use smc_proto::completion::LinkFailure;
use smc_proto::endpoint::Usage;

use super::*;
use crate::random::Random;

/// A number of `least` to `most` bits, all lengths alike.
fn magnitude(random: &mut Random, least: u64, most: u64) -> u64 {
    let bits = least + random.below(most - least);
    random.below(1 << bits)
}

/// A fault of any kind, except that what gives resources back is never refused:
/// they could not be given back then.
fn fault(random: &mut Random) -> (Trigger, FaultAction) {
    let operations = [
        Operation::AnyControl,
        Operation::CreateQueuePair,
        Operation::ConnectQueuePair,
        Operation::ActivateQueuePair,
        Operation::AllocateBuffer,
        Operation::RegisterBuffer,
        Operation::ClearElement,
        Operation::Write,
        Operation::Send,
        Operation::Sent,
        Operation::TcpByte,
    ];
    let operation = operations[random.below(operations.len() as u64) as usize];
    let delay = Duration::from_nanos(magnitude(random, 10, 34));
    let ends = [Ends::Near, Ends::Far, Ends::Both][random.below(3) as usize];
    let number = 1 + random.below(if operation == Operation::TcpByte {
        300
    } else {
        12
    });
    let nth = Trigger::Nth { operation, number };
    let at = Trigger::At(Instant::ZERO.after(Duration::from_micros(random.below(20_000))));
    let (cause, device) = (LinkFailure::Other, None);
    let link = FaultAction::FailLink {
        device,
        ends,
        cause,
    };
    match (random.below(6), operation) {
        (0, _) => (at, link),
        (1, _) => (at, FaultAction::TcpReset),
        (2, _) => (at, FaultAction::WithholdReceives(delay)),
        (3, _) => (
            at,
            FaultAction::TcpSplit(TcpSplit::Random(1 + random.below(90) as u16)),
        ),
        (_, Operation::TcpByte) => (nth, FaultAction::TcpReset),
        (_, Operation::Write | Operation::Send) => (nth, link),
        (_, Operation::Sent) => (nth, FaultAction::Delay(delay)),
        (4, _) | (_, Operation::AnyControl) => (nth, FaultAction::Delay(delay)),
        _ => (nth, FaultAction::Refuse),
    }
}

fn sweep(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed ^ 0x5eed);
    let (mut simulation, client, server) = pair(seed);
    let mut plan = FaultPlan::none();
    for _ in 0..random.below(4) {
        let (trigger, action) = fault(&mut random);
        let host = [None, Some(client), Some(server)][random.below(3) as usize];
        plan = plan.with(trigger, host, action);
    }
    simulation.fabric().set_faults(plan.clone());
    let mut pairs = Vec::new();
    for _ in 0..1 + random.below(3) {
        let (from, to) = if random.below(4) == 0 {
            (server, client)
        } else {
            (client, server)
        };
        let ends = simulation.connect(from, to);
        pairs.push(ends);
        for end in [ends.0, ends.1] {
            let app = simulation.app_mut(end).unwrap();
            app.forget_bytes();
            let length = magnitude(&mut random, 1, 20);
            app.write_pattern(random.next_u64(), length);
            if random.below(5) > 0 {
                app.finish();
            }
        }
        simulation.run_for(Duration::from_micros(random.below(12_000)));
    }
    simulation.run_for(60 * SECOND);
    let mut problems = Vec::new();
    for ends in &pairs {
        for one in [ends.0, ends.1] {
            match random.below(3) {
                0 => simulation.close(one),
                1 => simulation.finish(one),
                _ => simulation.abort(one),
            }
        }
    }
    simulation.run_for(3000 * SECOND);
    for ends in &pairs {
        for (one, other) in [*ends, (ends.1, ends.0)] {
            let state = *simulation.state(one).unwrap();
            let over =
                state.closed.is_some() || state.tcp_reset || state.transport == Transport::Tcp;
            if !over {
                problems.push(format!("{one:?} never ended: {state:?}"));
            }
            let read = simulation.app(one).unwrap().read().length();
            let written = simulation.app(other).unwrap().written().length();
            if read > written {
                problems.push(format!("{one:?} read {read} of {written} octets"));
            }
        }
    }
    for host in [client, server] {
        let in_use = simulation.fabric().in_use(host);
        if in_use != [0, 0, 0] {
            problems.push(format!(
                "{host:?} keeps buffers, queue pairs, registrations {in_use:?}"
            ));
        }
        let usage = simulation.endpoint(host).unwrap().usage();
        if usage != Usage::default() {
            problems.push(format!("{host:?} keeps {usage:?}"));
        }
    }
    problems.extend(simulation.findings().map(ToString::to_string));
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "seed {seed}: {problems:#?}\n{plan:#?}\n{}",
        simulation.trace()
    ))
}

/// `SMC_SEEDS` sets the number of seeds, 100 otherwise.
#[test]
fn whatever_fails_everything_ends_and_is_given_back() {
    let seeds = std::env::var("SMC_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let failed: Vec<_> = (0..seeds.unwrap_or(100))
        .filter_map(|seed| sweep(seed).err())
        .collect();
    for failure in failed.iter().take(2) {
        eprintln!("{failure}");
    }
    let what = failed
        .iter()
        .filter_map(|failure| failure.split("FaultPlan").next());
    let what: String = what.collect();
    assert!(failed.is_empty(), "{} seeds failed: {what}", failed.len());
}

/// Both ends lose the link while the client's Confirm is on its way: both send
/// Decline, and neither may reach an application (reliability A6).
#[test]
fn declines_that_cross_after_the_confirm() {
    let (mut simulation, client, server) = pair(30_133);
    let (device, ends, cause) = (None, Ends::Both, LinkFailure::Other);
    let at = Trigger::At(Instant::ZERO.after(Duration::from_micros(312)));
    let fail = FaultAction::FailLink {
        device,
        ends,
        cause,
    };
    simulation
        .fabric()
        .set_faults(FaultPlan::none().with(at, client, fail));
    let ends = simulation.connect(client, server);
    exchange(&mut simulation, ends, 700);
}
