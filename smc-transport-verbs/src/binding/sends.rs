//! Work requests of the send side that are in flight.
//!
//! Only SENDs are signalled: the completion of one covers all before it. Work requests
//! have consecutive numbers.

use std::collections::VecDeque;

use smc_proto::id::{ConnId, WrId};

use crate::rnic::SEND_DEPTH;

/// A work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Posted {
    Write { conn: ConnId },
    Send { wr_id: WrId, large: bool },
}

/// Work requests in flight, the oldest first.
#[derive(Default)]
pub(super) struct Sends {
    posted: VecDeque<Posted>,
    /// Number of the oldest.
    first: u64,
}

impl Sends {
    /// Numbers a work request; `None` if the device can take no more.
    pub(super) fn push(&mut self, posted: Posted) -> Option<u64> {
        if self.posted.len() >= SEND_DEPTH as usize {
            return None;
        }
        let number = self.end();
        self.posted.push_back(posted);
        Some(number)
    }

    /// The number that the next work request gets.
    pub(super) fn end(&self) -> u64 {
        self.first.wrapping_add(self.posted.len() as u64)
    }

    /// Forgets those from this number on, which the device did not take.
    pub(super) fn take_back(&mut self, from: u64) {
        let keep = usize::try_from(from.wrapping_sub(self.first));
        self.posted.truncate(keep.unwrap_or(usize::MAX));
    }

    /// A work request and all before it have ended: which one it was.
    pub(super) fn complete(&mut self, number: u64) -> Option<Posted> {
        let at = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        let posted = *self.posted.get(at)?;
        self.posted.drain(..=at);
        self.first = number.wrapping_add(1);
        Some(posted)
    }

    /// Whether a large message is in flight.
    pub(super) fn has_large(&self) -> bool {
        let large = |posted: &Posted| matches!(posted, Posted::Send { large: true, .. });
        self.posted.iter().any(large)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.posted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(number: u32) -> Posted {
        Posted::Send {
            wr_id: WrId(number),
            large: number == 3,
        }
    }

    #[test]
    fn a_completion_ends_all_before_it() {
        let mut sends = Sends::default();
        for number in 0..5 {
            assert_eq!(sends.push(send(number)), Some(u64::from(number)));
        }
        assert!(sends.has_large());
        assert_eq!(sends.complete(3), Some(send(3)));
        assert!(!sends.has_large());
        // Neither what has ended nor what was never begun.
        assert_eq!(sends.complete(3), None);
        assert_eq!(sends.complete(5), None);
        assert_eq!(sends.complete(4), Some(send(4)));
        assert!(sends.is_empty());
        for _ in 0..SEND_DEPTH {
            assert!(sends.push(send(0)).is_some());
        }
        assert_eq!(sends.push(send(0)), None);
        sends.take_back(7);
        assert_eq!(sends.end(), 7);
        assert_eq!(
            (sends.complete(7), sends.complete(6)),
            (None, Some(send(0)))
        );
        assert!(sends.is_empty());
    }
}
