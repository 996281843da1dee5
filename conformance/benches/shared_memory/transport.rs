//! The transport by itself, without an engine: two devices of one process, joined by a channel.
//!
//! Bytes are moved as SMC-D moves them: a move for the payload, then a CDC message with the cursor
//! and a signal. The benchmark compares these figures with those of whole connections, so that the
//! difference is what engine and sockets cost.

use std::hint::black_box;
use std::time::Duration;

use smc_transport_ism::device::{Cdc, Dmb, IsmDevice, IsmReport, RemoteDmb};
use smc_transport_ism::shared::Device;

use crate::{Pieces, apart};

const LEN: u32 = 1 << 20;
const HEAD: u32 = 32;
/// Bytes timed at a time.
const PIECE: u64 = 2 << 20;
const WINDOW: u64 = (LEN - HEAD) as u64;

/// One side: its DMB, the other's, and the device.
struct Side {
    device: Device,
    dmb: Dmb,
    remote: RemoteDmb,
}

fn sides() -> (Side, Side) {
    let mut devices = [Device::open().unwrap(), Device::open().unwrap()];
    let [one, two] = &mut devices;
    Device::join(one, two).unwrap();
    let gids = [one.facts().gid, two.facts().gid];
    let registered = |device: &mut Device, peer| {
        let dmb = device.register_dmb(LEN, peer, None).unwrap();
        let Some(IsmReport::DmbRegistered { token, .. }) = device.poll() else {
            panic!()
        };
        (dmb, token)
    };
    let (mine, my_token) = registered(one, gids[1]);
    let (theirs, their_token) = registered(two, gids[0]);
    let out = one.attach_dmb(gids[1], their_token, LEN).unwrap();
    let back = two.attach_dmb(gids[0], my_token, LEN).unwrap();
    // Touched, so that no page is made while measuring.
    for (device, remote) in [(&mut *one, out), (&mut *two, back)] {
        device
            .move_data(remote, 0, 0, &vec![0; LEN as usize])
            .unwrap();
    }
    let [one, two] = devices;
    (
        Side {
            device: one,
            dmb: mine,
            remote: out,
        },
        Side {
            device: two,
            dmb: theirs,
            remote: back,
        },
    )
}

/// A CDC message with a producer and a consumer cursor, as counts of bytes.
fn cdc(produced: u64, consumed: u64) -> Cdc {
    let mut cdc = [0; 32];
    cdc[0] = 0xfe;
    cdc[8..16].copy_from_slice(&produced.to_ne_bytes());
    cdc[16..24].copy_from_slice(&consumed.to_ne_bytes());
    cdc
}

fn produced(cdc: &Cdc) -> u64 {
    u64::from_ne_bytes(cdc[8..16].try_into().unwrap())
}

fn consumed(cdc: &Cdc) -> u64 {
    u64::from_ne_bytes(cdc[16..24].try_into().unwrap())
}

impl Side {
    /// The CDC message of the next signal.
    fn signalled(&mut self) -> Cdc {
        loop {
            if let Some(IsmReport::Signalled { cdc, .. }) = self.device.wait(None).unwrap() {
                return cdc;
            }
        }
    }

    fn notify(&mut self, cdc: &Cdc) {
        self.device.move_cdc(self.remote, 0, 0, cdc, true).unwrap();
    }

    /// Where a count of bytes is in the ring, and how many follow there.
    fn place(count: u64, len: usize) -> (u32, usize) {
        let at = count % WINDOW;
        (at as u32 + HEAD, len.min((WINDOW - at) as usize))
    }
}

/// Gigabytes a second in writes of `size` bytes, signalled once in `every`.
pub(crate) fn stream(total: u64, size: usize, every: u64) -> f64 {
    let total = total / size as u64 * size as u64;
    let (mut one, mut two) = sides();
    apart(
        move || {
            let source = vec![7; size];
            let (mut sent, mut taken, mut writes) = (0, 0, 0u64);
            let mut pieces = Pieces::begin();
            while sent < total {
                while sent + size as u64 - taken > WINDOW {
                    taken = consumed(&one.signalled());
                }
                let (at, first) = Side::place(sent, size);
                one.device
                    .move_data(one.remote, 0, at, &source[..first])
                    .unwrap();
                if first < size {
                    one.device
                        .move_data(one.remote, 0, HEAD, &source[first..])
                        .unwrap();
                }
                sent += size as u64;
                writes += 1;
                if writes % every == 0 || sent == total || sent - taken + size as u64 > WINDOW {
                    one.notify(&cdc(sent, 0));
                }
                if sent % PIECE == 0 {
                    pieces.done();
                }
            }
            while taken < total {
                taken = consumed(&one.signalled());
            }
            PIECE as f64 / pieces.median()
        },
        move || {
            let mut into = vec![0; 65536];
            let (mut there, mut taken, mut announced) = (0, 0, 0);
            while taken < total {
                while there == taken {
                    there = produced(&two.signalled());
                }
                let (at, len) = Side::place(taken, ((there - taken) as usize).min(into.len()));
                two.device.read(two.dmb, at, &mut into[..len]).unwrap();
                black_box(&mut into);
                taken += len as u64;
                // As SMC does: not for every few bytes.
                if taken - announced >= WINDOW / 10 || taken == total {
                    announced = taken;
                    two.notify(&cdc(0, taken));
                }
            }
        },
    )
}

/// Nanoseconds for a CDC message, behind `size` bytes, there and back.
pub(crate) fn ping_pong(rounds: u32, size: usize, polling: Option<Duration>) -> f64 {
    let (mut one, mut two) = sides();
    if let Some(time) = polling {
        one.device.limit_spin(time);
        two.device.limit_spin(time);
    }
    let send = move |side: &mut Side, round: u32, source: &[u8]| {
        if size > 0 {
            side.device.move_data(side.remote, 0, HEAD, source).unwrap();
        }
        side.notify(&cdc(round.into(), 0));
    };
    let receive = move |side: &mut Side, round: u32, into: &mut [u8]| {
        while produced(&side.signalled()) != u64::from(round) {}
        if size > 0 {
            side.device.read(side.dmb, HEAD, into).unwrap();
        }
    };
    apart(
        move || {
            let mut bytes = vec![1; size];
            let piece = if polling.is_some() { 10 } else { 100 };
            let mut pieces = Pieces::begin();
            for round in 1..=rounds {
                send(&mut one, round, &bytes);
                receive(&mut one, round, &mut bytes);
                if round % piece == 0 {
                    pieces.done();
                }
            }
            pieces.median() / f64::from(piece)
        },
        move || {
            let mut bytes = vec![1; size];
            for round in 1..=rounds {
                receive(&mut two, round, &mut bytes);
                send(&mut two, round, &bytes);
            }
        },
    )
}
