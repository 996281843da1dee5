//! The channel that a pairing makes, or shares.

use std::time::Instant;

use rustix::net::{SocketAddrUnix, sockopt};

use super::{PATIENT, World, connect, done, listening, paired};
use crate::device::{Gid128, IsmDevice};
use crate::shared::message::Message;
use crate::shared::pairing::{Peer, Reach, name_of};
use crate::shared::socket::{Received, Socket};

//= SHM-014 test
#[test]
fn what_fails_behind_go_is_out_of_reach_and_not_plain() {
    let mut world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let mut call = call.unwrap();
    let progress = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    assert!(done(progress).is_none(), "GO is sent, the channel awaited");
    // The server ends before there is a channel.
    drop(answer);
    let outcome = call.finish(&tcp, |_| false).unwrap();
    assert!(world.client.admit(paired(outcome)).is_err());
    let gid = world.server.facts().gid;
    assert!(!world.client.query_reach(gid, None));
}

//= SHM-013 test
#[test]
fn later_connections_share_the_channel() {
    let mut world = World::new("127.0.0.1:0");
    world.pair();
    let channels =
        |world: &World| [&world.server, &world.client].map(|device| device.channels.iter().count());
    assert_eq!(channels(&world), [1, 1]);
    for _ in 0..50 {
        world.pair();
    }
    assert_eq!(channels(&world), [1, 1]);
}

/// The channels of both sides, and the client's bounds, decide about another one.
//= SHM-010 test
//= SHM-013 test
//= SHM-042 test
#[test]
fn a_channel_is_made_unless_both_have_one_already_or_there_may_be_none() {
    let listener = listening("127.0.0.1:0");
    let to = listener.local_addr().unwrap();
    let name = name_of(sockopt::socket_cookie(&listener).unwrap());
    let server = Socket::unconnected().unwrap();
    rustix::net::bind(&server, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    rustix::net::listen(&server, 8).unwrap();
    let gid = Gid128 { gid: 1, ext: 2 };
    for case in 0..8 {
        let [theirs, ours, may_greet] = [1, 2, 4].map(|bit| case & bit != 0);
        let (tcp, call) = connect(to, gid, PATIENT);
        let mut call = call.unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let caller = Socket::new(rustix::net::accept_with(&server, Socket::FLAGS).unwrap());
        assert!(matches!(
            caller.receive(),
            Received::Message(Message::Announce { .. }, None)
        ));
        let mine = Message::Mine {
            cookie: sockopt::socket_cookie(&accepted).unwrap(),
            gid,
            joined: theirs,
        };
        caller.send(mine, None).unwrap();
        let reach = |_: &Peer| Reach {
            joined: ours,
            may_greet,
        };
        let _ = call.poll(&tcp, reach, Instant::now()).unwrap();
        let Received::Message(Message::Go { fresh, .. }, None) = caller.receive() else {
            panic!("{theirs} {ours} {may_greet}");
        };
        assert_eq!(
            fresh,
            may_greet && !(theirs && ours),
            "{theirs} {ours} {may_greet}"
        );
    }
}
