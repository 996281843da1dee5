//! Notices of a connection to its owner.

use super::close::CloseState;
use super::faults::{FatalCause, PeerMisbehaved};
use core::fmt;

bitflags::bitflags! {
    /// What happened since the owner last asked. A notice is an edge: it is
    /// raised when something becomes possible, and again when more of it does.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Notices: u16 {
        /// Bytes arrived that the application can read.
        const READABLE = 1 << 0;
        /// The send buffer had been full, and bytes of it were released or writes began
        /// to fail because of the peer or of a fault.
        const WRITABLE = 1 << 1;
        /// The peer announced urgent data, whether or not it is here (URG-008).
        const URGENT_PENDING = 1 << 2;
        /// An urgent byte arrived; see `Connection::urgent`.
        const URGENT = 1 << 3;
        /// The peer sends no more: after what is readable comes the end of the stream.
        const END_OF_STREAM = 1 << 4;
        /// The connection ends abnormally; `Connection::cause` says why.
        const RESET = 1 << 5;
        /// The connection is CLOSED. Raised exactly once.
        const CLOSED = 1 << 6;
        /// Reset the TCP connection.
        const TCP_RESET = 1 << 7;
        /// Finish the TCP connection in order: the SMC-R close is complete (CLOSE-033), or this side ends
        /// a connection of SMC-D first.
        const TCP_CLOSE = 1 << 8;
        /// The peer has no further claim on the RMB element (CLOSE-032).
        const RMBE_RELEASED = 1 << 9;
    }
}

/// Why a connection ended, or why it is about to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CloseCause {
    /// Both sides closed.
    Orderly,
    /// The application aborted.
    Aborted,
    /// The application closed with received data unread (CLOSE-003, decision 10).
    UnreadData,
    /// The peer closed while data for it was on its way (CLOSE-015).
    PeerClosedEarly,
    /// The peer aborted.
    PeerAborted,
    /// Data could not be delivered within the linger time after the close.
    LingerExpired,
    /// The peer did not close in time (CLOSE-031).
    CloseWaitExpired,
    /// The peer reset the TCP connection (decision 5).
    TcpReset,
    /// Something on this side or in the network failed.
    Fatal(FatalCause),
    /// The peer broke the protocol.
    PeerMisbehaved(PeerMisbehaved),
}

/// What a CDC message did to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum CdcOutcome {
    /// All of it was applied.
    Applied,
    /// The sequence number of the message is not newer than the last one's (CDC-008, CDC-009).
    Stale,
    /// A cursor lay before its predecessor and was left alone, the rest was
    /// applied: this is how a failover of the peer looks (decision 6).
    BackwardCursor,
    /// The connection no longer listens in this state.
    Ignored(CloseState),
    /// A failover validation, and nothing is missing (FAILOVER-013).
    Validated,
    /// A failover validation: data was lost, the connection aborts (FAILOVER-014).
    DataLost,
    /// The message broke the protocol. None of it was applied, the connection aborts.
    Misbehaved(PeerMisbehaved),
}

/// What is counted of one connection; totals of bytes are known anyway.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) standalone: u32,
    pub(super) stale: u32,
    pub(super) backward: u32,
    pub(super) late_data: u32,
}

/// Counters of one connection, all since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes the application committed.
    pub bytes_committed: u64,
    /// Bytes published to the peer.
    pub bytes_sent: u64,
    /// Bytes the peer published to us.
    pub bytes_received: u64,
    /// CDC messages emitted, failover validations excepted.
    pub notifies: u32,
    /// Of those, the ones that published no data.
    pub standalone: u32,
    /// CDC messages that were not newer than their predecessor.
    pub stale: u32,
    /// CDC messages with a cursor before its predecessor.
    pub backward: u32,
    /// CDC messages that published data after the peer had announced to be done.
    pub late_data: u32,
}

impl fmt::Display for CloseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Orderly => "closed by both sides",
            Self::Aborted => "aborted by the application",
            Self::UnreadData => "closed with unread data",
            Self::PeerClosedEarly => "peer closed before all data was delivered",
            Self::PeerAborted => "aborted by the peer",
            Self::LingerExpired => "data not delivered within the linger time",
            Self::CloseWaitExpired => "peer did not close in time",
            Self::TcpReset => "TCP connection reset",
            Self::Fatal(cause) => return cause.fmt(f),
            Self::PeerMisbehaved(what) => return what.fmt(f),
        })
    }
}
