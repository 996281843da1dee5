//! Everything that can happen to two connections that end, in every order
//! (RFC 7609 4.8). Larger bounds: `conformance close-machine`.

use conformance::close_machine::{Bounds, Explored, explore};

const BOUNDS: Bounds = Bounds {
    queue: 1,
    octets: 1,
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
fn an_octet_each_way_and_every_end_of_it() {
    //= CLOSE-028 test
    //= CLOSE-040 test
    finds(BOUNDS, 91_997, 203_359);
}

#[test]
fn every_end_while_a_link_fails() {
    //= FAILOVER-016 test
    let bounds = Bounds {
        octets: 0,
        links: 2,
        reorder: true,
        late_completions: true,
        ..BOUNDS
    };
    finds(bounds, 1_285_006, 4_951_912);
}
