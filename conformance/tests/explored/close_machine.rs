//! Everything that can happen to two connections that end, in every order
//! (RFC 7609 4.8). Larger bounds: `conformance close-machine`.

use std::collections::BTreeSet;

use conformance::close_machine::projection::{Event, project};
use conformance::close_machine::{Bounds, Explored, compare, explore};
use smc_proto::connection::CloseState;

const BOUNDS: Bounds = Bounds {
    queue: 1,
    bytes: 1,
    links: 1,
    reorder: false,
    late_completions: false,
};

#[track_caller]
fn finds(bounds: Bounds, states: usize, transitions: usize) {
    match explore(bounds, |_| ()) {
        Ok(Explored { found, .. }) => {
            assert_eq!((found.states, found.transitions), (states, transitions))
        }
        Err(fault) => panic!("\n{fault}"),
    }
}

#[test]
fn an_byte_each_way_and_every_end_of_it() {
    //= CLOSE-028 test
    //= CLOSE-040 test
    finds(BOUNDS, 90_653, 200_899);
}

#[test]
fn every_end_while_a_link_fails() {
    //= FAILOVER-016 test
    let bounds = Bounds {
        bytes: 0,
        links: 2,
        reorder: true,
        late_completions: true,
        ..BOUNDS
    };
    finds(bounds, 1_285_006, 4_951_912);
}

/// Numbers of the abstract model, of the engine seen as the model, and of what both have.
#[track_caller]
fn compares(bounds: Bounds, [model, engine, covered]: [usize; 3]) -> Vec<[usize; 2]> {
    let comparison = compare(bounds, 1, |_| ());
    assert!(comparison.is_explained(), "{comparison}");
    let found = [comparison.model, comparison.engine, comparison.covered];
    assert_eq!(found, [model, engine, covered], "{comparison}");
    let effects = comparison.effects.iter();
    effects.map(|effect| [effect.gone, effect.added]).collect()
}

#[test]
fn the_engine_is_the_abstract_model_with_seven_rules() {
    // Nothing follows C; aborts at any time; what was written is sent first; a peer that
    // closed takes nothing; bytes leave together; the newest message contains it all; nothing
    // to read without a link.
    let bounds = Bounds {
        reorder: true,
        ..BOUNDS
    };
    let effects = compares(bounds, [9_743, 5_911, 2_247]);
    let expected = [
        [5_972, 1_669],
        [0, 0],
        [0, 1_499],
        [176, 352],
        [0, 0],
        [4_861, 3_442],
        [267, 0],
    ];
    assert_eq!(effects, expected);
    let bounds = Bounds {
        queue: 2,
        bytes: 2,
        ..bounds
    };
    compares(bounds, [20_482, 24_394, 3_843]);
}

#[test]
fn every_cell_of_the_close_table_that_can_be_is_hit() {
    use CloseState::{
        Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, PeerAbortWait,
        PeerCloseWait1, PeerCloseWait2, PeerFinCloseWait, ProcessAbort,
    };
    use Event::{Abort, Close, Deadline, LinksLost, PeerAborted, PeerClosed, PeerDone, ShutDown};
    let bounds = Bounds {
        reorder: true,
        ..BOUNDS
    };
    let never: [(CloseState, &[Event]); 10] = [
        (Active, &[]),
        // What was sent before is not sent again, and a side that shut down does not do it again.
        (PeerCloseWait1, &[ShutDown]),
        (PeerCloseWait2, &[ShutDown, PeerDone]),
        // The peer has sent its last message, and nothing is waited for but the application.
        (
            AppFinCloseWait,
            &[ShutDown, PeerDone, PeerClosed, PeerAborted, Deadline],
        ),
        (AppCloseWait1, &[PeerDone]),
        (AppCloseWait2, &[ShutDown, PeerDone, Deadline]),
        // The application has closed.
        (PeerFinCloseWait, &[ShutDown, Close, Abort, PeerDone]),
        (PeerAbortWait, &[]),
        // Left at once: the answer is sent in the same step.
        (ProcessAbort, &Event::ALL),
        (Closed, &[Deadline]),
    ];
    let cells = project(bounds, 2, |_| ()).cells;
    let all = never.iter().flat_map(|(state, never)| {
        let events = Event::ALL
            .into_iter()
            .filter(|event| !never.contains(event));
        events.map(|event| (*state, event))
    });
    assert_eq!(cells, all.collect::<BTreeSet<_>>());
    assert!(cells.contains(&(Active, LinksLost)));
}
