//! What breaks a queue pair, and how both ends see it.

use smc_proto::completion::LinkFailure;
use smc_proto::time::Duration;
use smc_proto::wire::types::{Psn, Qpn, RKey, RToken};

use super::world::*;
use crate::completion::Completion;
use crate::fabric::{FabricConfig, QueuePairState};

fn refused_write(rtoken: impl Fn(RToken) -> RToken, length: usize) {
    let mut world = World::new();
    world.send(0, 1, b"before");
    world.write(0, &vec![7; length], rtoken(world.rmb[1]));
    world.send(0, 2, b"behind");
    let [near, far] = world.run();
    assert_eq!(
        near,
        [sent(1), failed(LinkFailure::RemoteAccess, Some(OWNER))]
    );
    assert_eq!(far, [received(b"before"), failed(LinkFailure::Other, None)]);
    assert!(world.read(1, 0, 2 * ELEMENT).iter().all(|byte| *byte == 0));
    for host in world.hosts {
        assert_eq!(
            world.fabric.queue_pair_state(host, LINK),
            Some(QueuePairState::Error)
        );
    }
}

#[test]
fn a_wrong_key_breaks_both_ends() {
    refused_write(
        |own| RToken {
            rkey: RKey(own.rkey.0 ^ 1),
            ..own
        },
        8,
    );
    refused_write(
        |own| RToken {
            rkey: RKey(0),
            ..own
        },
        8,
    );
}

#[test]
fn a_range_that_leaves_the_region_breaks_both_ends() {
    let whole = u64::from(2 * ELEMENT);
    refused_write(
        |own| RToken {
            address: own.address + whole - 7,
            ..own
        },
        8,
    );
    refused_write(
        |own| RToken {
            address: own.address - 1,
            ..own
        },
        8,
    );
    refused_write(
        |own| RToken {
            address: own.address + whole,
            ..own
        },
        1,
    );
    // Sums that leave 64 bits must not come back as small offsets.
    refused_write(
        |own| RToken {
            address: u64::MAX,
            ..own
        },
        8,
    );
    refused_write(|own| RToken { address: 0, ..own }, 8);
}

#[test]
fn the_last_byte_of_a_region_can_be_written() {
    let mut world = World::new();
    let last = RToken {
        address: world.rmb[1].address + u64::from(2 * ELEMENT) - 1,
        ..world.rmb[1]
    };
    world.write(0, &[9], last);
    world.run();
    assert_eq!(world.read(1, 2 * ELEMENT - 1, 1), [9]);
}

#[test]
fn a_send_buffer_takes_no_remote_writes() {
    let mut world = World::new();
    let before = world.fabric.clone();
    // Keys come from the seed: find the one of the send buffer by registering it anew.
    world.fabric.deregister_buffer(world.hosts[1], SEND, LINK);
    world.run();
    world.fabric.register_buffer(world.hosts[1], SEND, LINK);
    let [_, far] = world.run();
    let Some(Completion::BufferRegistered { rtoken, .. }) = far.first().cloned() else {
        panic!("{far:?}");
    };
    world.write(0, &[1; 8], rtoken);
    assert_eq!(
        world.run()[0],
        [failed(LinkFailure::RemoteAccess, Some(OWNER))]
    );
    assert_ne!(before.now(), world.at());
}

#[test]
fn a_key_is_dead_once_its_registration_is_undone() {
    let mut world = World::new();
    world.fabric.deregister_buffer(world.hosts[1], RMB, LINK);
    world.run();
    world.write(0, &[1; 8], world.rmb[1]);
    assert_eq!(
        world.run()[0],
        [failed(LinkFailure::RemoteAccess, Some(OWNER))]
    );
}

#[test]
fn a_send_longer_than_the_receive_breaks_both_ends() {
    let mut world = World::new();
    world.send(0, 1, &[0; 45]);
    let [near, far] = world.run();
    assert_eq!(near, [failed(LinkFailure::Other, None)]);
    assert_eq!(far, [failed(LinkFailure::Other, None)]);
}

