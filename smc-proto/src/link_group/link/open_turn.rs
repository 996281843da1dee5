//! A turn that is given out step by step.

use core::hash::{Hash, Hasher};

use crate::command::{DataTurn, RdmaCommand};
use crate::id::{BufferId, ConnId};
use crate::wire::cdc::{Cdc, ConnectionFlags};

/// A turn of which the SEND was not given out yet. Whatever becomes of its
/// connection meanwhile, the SEND follows, unless the queue pair goes: only its
/// completion tells that the RNIC has done with the send buffer.
#[derive(Clone, Debug)]
pub(crate) struct OpenTurn {
    turn: DataTurn,
    /// Writes that were looked at.
    past: u8,
    /// Whether the link keeps its place afterwards.
    pub(crate) goes_on: bool,
}

impl OpenTurn {
    pub(crate) const fn new(turn: DataTurn, goes_on: bool) -> Self {
        Self {
            turn,
            past: 0,
            goes_on,
        }
    }

    /// Whose turn it is.
    pub(crate) const fn conn(&self) -> ConnId {
        self.turn.conn
    }

    /// The next write, until there is none.
    pub(crate) fn next_write(&mut self) -> Option<RdmaCommand> {
        while let Some(write) = self.turn.writes.get(usize::from(self.past)) {
            self.past = self.past.saturating_add(1);
            if !write.is_empty() {
                return Some(RdmaCommand::Write {
                    link: self.turn.link,
                    conn: self.turn.conn,
                    buffer: self.turn.buffer,
                    source: write.source,
                    rkey: self.turn.rkey,
                    address: write.address,
                });
            }
        }
        None
    }

    /// The send buffer.
    pub(crate) const fn buffer(&self) -> BufferId {
        self.turn.buffer
    }

    /// The message that ends it.
    pub(crate) const fn payload(&self) -> [u8; 44] {
        self.turn.payload
    }

    /// Lets the message say that its connection is aborted.
    pub(crate) fn abort(&mut self) {
        if let Ok(mut cdc) = Cdc::parse(&self.turn.payload) {
            cdc.connection_flags |= ConnectionFlags::ABNORMAL_CLOSE;
            self.turn.payload = cdc.emit();
        }
    }

    /// What ends it.
    pub(crate) const fn send(&self) -> RdmaCommand {
        //= CDC-002
        RdmaCommand::Send {
            link: self.turn.link,
            wr_id: self.turn.wr_id,
            payload: self.turn.payload,
        }
    }

    /// No sequence numbers and no wraps: the message is the last one of its
    /// connection.
    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.turn.conn.index, self.past, self.goes_on).hash(hasher);
        if let Ok(cdc) = Cdc::parse(&self.turn.payload) {
            (cdc.producer.count, cdc.consumer.count).hash(hasher);
            (cdc.producer_flags, cdc.connection_flags).hash(hasher);
        }
        for write in self.turn.writes {
            (write.address, write.len()).hash(hasher);
        }
    }
}
