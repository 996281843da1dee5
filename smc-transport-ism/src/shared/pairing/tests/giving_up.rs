//! What a pairing leaves behind whose connection is given up.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::{PATIENT, SOON, World, done, is_plain, paired};
use crate::shared::pairing::PairingTimeouts;

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

//= SHM-011 test
#[test]
fn accepted_by_somebody_else_is_plain_after_the_grace() {
    let mut world = World::new("127.0.0.1:0");
    let timeouts = PairingTimeouts {
        grace: SOON,
        ..PATIENT
    };
    let (mut tcp, call) = world.connect(timeouts);
    // As a worker would that shares the listener and knows nothing of this.
    let mut accepted = world.listener.accept().unwrap().0;
    let outcome = call.unwrap().finish(&tcp, |_| false).unwrap();
    assert!(is_plain(&outcome));
    tcp.write_all(b"x").unwrap();
    let mut byte = [0];
    accepted.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x", "and no byte of CLC before it");
    // Had it asked after all, it would know that the client has withdrawn.
    let joined = |peer: &_| world.server.is_joined(peer);
    let answer = world.rendezvous.answer(&accepted, joined, &PATIENT);
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}

//= SHM-011 test
#[test]
fn octets_from_the_server_are_plain_at_once() {
    let world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PATIENT);
    let mut accepted = world.listener.accept().unwrap().0;
    accepted.write_all(b"220 ready").unwrap();
    assert!(is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()));
    let mut bytes = [0; 9];
    (&tcp).read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"220 ready", "none of it was taken");
}

//= SHM-011 test
#[test]
fn an_accept_that_lags_is_awaited_and_one_that_never_comes_is_not() {
    let mut world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PairingTimeouts {
        grace: SOON,
        ..PATIENT
    });
    std::thread::scope(|scope| {
        let client = scope.spawn(|| call.unwrap().finish(&tcp, |_| false).unwrap());
        std::thread::sleep(SOON * 10);
        let (_accepted, answer) = world.accept();
        paired(answer.unwrap().finish().unwrap());
        paired(client.join().unwrap());
    });
    let (tcp, call) = world.connect(PairingTimeouts {
        accept: SOON,
        ..PATIENT
    });
    assert!(is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()));
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}

//= SHM-010 test
//= SHM-012 test
#[test]
fn giving_up_and_going_on_exclude_each_other() {
    let late = Instant::now() + Duration::from_secs(3600);
    let mut world = World::new("127.0.0.1:0");
    // The client goes on, then the server's timeouts ends.
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let (mut call, mut answer) = (call.unwrap(), answer.unwrap());
    let first = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    assert!(done(first).is_none(), "it awaits the channel");
    let _ = answer.poll(late);
    let second = done(call.poll(&tcp, |_| false, Instant::now()).unwrap());
    paired(second.expect("both have spoken"));
    // The other way round.
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let (mut call, mut answer) = (call.unwrap(), answer.unwrap());
    assert!(is_plain(&done(answer.poll(late)).unwrap()));
    let outcome = done(call.poll(&tcp, |_| false, Instant::now()).unwrap());
    assert!(is_plain(&outcome.unwrap()));
}

//= SHM-012 test
#[test]
fn a_client_that_withdraws_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let (_tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    drop(call);
    assert!(is_plain(&answer.unwrap().finish().unwrap()));
    let (_tcp, call) = world.connect(PATIENT);
    drop(call);
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}
