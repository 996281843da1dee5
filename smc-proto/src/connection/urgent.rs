//! Urgent data (RFC 7609 4.7.5, 4.7.6).
//!
//! ```text
//! writer:  bytes committed as urgent end at `next`
//!            window closed          -> CDC with P        (pending)
//!            written up to `next`   -> CDC with P and U  (producer = `next`)
//!            then nothing is written until the peer's consumer cursor is there
//! reader:  U and new data           -> the urgent byte is the one before the
//!            producer cursor; passing it sends the consumer cursor at once
//! ```
//!
//! Flags of the CDC messages behind the one that publishes the urgent byte:
//!
//! ```text
//!   SMC-R   neither P nor U
//!   SMC-D   U until the peer acknowledges the byte
//!   Keep    P and U until a message publishes data (RFC 7609)
//! ```
//!
//! A Linux peer takes P without new data for "the urgent byte is yet to come". It then
//! refuses the byte that it has, never skips it, and so never acknowledges it. In SMC-D a
//! message overwrites the one before it, which the peer may not have read: U alone stays,
//! for without new data it means nothing to that peer.

use crate::config::UrgentFlags;
use crate::wire::cdc::ProducerFlags;

/// CDC messages that carry P and U.
#[cfg_attr(
    not(feature = "smc-d"),
    expect(dead_code, reason = "only SMC-D overwrites CDC messages")
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// The one that publishes the urgent byte.
    Publication,
    /// The message that publishes the urgent byte; and U alone in all others until the byte is
    /// acknowledged.
    Acknowledgement,
    /// The message that publishes the urgent byte, and all others until one publishes data.
    NextData,
}

/// Urgent data on its way to the peer. Marks are totals of bytes: one past the
/// urgent byte, 0 for none.
#[derive(Clone, Debug)]
pub(super) struct UrgentOut {
    /// The last byte committed as urgent; new while it is above `sent`.
    pub(super) next: u64,
    /// The last mark published with U.
    pub(super) sent: u64,
    /// P and U of the last CDC message that published data, for [`Scope::NextData`].
    kept: ProducerFlags,
    scope: Scope,
}

impl UrgentOut {
    pub(super) const fn new(flags: UrgentFlags) -> Self {
        Self {
            next: 0,
            sent: 0,
            kept: ProducerFlags::empty(),
            scope: match flags {
                UrgentFlags::Interoperate => Scope::Publication,
                UrgentFlags::Keep => Scope::NextData,
            },
        }
    }

    /// CDC messages overwrite each other in the peer's memory.
    #[cfg(feature = "smc-d")]
    pub(super) fn set_overwritten(&mut self) {
        if self.scope == Scope::Publication {
            self.scope = Scope::Acknowledgement;
        }
    }

    /// How far bytes may be written, as a total.
    pub(super) fn limit(&self, written: u64, consumed: u64, produced: u64) -> u64 {
        // Behind a change of link urgent data may have to be written again, up to its mark.
        //= URG-005
        if consumed < self.sent {
            self.sent
        } else if written < self.next {
            // The CDC with U must end at the urgent byte (URG-002), so bytes
            // behind it wait even if the window has room.
            //= URG-002
            self.next
        } else {
            produced
        }
    }

    /// Whether urgent data waits to be written.
    pub(super) const fn is_waiting(&self, written: u64) -> bool {
        written < self.next
    }

    /// Whether a CDC message emitted now announces urgent data that waits. Not so while
    /// earlier urgent data is unacknowledged: a Linux peer would forget that.
    pub(super) fn is_announced(&self, written: u64, consumed: u64) -> bool {
        //= URG-003
        //= URG-009
        self.is_waiting(written) && (consumed >= self.sent || self.scope == Scope::NextData)
    }

    /// P and U of a CDC message that publishes data up to `written`. `again`: the peer may
    /// have seen all of it before a change of link.
    #[cold]
    pub(super) fn publish(&mut self, written: u64, consumed: u64, again: bool) -> ProducerFlags {
        let mut flags = ProducerFlags::empty();
        if written == self.next || written == self.sent {
            self.sent = written;
            //= URG-001
            flags = ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT;
            if again && self.scope != Scope::NextData {
                // If the peer has seen it, this message has no new data for it.
                //= URG-009
                flags.remove(ProducerFlags::URGENT_PENDING);
            }
        }
        self.kept = flags;
        self.announce(flags, written, consumed)
    }

