//! What a pairing leaves behind whose connection is given up.

use std::time::Instant;

use super::{PATIENT, World, done, is_plain, paired};

/// The first message over a channel has a descriptor, which is in flight until the peer has
/// received it, whatever becomes of the connection.
//= SHM-042 test
#[test]
fn a_call_that_is_given_up_while_it_greets_counts_what_is_in_flight() {
    let mut world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let mut call = call.unwrap();
    let greets = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    assert!(done(greets).is_none(), "GO and the first message are sent");

    // The server might be of another user.
    let mut given_up = paired(call.give_up());
    let stranger = given_up.peer.uid + 1;
    given_up.peer.uid = stranger;
    world.client.abandon(given_up);
    let in_flight = |world: &World| world.client.in_flight_to(|uid| uid == stranger);
    assert!(in_flight(&world) > 0);

    // Its end of the socket goes.
    drop(answer);
    world.client.in_flight.sweep();
    assert_eq!(in_flight(&world), 0);
}

#[test]
fn a_call_that_is_given_up_before_go_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let (_tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let mut call = call.unwrap();
    assert!(is_plain(&call.give_up()));
    assert!(call.sockets().is_empty());
    assert!(is_plain(&answer.unwrap().finish().unwrap()));
}
