//! A process whose table of descriptors is full. A program of its own: the limit is the
//! whole process's.
#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use smc_transport_ism::device::{DmbToken, IsmDevice, IsmError, IsmReport};
use smc_transport_ism::shared::Device;

const LEN: u32 = 16384;

fn registered(owner: &mut Device, mover: &Device) -> DmbToken {
    owner.register_dmb(LEN, mover.facts().gid, None).unwrap();
    let report = owner.wait(Some(Duration::from_secs(20))).unwrap();
    let Some(IsmReport::DmbRegistered { token, .. }) = report else {
        panic!("{report:?}");
    };
    token
}

/// Takes every descriptor that is left.
fn fill_the_table() -> Vec<OwnedFd> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(100);
    setrlimit(Resource::Nofile, limit).unwrap();
    let stdin = std::io::stdin();
    std::iter::from_fn(|| rustix::io::fcntl_dupfd_cloexec(&stdin, 0).ok()).collect()
}

/// An offer whose descriptor finds no room is lost alone: it is no breach of the peer's.
//= SHM-040 test
#[test]
fn an_offer_that_finds_no_descriptor_left_ends_nothing_else() {
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    let peer = two.facts().gid;
    let token = registered(&mut two, &one);
    let remote = one.attach_dmb(peer, token, LEN).unwrap();
    let lost = registered(&mut two, &one);
    let table = fill_the_table();
    assert_eq!(one.attach_dmb(peer, lost, LEN), Err(IsmError::Token));
    drop(table);
    assert!(one.query_reach(peer, None), "the channel goes on");
    assert_eq!(one.poll(), None);
    assert_eq!(one.move_data(remote, 0, 32, &[1]), Ok(()));
    let next = registered(&mut two, &one);
    assert!(one.attach_dmb(peer, next, LEN).is_ok());
}
