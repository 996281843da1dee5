//! SENDs under way on a link, in the order in which they complete.

use super::link::SendKind;

/// Most SENDs under way on a link, a power of two; each may follow two WRITEs.
pub(crate) const SEND_SLOTS: u32 = 16;

/// A ring whose places are the work request numbers themselves.
#[derive(Clone, Debug)]
pub(crate) struct SendRing {
    kinds: [SendKind; SEND_SLOTS as usize],
    /// Number of the oldest one.
    first: u32,
    /// Number of the next one.
    next: u32,
}

const _: () = assert!(SEND_SLOTS.is_power_of_two());

impl SendRing {
    pub(crate) const fn new() -> Self {
        Self {
            kinds: [SendKind::Llc; SEND_SLOTS as usize],
            first: 0,
            next: 0,
        }
    }

    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// Whether a SEND of this number is under way.
    #[inline]
    pub(crate) const fn contains(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.len()
    }

    /// Notes a SEND: its number, or `None` if too many are under way.
    #[inline]
    pub(crate) fn push(&mut self, kind: SendKind) -> Option<u32> {
        if self.len() >= SEND_SLOTS {
            return None;
        }
        let number = self.next;
        *self.kinds.get_mut((number % SEND_SLOTS) as usize)? = kind;
        self.next = number.wrapping_add(1);
        Some(number)
    }

    /// Takes the oldest SEND out: its number and whose it was.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u32, SendKind)> {
        if self.len() == 0 {
            return None;
        }
        let number = self.first;
        let kind = *self.kinds.get((number % SEND_SLOTS) as usize)?;
        self.first = number.wrapping_add(1);
        Some((number, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_complete_in_order_and_numbers_wrap() {
        let mut ring = SendRing::new();
        ring.first = u32::MAX - 3;
        ring.next = u32::MAX - 3;
        for round in 0..100u32 {
            for expected in 0..SEND_SLOTS {
                let number = (u32::MAX - 3).wrapping_add(round * SEND_SLOTS + expected);
                assert!(!ring.contains(number));
                assert_eq!(ring.push(SendKind::Request), Some(number));
                assert!(ring.contains(number));
            }
            assert_eq!(ring.push(SendKind::Request), None);
            for _ in 0..SEND_SLOTS {
                let (number, kind) = ring.pop().unwrap();
                assert_eq!(kind, SendKind::Request);
                assert!(!ring.contains(number));
            }
            assert_eq!(ring.pop(), None);
        }
    }
}
