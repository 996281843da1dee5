//! What a process holds for its devices. A program of its own: nothing else opens or
//! maps anything meanwhile.
#![cfg(target_os = "linux")]

use std::time::Duration;

use smc_transport_ism::device::{IsmDevice, IsmReport};
use smc_transport_ism::shared::Device;

const LEN: u32 = 16384;

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
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    one_life(&mut one, &mut two);
    let before = possessions();
    for _ in 0..500 {
        one_life(&mut one, &mut two);
    }
    assert_eq!(possessions(), before);
}
