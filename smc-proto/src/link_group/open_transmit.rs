//! A transmit that a device polls as several commands: its writes, and the CDC message behind them.

use core::hash::{Hash, Hasher};

use crate::command::{DataTransmit, DataWrite, RdmaCommand};
#[cfg(feature = "smc-d")]
use crate::command::{IsmCommand, Signal};
#[cfg(feature = "smc-d")]
use crate::connection::NotifyRecord;
use crate::id::{BufferId, ConnId, LinkId, WrId};
use crate::wire::cdc::{Cdc, ConnectionFlags};
use crate::wire::types::RKey;

/// A transmit whose CDC message was not polled yet, on a link or through an ISM device.
#[derive(Clone, Debug)]
pub(crate) struct OpenTransmit<P> {
    /// The connection that transmits.
    pub(crate) conn: ConnId,
    /// The send buffer that the writes read.
    buffer: BufferId,
    writes: [DataWrite; 2],
    cdc: Cdc,
    /// Writes that were polled, or skipped because they are empty.
    writes_done: u8,
    /// What only a transmit on this kind of path has.
    pub(crate) of_path: P,
    /// Whether the path keeps its place on its device's list afterwards.
    pub(crate) keeps_place: bool,
}

impl<P> OpenTransmit<P> {
    pub(crate) const fn new(transmit: &DataTransmit, of_path: P, keeps_place: bool) -> Self {
        Self {
            conn: transmit.conn,
            buffer: transmit.buffer,
            writes: transmit.writes,
            cdc: transmit.cdc,
            writes_done: 0,
            of_path,
            keeps_place,
        }
    }

    /// The next write that is not empty. `None` once all were polled: the CDC message follows.
    fn next_data(&mut self) -> Option<DataWrite> {
        while let Some(write) = self.writes.get(usize::from(self.writes_done)) {
            self.writes_done = self.writes_done.saturating_add(1);
            if !write.is_empty() {
                return Some(*write);
            }
        }
        None
    }

    /// Hashes what decides the future: no sequence numbers and no wraps, as this message is the
    /// newest of its connection.
    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.conn.index, self.writes_done, self.keeps_place).hash(hasher);
        let cdc = self.cdc;
        (cdc.producer.count, cdc.consumer.count).hash(hasher);
        (cdc.producer_flags, cdc.connection_flags).hash(hasher);
        for write in self.writes {
            (write.address, write.len()).hash(hasher);
        }
    }
}

/// What the commands of a transmit over a link name.
#[derive(Clone, Debug)]
pub(crate) struct LinkPath {
    link: LinkId,
    /// Key of the peer's RMB on the link.
    rkey: RKey,
    /// Number of the SEND, which counts as in flight already.
    wr_id: WrId,
}

/// An open transmit over a link. The SEND follows even if the connection ends meanwhile, unless
/// the queue pair is gone: only its completion shows that the RNIC no longer reads the send buffer.
pub(crate) type LinkTransmit = OpenTransmit<LinkPath>;

impl LinkTransmit {
    pub(crate) const fn over_link(transmit: &DataTransmit, keeps_place: bool) -> Self {
        let of_path = LinkPath {
            link: transmit.link,
            rkey: transmit.rkey,
            wr_id: transmit.wr_id,
        };
        Self::new(transmit, of_path, keeps_place)
    }

    /// The next RDMA WRITE. `None` once all were polled: [`Self::send`] follows.
    pub(super) fn next_write(&mut self) -> Option<RdmaCommand> {
        let write = self.next_data()?;
        Some(RdmaCommand::Write {
            link: self.of_path.link,
            conn: self.conn,
            buffer: self.buffer,
            source: write.source,
            rkey: self.of_path.rkey,
            address: write.address,
        })
    }

    /// Sets the flag of an abnormal close in the CDC message.
    pub(super) fn abort(&mut self) {
        self.cdc.connection_flags |= ConnectionFlags::ABNORMAL_CLOSE;
    }

    /// The SEND of the CDC message, behind the writes.
    pub(super) fn send(&self) -> RdmaCommand {
        //= CDC-002
        RdmaCommand::Send {
            link: self.of_path.link,
            wr_id: self.of_path.wr_id,
            payload: self.cdc.emit(),
        }
    }
}

/// An open transmit over an ISM device, with the record that completes its CDC message.
#[cfg(feature = "smc-d")]
pub(crate) type IsmTransmit = OpenTransmit<NotifyRecord>;

#[cfg(feature = "smc-d")]
impl IsmTransmit {
    /// The next move into the peer's DMB. `None` once all were polled: [`Self::signal`] follows.
    pub(super) fn next_move(&mut self) -> Option<IsmCommand> {
        let write = self.next_data()?;
        Some(IsmCommand::Move {
            conn: self.conn,
            buffer: self.buffer,
            source: write.source,
            // An offset in the DMB, which has 32 bits.
            offset: write.address as u32,
        })
    }

    /// The signal with the CDC message, behind the moves.
    pub(super) fn signal(&self) -> Signal {
        Signal {
            conn: self.conn,
            buffer: self.buffer,
            cdc: self.cdc.into(),
        }
    }
}
