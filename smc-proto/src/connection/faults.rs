//! Faults of a connection: conditions that end it ([`FatalCause`]), violations by the peer
//! ([`PeerMisbehaved`]) and calls that its state does not allow ([`ApiMisuse`]).

use core::fmt;

/// Condition of this side, of the links or of TCP that ends a connection abnormally (ABORT-015).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FatalCause {
    /// No link to the peer is left.
    LinkLost,
    /// There are links to the peer, but none on which its RMB can be written and the
    /// local send buffer is registered.
    MemoryOutOfReach,
    /// The peer has given its RMB element to another connection while this one still used it
    /// (RFC 7609 4.4.2).
    RmbeConflict,
    /// The eye catcher of the local RMB element was overwritten.
    EyeCatcherDamaged,
    /// A failover validation showed that data was lost.
    DataLost,
    /// The peer's adapter refused an RDMA write of this connection.
    AccessRefused,
    /// Bytes arrived over TCP although SMC-R carries the connection (AMB-35).
    TcpData,
}

impl FatalCause {
    /// Whether a CDC message with the flag of an abnormal close can still reach the peer.
    #[must_use]
    pub const fn can_notify_peer(self) -> bool {
        !matches!(self, Self::LinkLost | Self::RmbeConflict)
    }
}

/// A well-formed CDC message that contradicts the state of its connection. Each one aborts the
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// The producer cursor's count is not in this side's ring (CDC-015).
    ProducerOutsideRing,
    /// The producer cursor is beyond the space that this side has granted (CDC-014).
    ProducerBeyondWindow,
    /// The producer cursor is more than one ring before its predecessor.
    ProducerFarBack,
    /// The consumer cursor's count is not in the peer's ring (CDC-015).
    ConsumerOutsideRing,
    /// The consumer cursor is beyond what this side has published (CDC-027).
    ConsumerBeyondPublished,
    /// The consumer cursor is more than one ring before its predecessor.
    ConsumerFarBack,
    /// The head of the DMB is not a CDC message.
    ForeignHead,
}

/// Error of a call that the state of the connection does not allow. The call has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// More bytes were committed than the send buffer has space for.
    BeyondSpace {
        /// Bytes of free space.
        space: u32,
    },
    /// More bytes were consumed than are readable.
    BeyondReadable {
        /// Readable bytes.
        readable: u32,
    },
    /// The sending direction is shut down, or the peer has closed.
    SendClosed,
    /// The application has closed the connection.
    Closed,
    /// The connection was reset (ABORT-004).
    Reset,
    /// No urgent byte is present.
    NoUrgent,
}

impl fmt::Display for FatalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkLost => "no link left",
            Self::MemoryOutOfReach => "no link left that reaches its memory",
            Self::RmbeConflict => "RMB element claimed by another connection",
            Self::EyeCatcherDamaged => "eye catcher damaged",
            Self::DataLost => "data lost in failover",
            Self::TcpData => "bytes over TCP on an SMC-R connection",
            Self::AccessRefused => "RDMA write refused by the peer",
        })
    }
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProducerOutsideRing => "producer cursor outside the ring",
            Self::ProducerBeyondWindow => "producer cursor beyond the window",
            Self::ProducerFarBack => "producer cursor more than a ring back",
            Self::ConsumerOutsideRing => "consumer cursor outside the ring",
            Self::ConsumerBeyondPublished => "consumer cursor beyond what was published",
            Self::ConsumerFarBack => "consumer cursor more than a ring back",
            Self::ForeignHead => "no CDC message at the head of the DMB",
        })
    }
}

impl fmt::Display for ApiMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondSpace { space } => write!(f, "commit beyond the {space} bytes of space"),
            Self::BeyondReadable { readable } => {
                write!(f, "consume beyond the {readable} readable bytes")
            }
            Self::SendClosed => f.write_str("sending is shut down"),
            Self::Closed => f.write_str("connection closed"),
            Self::Reset => f.write_str("connection reset"),
            Self::NoUrgent => f.write_str("no urgent byte"),
        }
    }
}

impl core::error::Error for ApiMisuse {}
impl core::error::Error for PeerMisbehaved {}
