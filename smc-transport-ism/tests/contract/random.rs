//! Calls in any order, against a model of what a machine with ISM is.

use smc_transport_ism::device::{Dmb, IsmDevice, IsmError, IsmReport, RemoteDmb};

use crate::lab::{Lab, bytes, cdc, next, number};

const LEN: u32 = 8192;

/// A DMB in the model.
struct Known {
    dmb: Dmb,
    owner: usize,
    mover: usize,
    remote: RemoteDmb,
    bytes: Vec<u8>,
    /// The number of the last signalled CDC message, and of the last one reported.
    signalled: u64,
    reported: u64,
}

/// Numbers that look random, the same each time (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}

pub(crate) fn any_order_of_calls_is_as_the_model<L: Lab>() {
    for seed in 1..=8 {
        run::<L>(Numbers(seed * 0x9e37_79b9));
    }
}

fn run<L: Lab>(mut numbers: Numbers) {
    let mut devices: [L::Device; 3] = L::devices();
    let mut known: Vec<Known> = Vec::new();
    let mut gone: Vec<(usize, RemoteDmb)> = Vec::new();
    for step in 1..=1500u64 {
        match numbers.below(10) {
            0 if known.len() < 40 => {
                let owner = numbers.below(3);
                let mover = (owner + 1 + numbers.below(2)) % 3;
                let joined = join(&mut devices, owner, mover, &mut known);
                known.push(joined);
            }
            1 if !known.is_empty() => {
                let at = known.swap_remove(numbers.below(known.len()));
                devices[at.owner].unregister_dmb(at.dmb).unwrap();
                gone.push((at.mover, at.remote));
            }
            2 if !gone.is_empty() => {
                let (mover, remote) = gone[numbers.below(gone.len())];
                let late = devices[mover].move_cdc(remote, 0, 0, &cdc(u64::MAX), true);
                assert!(matches!(late, Ok(()) | Err(IsmError::Stale)), "{late:?}");
            }
            3..=5 if !known.is_empty() => {
                let pick = numbers.below(known.len());
                let at = &mut known[pick];
                let offset = numbers.below(LEN as usize - 32) + 32;
                let source = vec![step as u8; numbers.below(LEN as usize - offset + 1)];
                devices[at.mover]
                    .move_data(at.remote, 0, offset as u32, &source)
                    .unwrap();
                at.bytes[offset..][..source.len()].copy_from_slice(&source);
            }
            6 | 7 if !known.is_empty() => {
                let pick = numbers.below(known.len());
                let at = &mut known[pick];
                let signal = numbers.below(2) == 0;
                devices[at.mover]
                    .move_cdc(at.remote, 0, 0, &cdc(step), signal)
                    .unwrap();
                at.bytes[..32].copy_from_slice(&cdc(step));
                at.signalled = if signal { step } else { at.signalled };
            }
            _ => {
                let device = numbers.below(3);
                let report = devices[device].poll();
                take(device, report, &mut known);
            }
        }
    }
    for (at, device) in devices.iter_mut().enumerate() {
        while let Some(report) = (0..20_000).find_map(|_| device.poll()) {
            take(at, Some(report), &mut known);
        }
    }
    for at in &known {
        assert!(
            at.reported >= at.signalled,
            "reported {} of {}",
            at.reported,
            at.signalled
        );
        assert_eq!(bytes(&devices[at.owner], at.dmb, LEN), at.bytes);
    }
}

/// Registers and attaches, taking what is reported meanwhile.
fn join<D: IsmDevice>(
    devices: &mut [D; 3],
    owner: usize,
    mover: usize,
    known: &mut [Known],
) -> Known {
    let gid = devices[mover].facts().gid;
    let dmb = devices[owner].register_dmb(LEN, gid, None).unwrap();
    let token = loop {
        match next(&mut devices[owner]) {
            IsmReport::DmbRegistered { dmb: of, token } if of == dmb => break token,
            other => take(owner, Some(other), known),
        }
    };
    let from = devices[owner].facts().gid;
    let remote = devices[mover].attach_dmb(from, token, LEN).unwrap();
    let bytes = vec![0; LEN as usize];
    Known {
        dmb,
        owner,
        mover,
        remote,
        bytes,
        signalled: 0,
        reported: 0,
    }
}

/// A report is of a DMB that is known, and its CDC message is the one moved last.
fn take(device: usize, report: Option<IsmReport>, known: &mut [Known]) {
    if let Some(IsmReport::Withdrawn { remote }) = report {
        let of_it = |at: &Known| at.mover == device && at.remote == remote;
        return assert!(!known.iter().any(of_it), "a DMB that is still there");
    }
    let Some(IsmReport::Signalled { dmb, mask, cdc }) = report else {
        return assert_eq!(report, None);
    };
    let at = known
        .iter_mut()
        .find(|at| at.owner == device && at.dmb == dmb)
        .expect("no DMB that is gone");
    assert_eq!((mask, &cdc[..]), (0x8000, &at.bytes[..32]));
    at.reported = number(&cdc);
}
