//! Faults that last: silence, lost completions, held completions, full queues.

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use super::world::*;
use crate::completion::{Completion, FabricCompletion};
use crate::fabric::FabricConfig;
use crate::fault::{
    FaultAction, FaultKind, FaultPlan, Lost, Operation, Phase, PortSelector, Trigger,
};

const MILLISECOND: Duration = Duration::from_millis(1);

fn now(action: FaultAction) -> FaultPlan {
    FaultPlan::none().with(Trigger::At(Instant::ZERO), None, action)
}

fn at_host(world: &World, side: usize, action: FaultAction) -> FaultPlan {
    FaultPlan::none().with(Trigger::At(Instant::ZERO), world.hosts[side], action)
}

/// Kinds of the faults that took effect, and how often.
fn effects(world: &World) -> Vec<(FaultKind, u64)> {
    let effects = world.fabric.faults().effects();
    effects.map(|effect| (effect.kind, effect.times)).collect()
}

fn silence(lost: Lost, time: Duration) -> FaultAction {
    let device = None;
    FaultAction::SilenceLink { device, lost, time }
}

/// Lets what was scheduled for now happen.
fn begin(world: &mut World, plan: FaultPlan) {
    world.fabric.set_faults(plan);
    assert!(world.fabric.step());
}

#[test]
fn a_link_that_is_silent_in_one_direction_breaks_at_the_end_that_sends() {
    let mut world = World::new();
    let plan = at_host(&world, 0, silence(Lost::Sent, Duration::MAX));
    begin(&mut world, plan);
    assert_eq!(effects(&world), [], "it has hit nothing so far");
    let start = world.at();
    world.send(0, 1, b"into the void");
    // Its answer gets lost, too: an acknowledgement is a packet.
    world.send(1, 1, b"still");
    let [near, far] = world.run();
    let broken = failed(LinkFailure::RetriesExhausted, None);
    assert_eq!(near, [received(b"still"), broken.clone()]);
    assert_eq!(far, [broken]);
    let retries = u32::from(FabricConfig::default().retry_count) + 1;
    let realistic = FabricConfig::default().retry_timeout * retries;
    assert!(world.at().since(start) >= realistic);
    assert_eq!(effects(&world), [(FaultKind::SilenceLink, 1)]);
    assert_eq!(world.fabric.links().len(), 1);
    assert!(world.fabric.links()[0].harmed.is_some());
}

#[test]
fn silence_shorter_than_the_retries_loses_nothing() {
    for lost in [Lost::Sent, Lost::Received, Lost::Both] {
        let mut world = World::new();
        let port = PortSelector {
            device: Some(DeviceId(0)),
            port: Some(1),
        };
        let time = 200 * MILLISECOND;
        let plan = at_host(&world, 1, FaultAction::SilencePort { port, lost, time });
        begin(&mut world, plan);
        world.send(0, 1, b"x");
        assert_eq!(world.run(), [vec![sent(1)], vec![received(b"x")]]);
        assert_eq!(effects(&world), [(FaultKind::SilencePort, 1)]);
        assert_eq!(world.fabric.links()[0].harmed, None);
    }
}

#[test]
fn what_is_acknowledged_and_not_placed_is_lost_for_good() {
    let mut world = World::new();
    let lose = FaultAction::AcknowledgeAndLose(MILLISECOND);
    let plan = at_host(&world, 0, lose);
    begin(&mut world, plan);
    world.write(0, b"gone", world.rmb[1]);
    world.send(0, 1, b"gone, too");
    let broken = failed(LinkFailure::RetriesExhausted, None);
    assert_eq!(world.run(), [vec![sent(1), broken.clone()], vec![broken]]);
    assert_eq!(world.read(1, 0, 4), [0; 4]);
    assert!(world.fabric.lost_write(world.hosts[0], OWNER));
    assert!(!world.fabric.lost_write(world.hosts[1], OWNER));
    assert_eq!(effects(&world), [(FaultKind::AcknowledgeAndLose, 1)]);
}

#[test]
fn a_link_that_had_nothing_to_lose_survives() {
    for lose in [
        FaultAction::AcknowledgeAndLose(MILLISECOND),
        FaultAction::LoseCompletions(MILLISECOND),
    ] {
        let mut world = World::new();
        begin(&mut world, now(lose));
        world.run();
        world.send(0, 1, b"x");
        assert_eq!(world.run(), [vec![sent(1)], vec![received(b"x")]]);
        assert_eq!(effects(&world), []);
    }
}

#[test]
fn a_completion_is_lost_after_the_peer_has_the_message() {
    let mut world = World::new();
    let lose = FaultAction::LoseCompletions(MILLISECOND);
    let second = Trigger::Nth {
        operation: Operation::Sent,
        number: 2,
    };
    let plan = FaultPlan::none().with(second, world.hosts[0], lose);
    world.fabric.set_faults(plan);
    for number in 0..3 {
        world.send(0, number, &[number as u8]);
    }
    let [near, far] = world.run();
    let broken = failed(LinkFailure::RetriesExhausted, None);
    assert_eq!(near, [sent(0), broken.clone()]);
    let all: Vec<FabricCompletion> = (0..3).map(|number| received(&[number])).collect();
    assert_eq!(far[..3], all);
    assert_eq!(far[3..], [broken]);
    assert_eq!(effects(&world), [(FaultKind::LoseCompletions, 1)]);
}

