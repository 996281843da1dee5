//! What strikes, and what is counted.

use smc_proto::time::{Duration, Instant};

use super::*;
use crate::fabric::HostId;
use crate::random::Random;

#[test]
fn a_fault_tied_to_sends_strikes_llc_messages_too_but_not_the_other_way_round() {
    let any = Trigger::Nth {
        operation: Operation::Send,
        number: 2,
    };
    let llc = Trigger::Nth {
        operation: Operation::SendLlc,
        number: 1,
    };
    let mut plan = FaultPlan::none()
        .with(any, None, FaultAction::TcpReset)
        .with(llc, None, FaultAction::Refuse);
    let mut random = Random::new(1);
    let mut strike = |operation| plan.strike(HostId(0), operation, &mut random);
    assert_eq!(strike(Operation::Send), []);
    assert_eq!(
        strike(Operation::SendLlc),
        [(0, FaultAction::TcpReset), (1, FaultAction::Refuse)]
    );
    assert_eq!(strike(Operation::SendLlc), []);
}

#[test]
fn effects_are_counted_by_fault_and_phase() {
    let at = Trigger::At(Instant::ZERO);
    let mut plan = FaultPlan::none()
        .with(at, None, FaultAction::TcpReset)
        .with(at, None, FaultAction::Busy(Duration::ZERO))
        .with(at, None, FaultAction::Refuse);
    plan.note(1, Phase::Data);
    plan.note(1, Phase::Data);
    plan.note(1, Phase::Idle);
    plan.note(2, Phase::Closing);
    assert_eq!(plan.effective(), 2);
    assert!(!plan.took_effect(0));
    let effects: Vec<_> = plan
        .effects()
        .map(|effect| (effect.kind, effect.phase, effect.times))
        .collect();
    assert_eq!(
        effects,
        [
            (FaultKind::Busy, Phase::Idle, 1),
            (FaultKind::Busy, Phase::Data, 2),
            (FaultKind::Refuse, Phase::Closing, 1),
        ]
    );
}

#[test]
fn a_plan_that_was_disarmed_strikes_no_more_and_is_another_one() {
    let always = Trigger::Chance {
        operation: Operation::Write,
        per_million: 1_000_000,
    };
    let mut plan = FaultPlan::none().with(always, None, FaultAction::TcpReset);
    let mut random = Random::new(1);
    assert_eq!(
        plan.strike(HostId(0), Operation::Write, &mut random).len(),
        1
    );
    let hash = |plan: &FaultPlan| {
        let mut hasher = crate::random::StreamHash::new();
        std::hash::Hash::hash(plan, &mut hasher);
        hasher.value()
    };
    let armed = hash(&plan);
    plan.disarm();
    assert_eq!(
        plan.strike(HostId(0), Operation::Write, &mut random).len(),
        0
    );
    assert_eq!(plan.armed(0), None);
    assert_ne!(hash(&plan), armed);
}

#[test]
fn every_kind_and_phase_has_a_name_of_its_own() {
    let mut names: Vec<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
    names.extend(Phase::ALL.iter().map(|phase| phase.name()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
