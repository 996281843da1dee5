//! What peers, links and callers can do wrong.

use core::fmt;

/// A condition on this side, or of the links, that ends a connection (ABORT-015).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FatalCause {
    /// No link to the peer is left.
    LinkLost,
    /// There are links to the peer, but none on which its RMB can be written and the
    /// local send buffer is registered.
    MemoryOutOfReach,
    /// The peer gave its RMB element to another connection while we believed this
    /// one to hold it (RFC 7609 4.4.2).
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
    /// Whether the peer can still be notified.
    #[must_use]
    pub const fn can_notify_peer(self) -> bool {
        !matches!(self, Self::LinkLost | Self::RmbeConflict)
    }
}

/// A CDC message with legal bytes that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// The producer cursor's count is not in our ring (CDC-015).
    ProducerOutsideRing,
    /// The producer cursor is beyond the space we granted (CDC-014).
    ProducerBeyondWindow,
    /// The producer cursor is more than one ring before its predecessor.
    ProducerFarBack,
    /// The consumer cursor's count is not in the peer's ring (CDC-015).
    ConsumerOutsideRing,
    /// The consumer cursor is beyond what we published (CDC-027).
    ConsumerBeyondPublished,
    /// The consumer cursor is more than one ring before its predecessor.
    ConsumerFarBack,
    /// The head of the DMB is no CDC message.
    ForeignHead,
}

/// A call that the state of the connection does not allow. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ApiMisuse {
    /// More bytes committed than there is space.
    BeyondSpace {
        /// Bytes there are.
        space: u32,
    },
    /// More bytes consumed than are readable.
    BeyondReadable {
        /// Bytes there are.
        readable: u32,
    },
    /// The sending direction is shut down, or the peer has closed.
    SendClosed,
    /// The application has closed the connection.
    Closed,
    /// The connection was reset (ABORT-004).
    Reset,
    /// There is no urgent byte to take.
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
            Self::NoUrgent => f.write_str("no urgent octet"),
        }
    }
}

impl core::error::Error for ApiMisuse {}
impl core::error::Error for PeerMisbehaved {}
