//! A transmit that a device polls as several commands.

use core::hash::{Hash, Hasher};

use crate::command::{DataTransmit, RdmaCommand};
use crate::id::ConnId;
use crate::wire::cdc::ConnectionFlags;

/// A transmit whose SEND was not polled yet. The SEND follows even if the connection ends
/// meanwhile, unless the queue pair is gone: only its completion shows that the RNIC no
/// longer reads the send buffer.
#[derive(Clone, Debug)]
pub(crate) struct OpenTransmit {
    transmit: DataTransmit,
    /// Writes that were polled, or skipped because they are empty.
    writes_done: u8,
    /// Whether the link keeps its place on its device's list afterwards.
    pub(crate) keeps_place: bool,
}

impl OpenTransmit {
    pub(crate) const fn new(transmit: DataTransmit, keeps_place: bool) -> Self {
        Self {
            transmit,
            writes_done: 0,
            keeps_place,
        }
    }

    /// The connection that transmits.
    pub(crate) const fn conn(&self) -> ConnId {
        self.transmit.conn
    }

    /// The next write. `None` once all were polled: [`Self::send`] follows.
    pub(crate) fn next_write(&mut self) -> Option<RdmaCommand> {
        while let Some(write) = self.transmit.writes.get(usize::from(self.writes_done)) {
            self.writes_done = self.writes_done.saturating_add(1);
            if !write.is_empty() {
                return Some(RdmaCommand::Write {
                    link: self.transmit.link,
                    conn: self.transmit.conn,
                    buffer: self.transmit.buffer,
                    source: write.source,
                    rkey: self.transmit.rkey,
                    address: write.address,
                });
            }
        }
        None
    }

    /// Sets the flag of an abnormal close in the CDC message.
    pub(crate) fn abort(&mut self) {
        self.transmit.cdc.connection_flags |= ConnectionFlags::ABNORMAL_CLOSE;
    }

    /// The SEND of the CDC message, behind the writes.
    pub(crate) fn send(&self) -> RdmaCommand {
        //= CDC-002
        RdmaCommand::Send {
            link: self.transmit.link,
            wr_id: self.transmit.wr_id,
            payload: self.transmit.payload(),
        }
    }

    /// Hashes what decides the future: no sequence numbers and no wraps, as this message is the
    /// newest of its connection.
    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.transmit.conn.index, self.writes_done, self.keeps_place).hash(hasher);
        let cdc = self.transmit.cdc;
        (cdc.producer.count, cdc.consumer.count).hash(hasher);
        (cdc.producer_flags, cdc.connection_flags).hash(hasher);
        for write in self.transmit.writes {
            (write.address, write.len()).hash(hasher);
        }
    }
}
