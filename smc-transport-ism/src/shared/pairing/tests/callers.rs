//! Calls are bounded, for each user and all, and end with their callers.

use std::net::TcpStream;

use rustix::net::{SocketAddrUnix, sockopt};

use super::{PATIENT, World, caller, calls, paired, socket, take_calls};
use crate::device::IsmDevice;
use crate::shared::pairing::{Call, Callers, MAX_CALLERS, name_of};
use crate::shared::socket::{Received, Socket};

//= SHM-007 test
#[test]
fn callers_without_end_are_bounded_and_forgotten() {
    let mut world = World::new("127.0.0.1:0");
    let name = name_of(sockopt::socket_cookie(&world.listener).unwrap());
    let mut silent = Vec::new();
    for _ in 0..6 {
        for _ in 0..100 {
            let caller = Socket::unconnected().unwrap();
            let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
            rustix::net::connect(&caller, &name).unwrap();
            silent.push(caller);
        }
        let _plain = TcpStream::connect(world.address()).unwrap();
        assert!(world.accept().1.is_none());
        assert!(calls(&world) <= MAX_CALLERS);
    }
    world.pair();
    silent.clear();
    let _plain = TcpStream::connect(world.address()).unwrap();
    assert!(world.accept().1.is_none());
    assert_eq!(calls(&world), 0);
}

//= SHM-007 test
#[test]
fn a_crowd_of_one_user_pushes_no_call_of_another_out() {
    let mut world = World::new("127.0.0.1:0");
    let (to, gid) = (world.address(), world.client.facts().gid);
    let tcp = socket(to);
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap().unwrap();
    take_calls(&mut world);
    let own = core::mem::replace(&mut world.rendezvous.callers.lock().all[0].uid, 4_000_000);
    let mut crowd = Vec::new();
    for _ in 0..6 {
        crowd.extend((0..100).map(|_| caller(&world, 0)));
        take_calls(&mut world);
        assert!(calls(&world) <= MAX_CALLERS);
    }
    world.rendezvous.callers.lock().all[0].uid = own;
    rustix::net::connect(&tcp, &to).unwrap();
    let (_accepted, answer) = world.accept();
    let [one, two] = world.settle(&tcp.into(), call, answer.expect("its call is kept"));
    paired(one);
    paired(two);
}

/// One user calls at two listeners of a stack; another one has called at the first before.
//= SHM-007 test
#[test]
fn calls_are_bounded_for_all_listeners_together() {
    let callers = Callers::new(100);
    let mut worlds = ["127.0.0.1:0"; 2].map(|address| World::new_in(address, &callers));
    let (to, gid) = (worlds[0].address(), worlds[0].client.facts().gid);
    let tcp = socket(to);
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap().unwrap();
    take_calls(&mut worlds[0]);
    let own = core::mem::replace(&mut callers.lock().all[0].uid, 4_000_000);
    let mut crowd = Vec::new();
    for _ in 0..4 {
        for world in &mut worlds {
            crowd.extend((0..60).map(|_| caller(world, 0)));
            take_calls(world);
            assert!(callers.lock().all.len() <= 100);
        }
    }
    // Those of the crowd that are left called last, at either listener.
    let left = |caller: &Socket| matches!(caller.receive(), Received::Nothing);
    assert_eq!(crowd.iter().filter(|caller| left(caller)).count(), 99);
    assert!(crowd[crowd.len() - 99..].iter().all(left));
    callers.lock().all[0].uid = own;
    rustix::net::connect(&tcp, &to).unwrap();
    let (_accepted, answer) = worlds[0].accept();
    let [one, two] = worlds[0].settle(&tcp.into(), call, answer.expect("its call is kept"));
    paired(one);
    paired(two);
    // A rendezvous that is dropped takes its calls along.
    let [_, second] = worlds;
    drop(second);
    drop(crowd);
    assert!(!callers.sweep());
}

//= SHM-036 test
#[test]
fn a_client_that_dies_before_connecting_is_not_kept() {
    let mut world = World::new("127.0.0.1:0");
    let announce = |world: &World| {
        let tcp = socket(world.address());
        let gid = world.client.facts().gid;
        let call = Call::announce(&tcp, world.address(), gid, PATIENT).unwrap();
        call.expect("a listener to call")
    };
    // One has gone when the next connection is accepted, and one goes after that.
    drop(announce(&world));
    let lives = announce(&world);
    let _plain = TcpStream::connect(world.address()).unwrap();
    let (_, answer) = world.accept();
    assert!(answer.is_none());
    assert_eq!(calls(&world), 1);
    assert!(world.rendezvous.callers.sweep());
    drop(lives);
    assert!(!world.rendezvous.callers.sweep());
    assert_eq!(calls(&world), 0);
}
