//! The kernel's sending half.

use smc_proto::wire::cdc::ProducerFlags;
use smc_proto::wire::types::Cursor;

use super::{cursor, distance};

/// `finished <= sent <= filled`; the peer has consumed up to `acknowledged`.
pub(in super::super) struct Sending {
    buffer: Vec<u8>,
    /// Bytes of the peer's ring.
    pub(super) ring: u64,
    pub(in super::super) filled: u64,
    pub(super) sent: u64,
    pub(super) finished: u64,
    acknowledged: u64,
    pub(super) flags: ProducerFlags,
    /// Urgent data was taken and not acknowledged; nothing else is taken.
    urgent: bool,
}

impl Sending {
    pub(super) fn new(buffer: u64, ring: u64) -> Self {
        Self {
            buffer: vec![0; buffer as usize],
            ring,
            filled: 0,
            sent: 0,
            finished: 0,
            acknowledged: 0,
            flags: ProducerFlags::empty(),
            urgent: false,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Bytes taken and not written.
    pub(super) fn prepared(&self) -> u64 {
        self.filled - self.sent
    }

    /// Room in the peer's ring.
    pub(super) fn window(&self) -> u64 {
        let used = self.sent.saturating_sub(self.acknowledged);
        self.ring.saturating_sub(used)
    }

    /// Whether everything taken was written and consumed.
    pub(in super::super) fn is_delivered(&self) -> bool {
        self.filled == self.acknowledged
    }

    /// Takes bytes of the application. An attempt with urgent data announces it, though it
    /// may find no room.
    pub(super) fn take(&mut self, bytes: &[u8], urgent: bool) -> usize {
        if urgent {
            self.flags.insert(ProducerFlags::URGENT_PENDING);
        }
        let space = self.size() - (self.filled - self.finished);
        if space == 0 || self.urgent {
            return 0;
        }
        let taken = bytes.len().min(space as usize);
        for &byte in bytes.iter().take(taken) {
            let place = (self.filled % self.size()) as usize;
            self.buffer[place] = byte;
            self.filled += 1;
        }
        self.urgent = urgent && taken == bytes.len();
        taken
    }

    /// Writes of all that the window has room for.
    pub(super) fn write(&mut self) -> Vec<(usize, Vec<u8>)> {
        let (prepared, window) = (self.prepared(), self.window());
        self.flags
            .set(ProducerFlags::WRITER_BLOCKED, prepared >= window);
        let mut left = prepared.min(window);
        if self.urgent && left == prepared {
            self.flags.insert(ProducerFlags::URGENT_PRESENT);
        }
        let mut writes = Vec::new();
        while left > 0 {
            let offset = self.sent % self.ring;
            let length = left.min(self.ring - offset);
            let bytes = (self.sent..self.sent + length)
                .map(|position| self.buffer[(position % self.size()) as usize]);
            writes.push((offset as usize, bytes.collect()));
            self.sent += length;
            left -= length;
        }
        writes
    }

    /// The peer's consumer cursor; whether it went on.
    pub(super) fn on_consumer(&mut self, consumer: Cursor) -> Result<bool, String> {
        let more = distance(cursor(self.acknowledged, self.ring), consumer, self.ring);
        if more <= 0 {
            return Ok(false);
        }
        self.acknowledged += more.cast_unsigned();
        match self.acknowledged > self.filled {
            true => Err("consumed more than was sent".to_owned()),
            false => Ok(true),
        }
    }

    /// Ends the wait for the acknowledgement of urgent data, if all is consumed.
    pub(super) fn acknowledge_urgent(&mut self) {
        if self.window() == self.ring {
            self.urgent = false;
        }
    }

    /// What is not known to have arrived is written again.
    pub(super) fn rewind(&mut self) {
        self.finished = self.finished.max(self.acknowledged);
        self.sent = self.finished;
    }
}
