//! What the world answers to [`RdmaCommand`](crate::command::RdmaCommand)s and
//! [`IsmCommand`](crate::command::IsmCommand)s.

#[cfg(feature = "smc-d")]
mod ism;

#[cfg(feature = "smc-d")]
pub use ism::IsmCompletion;

use crate::id::{BufferId, ConnId, LinkId, WrId};
use crate::wire::types::{Qpn, RToken};

/// The end of a command, or something an RNIC reports by itself.
///
/// A completion whose handle is stale is dropped silently.
///
/// # Order
///
/// What arrived or completed on one link is reported in the order of its completion
/// queue. Between links any order will do, with one exception.
///
/// A CDC message with the failover flag is reported only after everything that had
/// arrived before it on the group's other links: an adapter with a completion queue per
/// RNIC polls the others once more first. The message says which one of the messages
/// over the failed link must have arrived; if that one still lies in a queue, the engine
/// has to take it for lost and resets the connection.
/// [`Cdc::parse`](crate::wire::cdc::Cdc::parse) finds the flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaCompletion<'a> {
    /// The queue pair exists, in state INIT.
    QpCreated {
        /// The link.
        link: LinkId,
        /// Number of the queue pair.
        qpn: Qpn,
    },
    /// The queue pair is in state RTR.
    QpConnected {
        /// The link.
        link: LinkId,
    },
    /// The queue pair is in state RTS.
    QpActive {
        /// The link.
        link: LinkId,
    },
    /// The queue pair is in the error state and everything posted was flushed.
    QpDrained {
        /// The link.
        link: LinkId,
    },
    /// Queue pair and protection domain are gone.
    QpDestroyed {
        /// The link.
        link: LinkId,
    },
    /// The buffer has memory.
    BufferAllocated {
        /// The buffer.
        buffer: BufferId,
    },
    /// The buffer is registered on the link.
    BufferRegistered {
        /// The buffer.
        buffer: BufferId,
        /// The link.
        link: LinkId,
        /// Key and address a peer uses over that link; of no meaning for a send
        /// buffer.
        rtoken: RToken,
    },
    /// The registration is undone.
    BufferDeregistered {
        /// The buffer.
        buffer: BufferId,
        /// The link.
        link: LinkId,
    },
    /// The memory is given back.
    BufferFreed {
        /// The buffer.
        buffer: BufferId,
    },
    /// The element is zero.
    ElementCleared {
        /// The RMB.
        buffer: BufferId,
        /// First byte of the element, as in the command.
        offset: u32,
    },
    /// A SEND and all work before it on its link completed.
    Sent {
        /// The link.
        link: LinkId,
        /// The SEND.
        wr_id: WrId,
    },
    /// A SEND of the peer arrived.
    Received {
        /// The link.
        link: LinkId,
        /// Bytes of the SEND.
        payload: &'a [u8],
    },
    /// The control command of a link that was in flight failed.
    LinkRefused {
        /// The link.
        link: LinkId,
    },
    /// The control command of a buffer that was in flight failed.
    BufferRefused {
        /// The buffer.
        buffer: BufferId,
    },
    /// The queue pair broke. Reported once, after the completion queue was
    /// drained: SENDs not reported `Sent` by then count as not sent.
    LinkFailed {
        /// The link.
        link: LinkId,
        /// Why.
        cause: LinkFailure,
        /// The connection whose work broke it, if the RNIC knows it.
        conn: Option<ConnId>,
    },
    /// The eye catcher of the connection's RMB element was found damaged when
    /// the adapter was about to read from it (RMB-018).
    EyeCatcherDamaged {
        /// The connection.
        conn: ConnId,
    },
}

/// Why a queue pair broke.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum LinkFailure {
    /// The peer's RNIC did not acknowledge in time.
    RetriesExhausted,
    /// The peer has no receive posted for too long.
    ReceiverNotReady,
    /// The peer's RNIC refused an RDMA WRITE.
    RemoteAccess,
    /// The port went down.
    PortDown,
    /// The RNIC is gone.
    DeviceRemoved,
    /// Any other error of the queue pair.
    Other,
}
