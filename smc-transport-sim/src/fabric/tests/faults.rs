//! Faults of a plan.

use smc_proto::completion::LinkFailure;
use smc_proto::time::{Duration, Instant};

use super::world::*;
use crate::completion::Completion;
use crate::fabric::FabricConfig;
use crate::fault::{Ends, FaultAction, FaultPlan, Operation, Trigger};

const fn nth(operation: Operation, number: u64) -> Trigger {
    Trigger::Nth { operation, number }
}

#[test]
fn a_control_command_is_refused_or_late() {
    let mut world = World::new();
    let host = world.hosts[0];
    let late = Duration::from_secs(2);
    world.fabric.set_faults(
        FaultPlan::none()
            .with(nth(Operation::ClearElement, 2), host, FaultAction::Refuse)
            .with(
                nth(Operation::AnyControl, 3),
                None,
                FaultAction::Delay(late),
            ),
    );
    let start = world.at();
    for _ in 0..3 {
        world.fabric.clear_element(host, RMB, 0, 8, false);
    }
    let cleared = Completion::ElementCleared {
        buffer: RMB,
        offset: 0,
    };
    let refused = Completion::BufferRefused { buffer: RMB };
    assert_eq!(world.run()[0], [cleared.clone(), refused, cleared]);
    let latency = FabricConfig::default().control_latency;
    assert_eq!(world.at().since(start), late + latency);
}

#[test]
fn a_slow_command_does_not_stall_the_data_path() {
    let mut world = World::new();
    let slow = FaultAction::Delay(Duration::from_secs(2));
    world
        .fabric
        .set_faults(FaultPlan::none().with(nth(Operation::AnyControl, 1), None, slow));
    world.fabric.clear_element(world.hosts[1], RMB, 0, 8, false);
    world.send(0, 1, b"x");
    assert!(
        !world
            .fabric
            .run_until(world.at().after(Duration::from_millis(1)))
    );
    assert_eq!(
        completions(&mut world.fabric, world.hosts[1]),
        [received(b"x")]
    );
}

#[test]
fn a_late_completion_holds_back_those_behind_it() {
    let mut world = World::new();
    let delay = FaultAction::Delay(Duration::from_millis(1));
    let plan = FaultPlan::none().with(nth(Operation::Sent, 2), None, delay);
    world.fabric.set_faults(plan);
    for number in 0..4 {
        world.send(0, number, b"x");
    }
    while completions(&mut world.fabric, world.hosts[0]).is_empty() {
        assert!(world.fabric.step());
    }
    // The first is out, the second is late; this arrives long before it.
    world.send(1, 0, b"y");
    assert_eq!(world.run()[0], [sent(1), sent(2), sent(3), received(b"y")]);
}

#[test]
fn links_break_at_an_operation() {
    let broken = failed(LinkFailure::PortDown, None);
    for (ends, near, far) in [
        (Ends::Near, vec![sent(1), broken.clone()], vec![]),
        (
            Ends::Both,
            vec![sent(1), broken.clone()],
            vec![broken.clone()],
        ),
        (
            Ends::Far,
            vec![sent(1), failed(LinkFailure::RetriesExhausted, None)],
            vec![broken.clone()],
        ),
    ] {
        let mut world = World::new();
        let cause = LinkFailure::PortDown;
        let fail = FaultAction::FailLink {
            device: None,
            ends,
            cause,
        };
        let plan = FaultPlan::none().with(nth(Operation::Send, 2), world.hosts[0], fail);
        world.fabric.set_faults(plan);
        world.send(0, 1, b"through");
        let mut reported = world.run();
        world.write(0, b"written", world.rmb[1]);
        world.send(0, 2, b"lost");
        let [more_near, more_far] = world.run();
        reported[0].extend(more_near);
        reported[1].extend(more_far);
        assert_eq!(reported[0], near, "{ends:?}");
        assert_eq!(reported[1][0], received(b"through"));
        assert_eq!(reported[1][1..], far, "{ends:?}");
        // On the wire when the near end broke; refused by a far end that broke.
        let written = world.read(1, 0, 7) == b"written";
        assert_eq!(written, ends == Ends::Near, "{ends:?}");
    }
}

#[test]
fn links_break_at_a_time() {
    let mut world = World::new();
    let at = world.at().after(Duration::from_millis(5));
    let fail = FaultAction::FailLink {
        device: None,
        ends: Ends::Near,
        cause: LinkFailure::DeviceRemoved,
    };
    world
        .fabric
        .set_faults(FaultPlan::none().with(Trigger::At(at), world.hosts[1], fail));
    assert_eq!(
        world.run(),
        [vec![], vec![failed(LinkFailure::DeviceRemoved, None)]]
    );
    assert_eq!(world.at(), at);
}

#[test]
fn a_port_that_comes_back_in_time_loses_nothing() {
    for (sends, receives) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new();
        let gid = address(2).0;
        world.fabric.set_port(gid, sends, receives);
        for number in 0..5 {
            world.send(0, number, &[number as u8]);
        }
        let back = world.at().after(Duration::from_millis(200));
        let mut far = Vec::new();
        while !world.fabric.run_until(back) {
            far.extend(completions(&mut world.fabric, world.hosts[1]));
            assert_eq!(completions(&mut world.fabric, world.hosts[0]), []);
        }
        world.fabric.set_port(gid, true, true);
        let [near, more] = world.run();
        far.extend(more);
        assert_eq!(near, (0..5).map(sent).collect::<Vec<_>>());
        assert_eq!(
            far,
            (0..5).map(|number| received(&[number])).collect::<Vec<_>>()
        );
    }
}

#[test]
fn withheld_receives_are_a_fault_too() {
    let mut world = World::new();
    let withhold = FaultAction::WithholdReceives(Duration::MAX);
    let plan = FaultPlan::none().with(Trigger::At(Instant::ZERO), world.hosts[1], withhold);
    world.fabric.set_faults(plan);
    world.run();
    world.send(0, 1, b"x");
    assert_eq!(
        world.run()[0],
        [failed(LinkFailure::ReceiverNotReady, None)]
    );
}

#[test]
fn chance_is_the_seed() {
    let breaks = |seed| {
        let mut world = World::connected(FabricConfig::default(), seed);
        let trigger = Trigger::Chance {
            operation: Operation::Send,
            per_million: 100_000,
        };
        let cause = LinkFailure::Other;
        let fail = FaultAction::FailLink {
            device: None,
            ends: Ends::Both,
            cause,
        };
        world
            .fabric
            .set_faults(FaultPlan::none().with(trigger, None, fail));
        for number in 0..100 {
            world.send(0, number, b"x");
            world.run();
        }
        world.seen.lock().unwrap().sends
    };
    assert_eq!(breaks(1), breaks(1));
    assert!((0..20).any(|seed| breaks(seed) != breaks(1)));
    assert!((0..20).all(|seed| breaks(seed) < 100));
}
