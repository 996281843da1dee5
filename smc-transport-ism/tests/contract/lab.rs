//! Where the devices under test come from, and how tests wait for them.

use smc_transport_ism::device::{
    CDC_LEN, Cdc, Dmb, DmbToken, Gid128, IsmDevice, IsmReport, RemoteDmb,
};
use smc_transport_ism::in_process;

/// A backend: devices that reach each other. Dropping one is its exit.
pub(crate) trait Lab {
    /// Device of the backend.
    type Device: IsmDevice;
    /// Whether it reports that a peer took a DMB back.
    const REPORTS_WITHDRAWALS: bool;
    /// Some devices, all on one machine.
    fn devices<const N: usize>() -> [Self::Device; N];
}

/// Devices of one process.
pub(crate) struct InProcess;

impl Lab for InProcess {
    type Device = in_process::Device;
    const REPORTS_WITHDRAWALS: bool = true;

    fn devices<const N: usize>() -> [Self::Device; N] {
        let machine = in_process::Machine::new(42);
        core::array::from_fn(|at| {
            machine
                .add(Gid128 {
                    gid: at as u64 + 1,
                    ext: 7,
                })
                .unwrap()
        })
    }
}

/// Devices joined by channels.
#[cfg(target_os = "linux")]
pub(crate) struct Shared;

#[cfg(target_os = "linux")]
impl Lab for Shared {
    type Device = smc_transport_ism::shared::Device;
    const REPORTS_WITHDRAWALS: bool = true;

    fn devices<const N: usize>() -> [Self::Device; N] {
        let mut devices: [Self::Device; N] =
            core::array::from_fn(|_| Self::Device::open().unwrap());
        for split in 1..N {
            let (left, right) = devices.split_at_mut(split);
            for one in left {
                Self::Device::join(one, &mut right[0]).unwrap();
            }
        }
        devices
    }
}

/// Polls a backend may need until it has polled everything.
const TIMEOUT: usize = 20_000;

/// The next report, which must come.
#[track_caller]
pub(crate) fn next(device: &mut impl IsmDevice) -> IsmReport {
    (0..TIMEOUT).find_map(|_| device.poll()).expect("a report")
}

/// There is no report.
#[track_caller]
pub(crate) fn quiet(device: &mut impl IsmDevice) {
    assert_eq!((0..TIMEOUT).find_map(|_| device.poll()), None);
}

/// Registers a DMB and awaits its token.
#[track_caller]
pub(crate) fn registered(
    device: &mut impl IsmDevice,
    peer: &impl IsmDevice,
    len: u32,
) -> (Dmb, DmbToken) {
    let dmb = device.register_dmb(len, peer.facts().gid, None).unwrap();
    match next(device) {
        IsmReport::DmbRegistered { dmb: of, token } if of == dmb => (dmb, token),
        other => panic!("{other:?}"),
    }
}

/// A DMB of `owner`, attached by `mover`.
#[track_caller]
pub(crate) fn joined<D: IsmDevice>(
    mover: &mut D,
    owner: &mut D,
    len: u32,
) -> (Dmb, DmbToken, RemoteDmb) {
    let (dmb, token) = registered(owner, mover, len);
    let remote = mover.attach_dmb(owner.facts().gid, token, len).unwrap();
    (dmb, token, remote)
}

/// A CDC message that carries a number in both cursors.
pub(crate) fn cdc(number: u64) -> Cdc {
    let mut cdc = [0; CDC_LEN];
    cdc[0] = 0xfe;
    cdc[8..16].copy_from_slice(&number.to_ne_bytes());
    cdc[16..24].copy_from_slice(&number.to_ne_bytes());
    cdc
}

/// The number in a CDC message.
pub(crate) fn number(cdc: &Cdc) -> u64 {
    u64::from_ne_bytes(cdc[8..16].try_into().unwrap())
}

/// All bytes of a DMB.
pub(crate) fn bytes(device: &impl IsmDevice, dmb: Dmb, len: u32) -> Vec<u8> {
    let mut bytes = vec![0xaa; len as usize];
    device.read(dmb, 0, &mut bytes).unwrap();
    bytes
}
