//! A transmit that is given out step by step.

use core::hash::{Hash, Hasher};

use crate::command::{DataTransmit, RdmaCommand};
use crate::id::{BufferId, ConnId};
use crate::wire::cdc::{Cdc, ConnectionFlags};

/// A transmit of which the SEND was not given out yet. Whatever becomes of its
/// connection meanwhile, the SEND follows, unless the queue pair goes: only its
/// completion shows that the RNIC has done with the send buffer.
#[derive(Clone, Debug)]
pub(crate) struct OpenTransmit {
    transmit: DataTransmit,
    /// Writes that were given out or skipped.
    past: u8,
    /// Whether the link keeps its place afterwards.
    pub(crate) goes_on: bool,
}

impl OpenTransmit {
    pub(crate) const fn new(transmit: DataTransmit, goes_on: bool) -> Self {
        Self {
            transmit,
            past: 0,
            goes_on,
        }
    }

    /// The connection that transmits.
    pub(crate) const fn conn(&self) -> ConnId {
        self.transmit.conn
    }

    /// The next write, until there is none.
    pub(crate) fn next_write(&mut self) -> Option<RdmaCommand> {
        while let Some(write) = self.transmit.writes.get(usize::from(self.past)) {
            self.past = self.past.saturating_add(1);
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

    /// The send buffer.
    pub(crate) const fn buffer(&self) -> BufferId {
        self.transmit.buffer
    }

    /// The message that ends it.
    pub(crate) const fn cdc(&self) -> Cdc {
        self.transmit.cdc
    }

    /// Lets the message say that its connection is aborted.
    pub(crate) fn abort(&mut self) {
        self.transmit.cdc.connection_flags |= ConnectionFlags::ABNORMAL_CLOSE;
    }

    /// What ends it.
    pub(crate) fn send(&self) -> RdmaCommand {
        //= CDC-002
        RdmaCommand::Send {
            link: self.transmit.link,
            wr_id: self.transmit.wr_id,
            payload: self.transmit.payload(),
        }
    }

    /// No sequence numbers and no wraps: the message is the last one of its
    /// connection.
    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.transmit.conn.index, self.past, self.goes_on).hash(hasher);
        let cdc = self.transmit.cdc;
        (cdc.producer.count, cdc.consumer.count).hash(hasher);
        (cdc.producer_flags, cdc.connection_flags).hash(hasher);
        for write in self.transmit.writes {
            (write.address, write.len()).hash(hasher);
        }
    }
}
