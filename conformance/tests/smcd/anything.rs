//! SMC-D under whatever a seed draws: refused and late commands, failing moves, devices
//! that vanish, late and merged signals, ends of every kind. Bytes arrive as sent or the
//! connection ends with a reason, both sides know, and nothing is left.

use conformance::smcd::{DEVICE, Setup};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::types::Chid;
use smc_transport_sim::fault::{FaultAction, FaultPlan, Operation, Trigger};
use smc_transport_sim::random::Random;
use smc_transport_sim::sim::{SocketId, Transport};

const OPERATIONS: [Operation; 9] = [
    Operation::RegisterDmb,
    Operation::UnregisterDmb,
    Operation::ClearDmb,
    Operation::AttachDmb,
    Operation::DetachDmb,
    Operation::AllocateBuffer,
    Operation::FreeBuffer,
    Operation::Move,
    Operation::AnyControl,
];

fn plan(random: &mut Random) -> FaultPlan {
    let mut plan = FaultPlan::none();
    for _ in 0..random.below(4) {
        let operation = OPERATIONS[random.below(OPERATIONS.len() as u64) as usize];
        let late = FaultAction::Delay(Duration::from_micros(random.below(3_000_000)));
        let action = match operation {
            Operation::Move => FaultAction::Refuse,
            // A device that refuses to take something back keeps it for good.
            Operation::UnregisterDmb
            | Operation::DetachDmb
            | Operation::FreeBuffer
            | Operation::AnyControl => late,
            _ if random.below(3) == 0 => late,
            _ => FaultAction::Refuse,
        };
        let trigger = Trigger::Nth {
            operation,
            number: 1 + random.below(12),
        };
        plan = plan.with(trigger, None, action);
    }
    plan
}

fn run(seed: u64) -> [u32; 3] {
    let mut random = Random::new(seed);
    let flip = |random: &mut Random| random.below(2) == 0;
    let mut setup = Setup::new(true);
    setup.attaches = [flip(&mut random), flip(&mut random)];
    setup.signal_latency = Duration::from_micros(random.below(2_000));
    if flip(&mut random) {
        setup.chid = Chid(0x07c1);
    }
    let mut pair = setup.build();
    pair.sim.check_invariants();
    let faults = plan(&mut random);
    pair.sim.fabric().set_faults(faults);
    let mut ends: Vec<[SocketId; 2]> = Vec::new();
    let mut removed = false;
    for _ in 0..30 {
        let at = random.below(ends.len().max(1) as u64) as usize;
        let side = random.below(2) as usize;
        let end = ends.get(at).map(|ends| ends[side]);
        match (random.below(20), end) {
            (0..4, _) if ends.len() < 5 && !removed => {
                let hosts = match flip(&mut random) {
                    true => [pair.client, pair.server],
                    false => [pair.server, pair.client],
                };
                let (near, far) = pair.sim.connect(hosts[0], hosts[1]);
                ends.push([near, far]);
            }
            (4..14, Some(end)) => {
                let length = random.below(60_000);
                let bytes: Vec<u8> = (0..length).map(|n| (n ^ seed) as u8).collect();
                pair.sim.write(end, &bytes);
            }
            (14, Some(end)) => pair.sim.finish(end),
            (15, Some(end)) => pair.sim.close(end),
            (16, Some(end)) if seed.is_multiple_of(3) => pair.sim.abort(end),
            (17, _) if seed.is_multiple_of(5) && !removed => {
                removed = true;
                pair.sim.fabric().remove_ism(pair.client, DEVICE);
            }
            _ => {}
        }
        pair.run(Duration::from_micros(random.below(20_000)));
    }
    // The quiet phase: all connections end, and all timers may fire.
    pair.sim.end_faults();
    for end in ends.iter().flatten() {
        pair.sim.finish(*end);
    }
    pair.run(Duration::from_secs(300));
    let mut outcome = [0; 3];
    for [near, far] in &ends {
        let states = [near, far].map(|end| *pair.sim.state(*end).unwrap());
        let [a, b] = states.each_ref().map(|state| state.closed);
        match (states[0].transport, a, b) {
            (Transport::Smc, Some(a), Some(b)) => {
                let orderly = [a, b] == [CloseReason::Normal; 2];
                outcome[usize::from(orderly)] += 1;
            }
            (Transport::Tcp, _, _) => outcome[2] += 1,
            // The rendezvous was cut off, or one side was notified of a reset.
            (_, a, b) => assert!(
                a.is_some() || b.is_some() || states.iter().any(|s| s.tcp_reset),
                "seed {seed}: {states:?}\n{}",
                pair.sim.trace()
            ),
        }
    }
    pair.run(Duration::from_secs(700));
    pair.assert_all_gone();
    outcome
}

#[test]
fn any_run_ends_clean() {
    let mut sums = [0; 3];
    for seed in 0..600 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        let Ok(outcome) = outcome else {
            panic!("seed {seed}");
        };
        for (sum, more) in sums.iter_mut().zip(outcome) {
            *sum += more;
        }
    }
    let [broken, orderly, fallen_back] = sums;
    println!("{orderly} closed in order, {broken} broke off, {fallen_back} over TCP");
    assert!(
        broken > 100 && orderly > 100 && fallen_back > 100,
        "{sums:?}"
    );
}