#[test]
fn a_receiver_that_stays_unready_breaks_the_sender_only() {
    let mut world = World::new();
    world
        .fabric
        .withhold_receives(0, world.hosts[1], Duration::MAX);
    let start = world.at();
    world.write(0, b"written", world.rmb[1]);
    world.send(0, 1, b"lost");
    let [near, far] = world.run();
    assert_eq!(near, [failed(LinkFailure::ReceiverNotReady, None)]);
    assert_eq!(far, []);
    assert_eq!(world.read(1, 0, 7), b"written");
    let waited = world.at().since(start);
    assert!(
        waited > Duration::from_millis(7) && waited < Duration::from_millis(8),
        "{waited:?}"
    );
}

#[test]
fn a_receiver_that_becomes_ready_loses_nothing() {
    let mut world = World::new();
    world
        .fabric
        .withhold_receives(0, world.hosts[1], Duration::from_micros(3500));
    for number in 0..5 {
        world.send(0, number, &[number as u8; 44]);
    }
    let [near, far] = world.run();
    assert_eq!(near, (0..5).map(sent).collect::<Vec<_>>());
    assert_eq!(far, (0..5).map(|n| received(&[n; 44])).collect::<Vec<_>>());
}

#[test]
fn receives_not_taken_from_the_queue_run_out() {
    let config = FabricConfig {
        receives: 3,
        ..FabricConfig::default()
    };
    let mut world = World::connected(config, 1);
    for number in 0..4 {
        world.send(0, number, b"x");
    }
    while world.fabric.step() {}
    let near = completions(&mut world.fabric, world.hosts[0]);
    let lost = failed(LinkFailure::ReceiverNotReady, None);
    assert_eq!(near, [sent(0), sent(1), sent(2), lost]);
}

fn unanswered(connect: impl Fn(&mut World)) {
    let mut world = World::created(FabricConfig::default(), 3);
    connect(&mut world);
    world.run();
    let start = world.at();
    world.send(0, 1, b"into the void");
    let [near, far] = world.run();
    assert_eq!(near, [failed(LinkFailure::RetriesExhausted, None)]);
    assert_eq!(far, []);
    let waited = world.at().since(start);
    assert!(waited >= Duration::from_millis(8 * 64), "{waited:?}");
}

#[test]
fn a_peer_that_expects_another_psn_receives_nothing() {
    for distance in [1, 0x00ff_ffff, 0x0080_0000] {
        unanswered(|world| {
            world.connect(0, world.address_of(1));
            let mut peer = world.address_of(0);
            peer.psn = Psn::new(peer.psn.value() + distance);
            world.connect(1, peer);
        });
    }
}

#[test]
fn a_peer_that_is_bound_to_another_peer_receives_nothing() {
    unanswered(|world| {
        world.connect(0, world.address_of(1));
        let mut peer = world.address_of(0);
        peer.qpn = Qpn::new(peer.qpn.value() ^ 1);
        world.connect(1, peer);
    });
}

#[test]
fn a_peer_in_state_init_receives_nothing() {
    unanswered(|world| world.connect(0, world.address_of(1)));
}

#[test]
fn an_unknown_address_receives_nothing() {
    unanswered(|world| {
        let mut peer = world.address_of(1);
        peer.gid = address(99).0;
        world.connect(0, peer);
    });
}

#[test]
fn a_peer_that_stopped_is_noticed_at_the_next_send_only() {
    let mut world = World::new();
    world.fabric.queue_pair_to_error(world.hosts[1], LINK);
    assert_eq!(
        world.run(),
        [vec![], vec![Completion::QpDrained { link: LINK }]]
    );
    world.send(0, 1, b"?");
    assert_eq!(
        world.run()[0],
        [failed(LinkFailure::RetriesExhausted, None)]
    );
}