#[test]
fn held_completions_come_all_at_once() {
    let mut world = World::new();
    let plan = at_host(&world, 0, FaultAction::HoldCompletions(MILLISECOND));
    begin(&mut world, plan);
    let until = world.at().after(MILLISECOND);
    for number in 0..3 {
        world.send(0, number, b"x");
    }
    while world.at() < until {
        assert_eq!(completions(&mut world.fabric, world.hosts[0]), []);
        assert!(world.fabric.step());
    }
    let [near, _] = world.run();
    assert_eq!(world.at(), until);
    assert_eq!(near, [sent(0), sent(1), sent(2)]);
    assert_eq!(effects(&world), [(FaultKind::HoldCompletions, 1)]);
}

#[test]
fn a_queue_pair_is_drained_only_after_what_was_held_back() {
    let mut world = World::new();
    let plan = at_host(&world, 0, FaultAction::HoldCompletions(MILLISECOND));
    begin(&mut world, plan);
    world.send(0, 1, b"x");
    while world.fabric.now().since(Instant::ZERO) < Duration::from_micros(900) {
        let until = world.at().after(Duration::from_micros(100));
        world.fabric.run_until(until);
    }
    world.fabric.queue_pair_to_error(world.hosts[0], LINK);
    let drained = Completion::QpDrained { link: LINK };
    assert_eq!(world.run()[0], [sent(1), drained]);
}

#[test]
fn a_burst_overruns_the_few_receives_there_are() {
    let mut world = World::new();
    let time = 10 * MILLISECOND;
    let receives = 1;
    let plan = at_host(&world, 1, FaultAction::FewReceives { receives, time });
    begin(&mut world, plan);
    for number in 0..4 {
        world.send(0, number, &[number as u8]);
    }
    let [near, far] = world.run();
    assert_eq!(near, (0..4).map(sent).collect::<Vec<_>>());
    assert_eq!(
        far,
        (0..4).map(|number| received(&[number])).collect::<Vec<_>>()
    );
    let seen = world.seen.lock().unwrap().clone();
    assert!(seen.not_accepted > 0, "nothing was refused: {seen:?}");
    assert_eq!(effects(&world), [(FaultKind::FewReceives, 1)]);
}

#[test]
fn nothing_overtakes_on_a_wire_that_was_slow() {
    let mut world = World::new();
    let slow = FaultAction::SlowPort {
        port: PortSelector::ANY,
        by: 5 * MILLISECOND,
        time: MILLISECOND,
    };
    let plan = at_host(&world, 1, slow);
    begin(&mut world, plan);
    let start = world.at();
    world.send(0, 1, b"slow");
    assert!(world.fabric.run_until(start.after(2 * MILLISECOND)));
    world.send(0, 2, b"fast");
    let [near, far] = world.run();
    assert_eq!(far, [received(b"slow"), received(b"fast")]);
    assert_eq!(near, [sent(1), sent(2)]);
    assert!(world.at().since(start) >= 5 * MILLISECOND);
    assert_eq!(effects(&world), [(FaultKind::SlowPort, 1)]);
}

#[test]
fn in_the_quiet_phase_everything_works_again() {
    let mut world = World::new();
    let device = None;
    for action in [
        silence(Lost::Both, Duration::MAX),
        FaultAction::WithholdReceives(Duration::MAX),
        FaultAction::Busy(Duration::MAX),
        FaultAction::HoldCompletions(Duration::MAX),
        FaultAction::PortDown {
            port: PortSelector::ANY,
            time: Duration::MAX,
        },
    ] {
        begin(&mut world, now(action));
    }
    let chance = Trigger::Chance {
        operation: Operation::Send,
        per_million: 1_000_000,
    };
    let fail = FaultAction::FailLink {
        device,
        ends: crate::fault::Ends::Both,
        cause: LinkFailure::Other,
    };
    world
        .fabric
        .set_faults(FaultPlan::none().with(chance, None, fail));
    world.fabric.end_faults();
    assert!(world.fabric.is_ready(world.hosts[0], DeviceId(0)));
    world.send(0, 1, b"x");
    assert_eq!(world.run(), [vec![sent(1)], vec![received(b"x")]]);
    assert_eq!(effects(&world), []);
}

#[test]
fn effects_report_the_phase_and_decide_nothing() {
    let mut world = World::new();
    let mut hashes = Vec::new();
    let plan = at_host(&world, 0, FaultAction::LoseCompletions(MILLISECOND));
    for noted in [false, true] {
        let mut plan = plan.clone();
        if noted {
            plan.note(0, Phase::Data);
        }
        assert_eq!(plan.took_effect(0), noted);
        world.fabric.set_faults(plan);
        let mut hasher = crate::random::StreamHash::new();
        std::hash::Hash::hash(world.fabric.faults(), &mut hasher);
        hashes.push(hasher.value());
    }
    assert_eq!(hashes[0], hashes[1]);
    let effect = world.fabric.faults().effects().next().unwrap();
    assert_eq!(effect.phase, Phase::Data);
}
