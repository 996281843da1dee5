//! Everything that can happen to two engines while they decide whether SMC carries a
//! connection, in every order (RFC 7609 3.5). Larger bounds: `conformance
//! handshake-machine`.
//!
//! The numbers are exact: a change of them is a change of what can happen.

use std::collections::BTreeMap;

use conformance::explore::Fault;
use conformance::handshake_machine::{
    Action, Bounds, Outcome, Scenario, Summary, Transport, explore_all, explore_working,
};
use smc_proto::version::SmcVersion::{V1, V2};

/// Each of it once, in one run.
const EVERYTHING: Bounds = Bounds {
    cuts: 1,
    failures: 1,
    breaks: 1,
    endings: 1,
};

/// States, transitions, and states at the end in which SMC or TCP carries the connection,
/// or nothing.
type Numbers = (usize, usize, [usize; 3]);

#[track_caller]
fn finds(explored: Result<Summary, (Scenario, Fault<Action>)>, scenarios: usize, numbers: Numbers) {
    let summary = match explored {
        Ok(summary) => summary,
        Err((scenario, fault)) => panic!("{scenario}\n{fault}"),
    };
    let (states, transitions, ends) = numbers;
    let outcomes = [Outcome::Smc, Outcome::Tcp, Outcome::Over];
    let expected = Summary {
        scenarios,
        ends: BTreeMap::from_iter(outcomes.into_iter().zip(ends)),
        ..summary
    };
    let found = (summary.found.states, summary.found.transitions);
    assert_eq!((summary, found), (expected, (states, transitions)));
}

#[test]
fn whatever_does_not_work_both_sides_have_one_answer() {
    //= CLC-047 test
    //= CLC-064 test
    //= TCPOPT-008 test
    //= RENDEZVOUS-007 test
    let explored = explore_all(Bounds::default(), |_, _| ());
    // Some of these differ only in whether a spare DMB is unregistered before its group ends.
    finds(explored, 242, (75_437, 137_100, [420, 1_600, 23_371]));
}

#[test]
fn smcr_of_version_1_whatever_fails_meanwhile() {
    //= CLC-064 test
    //= CLC-051 test
    // Without `leave_finished_element` there are some 600 states fewer: of connections that have
    // sent their close, some end by RmbeConflict there that wait for the peer's close here.
    let explored = explore_working(&[Transport::SmcR(V1)], EVERYTHING, |_, _| ());
    finds(explored, 4, (125_214, 404_295, [306, 4_736, 34_242]));
}

#[test]
fn smcr_of_version_2_whatever_fails_meanwhile() {
    //= CLC-064 test
    //= V2-084 test
    // As in version 1, some 600 states fewer without `leave_finished_element`.
    let explored = explore_working(&[Transport::SmcR(V2)], EVERYTHING, |_, _| ());
    finds(explored, 4, (125_452, 404_675, [306, 4_736, 34_408]));
}

#[test]
fn smcd_whatever_fails_meanwhile() {
    //= CLC-064 test
    //= D-058 test
    let transports = [V1, V2].map(Transport::SmcD);
    let explored = explore_working(&transports, EVERYTHING, |_, _| ());
    // Some 5,500 states fewer if a spare DMB is kept as long as its group (D-057).
    finds(explored, 6, (31_048, 110_806, [32, 2_164, 5_528]));
}
