//! A transmit that an ISM device polls as several commands.

use core::hash::{Hash, Hasher};

use crate::command::{DataWrite, IsmCommand, Signal};
use crate::connection::NotifyRecord;
use crate::id::{BufferId, ConnId};
use crate::wire::cdc::Cdc;

/// A transmit whose signal was not polled yet: moves into the peer's DMB, and the CDC message behind
/// them.
#[derive(Clone, Debug)]
pub(crate) struct IsmTransmit {
    /// The connection that transmits.
    pub(crate) conn: ConnId,
    /// The send buffer that the moves read.
    pub(crate) buffer: BufferId,
    /// Bytes to move, and where they go in the DMB.
    pub(crate) writes: [DataWrite; 2],
    pub(crate) cdc: Cdc,
    /// What completes the CDC message.
    pub(crate) record: NotifyRecord,
    /// Moves that were polled, or skipped because they are empty.
    pub(crate) moves_done: u8,
    /// Whether the group keeps its place on its device's list afterwards.
    pub(crate) keeps_place: bool,
}

impl IsmTransmit {
    /// The next move. `None` once all were polled: [`Self::signal`] follows.
    pub(super) fn next_move(&mut self) -> Option<IsmCommand> {
        while let Some(write) = self.writes.get(usize::from(self.moves_done)) {
            self.moves_done = self.moves_done.saturating_add(1);
            if !write.is_empty() {
                return Some(IsmCommand::Move {
                    conn: self.conn,
                    buffer: self.buffer,
                    source: write.source,
                    // An offset in the DMB, which has 32 bits.
                    offset: write.address as u32,
                });
            }
        }
        None
    }

    /// The signal with the CDC message, behind the moves.
    pub(super) fn signal(&self) -> Signal {
        Signal {
            conn: self.conn,
            buffer: self.buffer,
            cdc: self.cdc.into(),
        }
    }

    /// Hashes what decides the future: no sequence numbers and no wraps, as this message is the
    /// newest of its connection.
    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.conn.index, self.moves_done, self.keeps_place).hash(hasher);
        let cdc = self.cdc;
        (cdc.producer.count, cdc.consumer.count).hash(hasher);
        (cdc.producer_flags, cdc.connection_flags).hash(hasher);
        for write in self.writes {
            (write.address, write.len()).hash(hasher);
        }
    }
}