    /// P and U of a CDC message that publishes nothing.
    #[cold]
    pub(super) fn repeat(&self, written: u64, consumed: u64) -> ProducerFlags {
        //= URG-009
        //= D-060
        let flags = match self.scope {
            Scope::Acknowledgement if consumed < self.sent && written == self.sent => {
                ProducerFlags::URGENT_PRESENT
            }
            Scope::Publication | Scope::Acknowledgement => ProducerFlags::empty(),
            Scope::NextData => self.kept,
        };
        self.announce(flags, written, consumed)
    }

    fn announce(&self, flags: ProducerFlags, written: u64, consumed: u64) -> ProducerFlags {
        if self.is_announced(written, consumed) {
            //= URG-003
            flags | ProducerFlags::URGENT_PENDING
        } else {
            flags
        }
    }

    /// Takes back what the application committed beyond `produced`.
    pub(super) fn purge(&mut self, produced: u64) {
        self.sent = self.sent.min(produced);
        self.next = self.next.min(self.sent);
    }

    /// The data from `written` on is going to be written again.
    pub(super) fn rewind(&mut self, written: u64) {
        if written < self.sent {
            self.kept = ProducerFlags::empty();
        }
    }
}

bitflags::bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    struct Reader: u8 {
        /// Urgent byte not yet passed.
        const PRESENT = 1;
        /// The value of the urgent byte was copied out ahead of the bytes before it.
        const TAKEN = 2;
        /// The byte is read as normal data.
        const INLINE = 4;
    }
}

/// Urgent data from the peer.
#[derive(Clone, Debug)]
pub(super) struct UrgentIn {
    /// Low half of the total of bytes before the urgent byte.
    at: u32,
    flags: Reader,
}

impl UrgentIn {
    pub(super) const fn new(inline: bool) -> Self {
        Self {
            at: 0,
            flags: if inline {
                Reader::INLINE
            } else {
                Reader::empty()
            },
        }
    }

    /// Changes how the urgent byte is read. One that was copied out, but not stepped over yet, is
    /// read as normal data, or is to be taken again.
    pub(super) fn set_inline(&mut self, inline: bool) {
        if inline {
            self.flags.remove(Reader::TAKEN);
        }
        self.flags.set(Reader::INLINE, inline);
    }

    /// The peer published data up to `received` with U: the byte before that is
    /// urgent (URG-011). An earlier one becomes normal data, as in TCP.
    pub(super) fn arrive(&mut self, received: u64) {
        self.at = received.saturating_sub(1) as u32;
        self.flags.insert(Reader::PRESENT);
        self.flags.remove(Reader::TAKEN);
    }

    /// Bytes from the consumer position to the urgent byte, which is not passed.
    const fn ahead(&self, consumed: u64) -> u32 {
        self.at.wrapping_sub(consumed as u32)
    }

    /// Bytes to be read before the urgent byte, if there is one to take.
    pub(super) fn untaken(&self, consumed: u64) -> Option<u32> {
        let untaken = self.flags & (Reader::PRESENT | Reader::TAKEN) == Reader::PRESENT;
        untaken.then(|| self.ahead(consumed))
    }

    /// Bytes after which reading has to stop: before an urgent byte that is not read
    /// inline.
    #[inline(always)]
    pub(super) fn barrier(&self, consumed: u64) -> Option<u32> {
        let stops = self.flags & (Reader::PRESENT | Reader::INLINE) == Reader::PRESENT;
        stops.then(|| self.ahead(consumed))
    }

    /// The value was copied out.
    pub(super) fn take(&mut self) {
        self.flags.insert(Reader::TAKEN);
    }

    /// Whether an urgent byte was not passed yet.
    #[inline(always)]
    pub(super) const fn is_present(&self) -> bool {
        self.flags.contains(Reader::PRESENT)
    }

    /// Whether the byte at `consumed` is urgent and was copied out already, so
    /// that the reader steps over it.
    pub(super) fn is_step(&self, consumed: u64) -> bool {
        self.ahead(consumed) == 0 && self.flags == (Reader::PRESENT | Reader::TAKEN)
    }

    /// Notes the consumer position; returns whether it just passed the urgent byte.
    pub(super) fn pass(&mut self, consumed: u64) -> bool {
        let behind = self.ahead(consumed).cast_signed() < 0;
        let passed = self.flags.contains(Reader::PRESENT) && behind;
        if passed {
            self.flags.remove(Reader::PRESENT | Reader::TAKEN);
        }
        passed
    }

    pub(super) fn hash(&self, consumed: u64, h: &mut impl core::hash::Hasher) {
        h.write_u8(self.flags.bits());
        if self.flags.contains(Reader::PRESENT) {
            h.write_u32(self.ahead(consumed));
        }
    }
}
