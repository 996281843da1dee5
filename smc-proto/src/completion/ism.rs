//! What an ISM device answers and reports.

#[cfg(doc)]
use crate::command::IsmCommand;
use crate::id::{BufferId, ConnId, DeviceId};
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::types::{DmbToken, IsmGid};

/// The answer to an [`IsmCommand`], or something a device reports by itself.
///
/// One whose handle is stale is dropped silently, and so is an answer to a command
/// that is not in flight.
///
/// # Order
///
/// What a peer did is reported in the order in which it did it: data that lies before a
/// signal is in the DMB when the signal is reported, and a peer that vanishes, or takes a
/// DMB back, is reported after all its signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IsmCompletion {
    /// The DMB can be written by the peer; it is zero.
    DmbRegistered {
        /// The DMB.
        buffer: BufferId,
        /// What the peer names it by.
        token: DmbToken,
    },
    /// The DMB is gone.
    DmbUnregistered {
        /// The DMB.
        buffer: BufferId,
    },
    /// The DMB is zero.
    DmbCleared {
        /// The DMB.
        buffer: BufferId,
    },
    /// The send buffer has memory.
    BufferAllocated {
        /// The send buffer.
        buffer: BufferId,
    },
    /// The memory is given back.
    BufferFreed {
        /// The send buffer.
        buffer: BufferId,
    },
    /// The send buffer is bound to the peer's DMB.
    DmbAttached {
        /// The send buffer.
        buffer: BufferId,
    },
    /// The DMB is bound to nothing.
    DmbDetached {
        /// The send buffer.
        buffer: BufferId,
    },
    /// The control command of a buffer that was in flight failed.
    Refused {
        /// The buffer.
        buffer: BufferId,
    },
    /// The peer signalled a DMB. Several signals may be reported as one, and one
    /// without need does no harm.
    Signalled {
        /// The DMB.
        buffer: BufferId,
        /// Head of the DMB, read once: each cursor in one piece and **the consumer cursor,
        /// with the flags, before the producer cursor**. Read in the
        /// other order, the peer's last message could seem to come before its last bytes.
        cdc: [u8; CDC_ISM_LENGTH],
    },
    /// A `Move` or `Signal` of the connection could not be executed. Until this is reported,
    /// no later one of the connection may be executed either: the peer would be notified of
    /// bytes that it has not got.
    MoveFailed {
        /// The connection.
        conn: ConnId,
    },
    /// The DMB of the peer that a send buffer is bound to is gone: the peer took it back.
    /// (A device that gets no such command leaves it to the next move, which fails.)
    DmbWithdrawn {
        /// The send buffer.
        buffer: BufferId,
    },
    /// A DMB does not work any more.
    DmbFailed {
        /// The DMB.
        buffer: BufferId,
    },
    /// A device that this one could reach is gone.
    PeerVanished {
        /// The own device.
        device: DeviceId,
        /// The one that is gone.
        peer: IsmGid,
    },
    /// A peer sent a software event.
    Event {
        /// The own device.
        device: DeviceId,
        /// The sender.
        peer: IsmGid,
        /// What it is about.
        code: u32,
        /// What goes with it, in the order of this machine.
        info: u64,
    },
}
