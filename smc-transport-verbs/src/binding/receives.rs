//! Where a queue pair's messages lie before they are sent and after they have come.
//!
//! ```text
//!   0        64                4096                8192          16384         24576
//!   ┌────────┬────────┬─ … ────┬────────┬─ … ───────┬─────────────┬─────────────┐
//!   │ receive│ receive│        │ send   │           │ the rest of │ the large   │
//!   │ 0      │ 1      │        │ 0      │           │ a large one │ one to send │
//!   └────────┴────────┴────────┴────────┴───────────┴─────────────┴─────────────┘
//!    44 bytes used of each                          version 2 only
//! ```
//!
//! In version 2 a message may have more than 44 bytes. There is at most one of these
//! in flight in a group, so all receives share one place for what is beyond. A peer that
//! sends two at once mixes its own bytes up.

use smc_proto::command::Segment;
use smc_proto::wire::llc::LLC_V2_MAX_LENGTH;

use crate::rnic::{RECEIVE_DEPTH, SEND_DEPTH};

/// Bytes of an ordinary message.
pub(super) const MESSAGE: u32 = 44;
/// Bytes of the largest message.
pub(super) const LARGEST: usize = LLC_V2_MAX_LENGTH;

/// From one message to the next.
const STRIDE: u32 = 64;
const SENDS: u32 = STRIDE * RECEIVE_DEPTH;
const SPILL: u32 = SENDS + STRIDE * SEND_DEPTH;
const LARGE: u32 = SPILL + LARGEST as u32;
const END: u32 = LARGE + LARGEST as u32;

/// Work request numbers of receives have this bit, and their slot in the others.
pub(super) const RECEIVE: u64 = 1 << 63;

/// Receives of a queue pair.
pub(super) struct Receives {
    /// Bytes of each: 44, or up to 8192.
    size: u32,
    posted: u32,
}

impl Receives {
    /// Receives of `size` bytes, none posted yet; `None` if there are none of that size.
    pub(super) fn new(size: u32) -> Option<Self> {
        (MESSAGE..=LARGEST as u32)
            .contains(&size)
            .then_some(Self { size, posted: 0 })
    }

    /// Bytes of memory for receives and sends.
    pub(super) fn memory(&self) -> usize {
        let end = if self.size > MESSAGE { END } else { SPILL };
        end as usize
    }

    /// Where the message of a slot goes.
    pub(super) fn slot(&self, slot: u32) -> [Segment; 2] {
        self.pieces(slot, self.size)
    }

    /// Where the first `length` bytes of the message in a slot are.
    pub(super) fn pieces(&self, slot: u32, length: u32) -> [Segment; 2] {
        let length = length.min(self.size);
        let head = Segment {
            offset: (slot % RECEIVE_DEPTH) * STRIDE,
            length: length.min(MESSAGE),
        };
        let rest = Segment {
            offset: SPILL,
            length: length - head.length,
        };
        [head, rest]
    }

    pub(super) fn posted(&mut self) {
        self.posted += 1;
    }

    /// A receive came back.
    pub(super) fn completed(&mut self) {
        self.posted = self.posted.saturating_sub(1);
    }

    /// Whether the device has none any more.
    pub(super) fn is_empty(&self) -> bool {
        self.posted == 0
    }
}

/// Where the ordinary message with this number is sent from.
pub(super) fn send_slot(number: u64) -> Segment {
    Segment {
        offset: SENDS + (number % u64::from(SEND_DEPTH)) as u32 * STRIDE,
        length: MESSAGE,
    }
}

/// Where a large message is sent from.
pub(super) fn large_slot(length: u32) -> Segment {
    Segment {
        offset: LARGE,
        length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_messages_share_memory_but_the_rests_of_large_ones() {
        let receives = Receives::new(8192).unwrap();
        let mut used = vec![0u8; receives.memory()];
        let mut take = |segment: Segment| {
            let from = segment.offset as usize;
            for byte in &mut used[from..from + segment.length as usize] {
                *byte += 1;
            }
        };
        for slot in 0..RECEIVE_DEPTH {
            let [head, rest] = receives.slot(slot);
            assert_eq!((head.length, rest.length), (44, 8148));
            take(head);
            if slot == 0 {
                take(rest);
            }
            assert_eq!(rest, receives.slot(0)[1]);
        }
        for number in 0..u64::from(SEND_DEPTH) {
            take(send_slot(number));
        }
        take(large_slot(8192));
        assert!(used.iter().all(|times| *times <= 1));
        let all = (RECEIVE_DEPTH + SEND_DEPTH) as usize * 44 + 8148 + 8192;
        assert_eq!(used.iter().filter(|times| **times == 1).count(), all);
    }

    #[test]
    fn in_version_1_a_message_has_44_bytes() {
        let receives = Receives::new(44).unwrap();
        assert_eq!(receives.memory(), 8192);
        let [head, rest] = receives.slot(63);
        assert_eq!((head.offset, head.length, rest.length), (4032, 44, 0));
        // What a device claims to have received is not believed.
        assert_eq!(receives.pieces(63, 9000), receives.slot(63));
        assert_eq!(receives.pieces(1, 26)[0].length, 26);
        assert!(Receives::new(43).is_none() && Receives::new(8193).is_none());
    }
}
