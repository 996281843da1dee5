//! ISM devices that join the processes of one host, without a daemon and without
//! rights.
//!
//! ```text
//!  process A                                        process B
//!  Device ──── channel: Unix socket, descriptors ──── Device
//!    │            wakes only threads that wait          │
//!    ├─ doorbells A ───────── read only ──────────────► │
//!    │ ◄────────────────── read only ────── doorbells B ┤
//!    │                                                  │
//!    └─ move: one copy ──►  DMB of B for A  ◄── read ───┘
//!              (sealed memfd, its descriptor sent to A alone)
//! ```
//!
//! A DMB is a sealed memory file which only its peer gets; a move is one copy into it;
//! a signal is two stores, and a system call only if the other side is parked. When a
//! process ends, however it ends, the kernel hangs its sockets up, and its peers
//! report that it has gone. Nothing is left behind: no name, no file, no memory.
//!
//! The protocol, its threat model and what it rests on are in
//! `docs/shared-memory.md`.

mod alarm;
mod arrivals;
mod channel;
mod departures;
mod device;
mod futex_words;
mod gids;
mod handshakes;
mod in_flight;
mod ism;
mod kept;
mod lane;
mod message;
mod offers;
mod outbox;
mod own_user;
pub mod pairing;
mod ring_suppression;
mod socket;
mod spin;
mod waiting;

pub use crate::memory::{file_size_limit, mapping_limit};
pub use device::{Device, Limits};
pub use futex_words::{FutexWords, WakeHandle};
pub use gids::Gids;
pub use handshakes::{Announced, Clc, HANDSHAKES, HandshakeId};
pub use lane::Lane;
pub use spin::SpinBudget;

/// Old name of [`FutexWords`].
#[deprecated(note = "renamed to `FutexWords`")]
pub type Words = FutexWords;

/// Old name of [`WakeHandle`].
#[deprecated(note = "renamed to `WakeHandle`")]
pub type Call = WakeHandle;

use std::io;

use crate::device::{DeviceFacts, Gid128, MAX_DMB_LEN};

/// The CHID of devices that emulate ISM.
const CHID: u16 = 0xffff;

const fn facts(gid: Gid128, max_dmbs: u32) -> DeviceFacts {
    DeviceFacts {
        gid,
        chid: CHID,
        max_dmb_len: MAX_DMB_LEN,
        max_dmbs,
        elements: 1,
        version_2: true,
    }
}

/// 64 bits that cannot be guessed.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // Up to 256 bytes come whole or not at all.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests;
