//! What a process holds for its devices. A program of its own: nothing else opens or
//! maps anything meanwhile.
#![cfg(target_os = "linux")]

use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use smc_transport_ism::device::{IsmDevice, IsmReport};
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{Call, Outcome, PairingTimeouts, Rendezvous};

const LEN: u32 = 16384;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A DMB's life: made, attached, written, given back by both.
fn one_life(mover: &mut Device, owner: &mut Device) {
    let peer = mover.facts().gid;
    let dmb = owner.register_dmb(LEN, peer, None).unwrap();
    let report = owner.wait(Some(Duration::from_secs(20))).unwrap();
    let Some(IsmReport::DmbRegistered { dmb: of, token }) = report else {
        panic!("{report:?}");
    };
    assert_eq!(of, dmb);
    let remote = mover.attach_dmb(owner.facts().gid, token, LEN).unwrap();
    mover.move_data(remote, 0, 0, &[1; LEN as usize]).unwrap();
    owner.unregister_dmb(dmb).unwrap();
    mover.detach_dmb(remote).unwrap();
    // It learns that the DMB is gone.
    while mover.wait(Some(Duration::ZERO)).unwrap().is_some() {}
}

/// Open descriptors, and mappings of DMBs.
fn possessions() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
        maps.matches("smc-d").count(),
    )
}

//= SHM-021 test
#[test]
fn registering_for_ever_uses_nothing_up() {
    let _alone = alone();
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    one_life(&mut one, &mut two);
    let before = possessions();
    for _ in 0..500 {
        one_life(&mut one, &mut two);
    }
    assert_eq!(possessions(), before);
}

//= SHM-013 test
#[test]
fn connections_that_share_a_channel_use_nothing_up() {
    let _alone = alone();
    let long = Duration::from_secs(20);
    let timeouts = PairingTimeouts {
        accept: long,
        grace: long,
        go: long,
    };
    let (mut client, mut server) = (Device::open().unwrap(), Device::open().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let mut rendezvous = Rendezvous::open(&listener, server.facts().gid).unwrap();
    let mut pair = || {
        let tcp = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let call = Call::announce(&tcp, to, client.facts().gid, timeouts).unwrap();
        rustix::net::connect(&tcp, &to).unwrap();
        let (tcp, call) = (TcpStream::from(tcp), call.unwrap());
        let (accepted, _) = listener.accept().unwrap();
        let answer = rendezvous.answer(&accepted, |peer| server.is_joined(peer), &timeouts);
        let answer = answer.expect("it has called");
        let (near, far) = std::thread::scope(|scope| {
            let far = scope.spawn(|| answer.finish().unwrap());
            let near = call.finish(&tcp, |peer| client.is_joined(peer)).unwrap();
            (near, far.join().unwrap())
        });
        for (device, outcome) in [(&mut client, near), (&mut server, far)] {
            let Outcome::Paired(paired) = outcome else {
                panic!("plain");
            };
            device.admit(paired).unwrap();
        }
    };
    pair();
    let before = possessions();
    (0..50).for_each(|_| pair());
    assert_eq!(possessions(), before);
}
