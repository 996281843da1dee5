//! The kernel's receiving half.

use smc_proto::wire::cdc::ProducerFlags;
use smc_proto::wire::types::Cursor;

use super::{cursor, distance};

/// What the kernel knows of an urgent byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum UrgentState {
    /// The byte is there.
    Valid,
    /// The byte is announced.
    NotYet,
    /// The byte was read, or there was none.
    Read,
}

pub(in super::super) struct Receiving {
    pub(in super::super) memory: Vec<u8>,
    pub(super) ring: u64,
    received: u64,
    pub(in super::super) consumed: u64,
    /// The consumer cursor that the peer knows.
    pub(super) confirmed: u64,
    /// Bytes that can be read; an urgent one that is not read inline does not count.
    readable: i64,
    inline: bool,
    pub(in super::super) urgent: UrgentState,
    /// One past the urgent byte.
    mark: u64,
    urgent_byte: u8,
    skip: bool,
    blocked: bool,
    pub(super) asked: bool,
    pub(super) sequence: u16,
    /// Positions of urgent bytes, as they were signalled to the process.
    pub(in super::super) signalled: Vec<u64>,
}

impl Receiving {
    pub(super) fn new(ring: u64, inline: bool) -> Self {
        Self {
            memory: vec![0; ring as usize],
            ring,
            received: 0,
            consumed: 0,
            confirmed: 0,
            readable: 0,
            inline,
            urgent: UrgentState::Read,
            mark: 0,
            urgent_byte: 0,
            skip: false,
            blocked: false,
            asked: false,
            sequence: 0,
            signalled: Vec::new(),
        }
    }

    pub(in super::super) fn available(&self) -> usize {
        usize::try_from(self.readable).unwrap_or(0)
    }

    /// Bytes from the reader to the end of the urgent byte, negative behind it.
    pub(in super::super) fn to_mark(&self) -> i64 {
        self.mark.cast_signed() - self.consumed.cast_signed()
    }

    /// The peer's producer cursor and its flags.
    pub(super) fn on_producer(
        &mut self,
        producer: Cursor,
        flags: ProducerFlags,
    ) -> Result<(), String> {
        self.blocked = flags.contains(ProducerFlags::WRITER_BLOCKED);
        self.asked = flags.contains(ProducerFlags::CURSOR_UPDATE_REQUESTED);
        let mut more = distance(cursor(self.received, self.ring), producer, self.ring);
        if more <= 0 {
            if flags.contains(ProducerFlags::URGENT_PENDING) {
                self.urgent = UrgentState::NotYet;
            }
            return Ok(());
        }
        self.received += more.cast_unsigned();
        if self.received > self.consumed + self.ring {
            return Err("more bytes than the ring holds".to_owned());
        }
        if flags.contains(ProducerFlags::URGENT_PRESENT) {
            self.mark = self.received;
            self.urgent = UrgentState::Valid;
            self.urgent_byte = self.memory[((self.mark - 1) % self.ring) as usize];
            self.signalled.push(self.mark - 1);
            more -= i64::from(!self.inline);
        }
        self.readable += more;
        Ok(())
    }

    /// The next bytes with their positions; they are not consumed yet.
    pub(super) fn copy(&mut self, most: usize) -> Vec<(u64, u8)> {
        let mut length = self.available();
        if self.urgent == UrgentState::Valid && self.inline && length > 1 {
            length -= 1;
        }
        let length = length.min(most);
        self.readable -= length as i64;
        (self.consumed..self.consumed + length as u64)
            .map(|position| (position, self.memory[(position % self.ring) as usize]))
            .collect()
    }

    /// Moves the consumer cursor: whether the read ends there, and whether the peer has to
    /// learn of it.
    pub(super) fn consume(&mut self, length: u64) -> (bool, bool) {
        self.consumed += length;
        if self.urgent != UrgentState::Valid && !self.skip {
            return (false, false);
        }
        match (self.inline, self.to_mark()) {
            (true, 0) => {
                self.urgent = UrgentState::Read;
                (true, true)
            }
            (false, 1) => {
                self.consumed += 1;
                self.skip = false;
                (false, true)
            }
            (false, ..-1) => {
                self.urgent = UrgentState::Read;
                (false, false)
            }
            _ => (false, false),
        }
    }

    /// The urgent byte, out of line.
    pub(super) fn take_urgent(&mut self) -> Option<(u64, u8)> {
        if self.inline || self.urgent != UrgentState::Valid {
            return None;
        }
        self.urgent = UrgentState::Read;
        self.skip |= self.to_mark() > 1;
        Some((self.mark - 1, self.urgent_byte))
    }

    /// Whether the peer gets a message for the consumer cursor alone.
    pub(super) fn owes_update(&self, force: bool) -> bool {
        let gained = self.consumed - self.confirmed;
        let free = self.ring - (self.received - self.confirmed).min(self.ring);
        let worth = gained > (self.ring / 10).max(1);
        force || self.asked || (worth && (free <= self.ring / 2 || self.blocked))
    }

    /// The writer has room again.
    pub(super) fn unblock(&mut self) {
        self.blocked &= self.readable > 0;
    }
}
