//! What is known of a queue pair: its peer and the packets it got.

use smc_proto::wire::types::{Gid, LinkNumber, Psn, Qpn};

use super::write::WriteInProgress;

/// Packets back from the newest one that are distinguished from repeats.
const WINDOW: u32 = 16_384;
const PSN_MASK: u32 = 0x00ff_ffff;
const HALF: u32 = 0x0080_0000;

/// A queue pair, as packets address it.
pub(super) type QpAddress = (Gid, Qpn);

/// Whether a queue pair speaks SMC.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Use {
    /// Not known yet.
    #[default]
    Unknown,
    /// CLC or LLC named it, or it got an SMC message.
    Smc,
    /// The queue pair received SENDs that are not SMC.
    Other,
}

/// A queue pair as the receiver of packets.
#[derive(Default)]
pub(super) struct QueuePair {
    pub(super) usage: Use,
    /// The queue pair at the other end.
    pub(super) peer: Option<Qpn>,
    /// The link whose end it is.
    pub(super) link: Option<LinkNumber>,
    pub(super) packets: PacketWindow,
    pub(super) write: Option<WriteInProgress>,
    /// Payload of a SEND in several packets, so far, and what of it is missing.
    pub(super) send: Option<(Vec<u8>, usize)>,
}

/// Which of the last packets were seen.
#[derive(Default)]
pub(super) struct PacketWindow {
    newest: Option<u32>,
    /// One bit for each number modulo [`WINDOW`].
    seen: Vec<u64>,
}

impl PacketWindow {
    /// Notes a packet and returns whether it is new.
    ///
    /// A number from before the window begins a new window: the queue pair was
    /// set up again.
    pub(super) fn observe(&mut self, psn: Psn) -> bool {
        let psn = psn.value();
        let Some(newest) = self.newest else {
            self.restart(psn);
            return true;
        };
        let ahead = psn.wrapping_sub(newest) & PSN_MASK;
        if ahead == 0 {
            return false;
        }
        if ahead < HALF {
            if ahead >= WINDOW {
                self.restart(psn);
                return true;
            }
            for step in 1..=ahead {
                self.set(newest.wrapping_add(step), false);
            }
            self.set(psn, true);
            self.newest = Some(psn);
            return true;
        }
        let behind = newest.wrapping_sub(psn) & PSN_MASK;
        if behind >= WINDOW {
            self.restart(psn);
            return true;
        }
        let known = self.is_set(psn);
        self.set(psn, true);
        !known
    }

    fn restart(&mut self, psn: u32) {
        self.seen.clear();
        self.seen.resize((WINDOW / 64) as usize, 0);
        self.newest = Some(psn);
        self.set(psn, true);
    }

    fn place(psn: u32) -> (usize, u64) {
        let bit = psn % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn set(&mut self, psn: u32, value: bool) {
        let (slot, bit) = Self::place(psn);
        if let Some(slot) = self.seen.get_mut(slot) {
            if value {
                *slot |= bit;
            } else {
                *slot &= !bit;
            }
        }
    }

    fn is_set(&self, psn: u32) -> bool {
        let (slot, bit) = Self::place(psn);
        self.seen.get(slot).is_some_and(|slot| slot & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_distinguished_from_late_and_new_packets() {
        let mut window = PacketWindow::default();
        assert!(window.observe(Psn::new(0xff_fffe)));
        assert!(window.observe(Psn::new(0xff_ffff)));
        assert!(window.observe(Psn::new(1)));
        assert!(window.observe(Psn::new(0)), "late, not repeated");
        for psn in [0xff_fffe, 0xff_ffff, 0, 1] {
            assert!(!window.observe(Psn::new(psn)), "{psn:x}");
        }
        // Set up again with another first number.
        assert!(window.observe(Psn::new(0x50_0000)));
        assert!(window.observe(Psn::new(0x10_0000)));
        assert!(!window.observe(Psn::new(0x10_0000)));
    }
}
