//! Events for the application. Enums here may grow.

use core::fmt;

use crate::connection::{CloseCause, FatalCause};
use crate::id::{ConnId, GroupId, LinkId};
use crate::wire::types::DiagnosisCode;

/// Something worth knowing. Nothing is lost if an event is ignored, but a
/// connection's slot is free only once its last event was polled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Server: a Proposal arrived; answer with `accept` or `decline`.
    Proposed {
        /// The connection.
        conn: ConnId,
    },
    /// Data can flow over SMC-R.
    Established {
        /// The connection.
        conn: ConnId,
        /// Link group of the connection.
        group: GroupId,
        /// Whether this connection created the group.
        first_contact: bool,
    },
    /// The connection is plain TCP; last event of the handle.
    FellBack {
        /// The connection.
        conn: ConnId,
        /// Why.
        why: FallbackReason,
    },
    /// There may be something to read, or the end of the stream.
    Readable {
        /// The connection.
        conn: ConnId,
    },
    /// There may be room to write, or writes fail from here on.
    Writable {
        /// The connection.
        conn: ConnId,
    },
    /// The peer announces urgent data.
    Urgent {
        /// The connection.
        conn: ConnId,
    },
    /// The connection was reset, and what the peer had sent before can still be read: only with
    /// [`ConnectionConfig::keep_received`](crate::config::ConnectionConfig::keep_received).
    /// [`Event::Closed`] follows.
    Reset {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
        /// Whether the peer had ended its stream before, so that its end follows the bytes.
        end_of_stream: bool,
    },
    /// The connection ended; last event of the handle.
    Closed {
        /// The connection.
        conn: ConnId,
        /// How.
        reason: CloseReason,
    },
    /// A link group can carry connections.
    GroupUp {
        /// The group.
        group: GroupId,
    },
    /// A link of a group can carry connections.
    LinkUp {
        /// The group.
        group: GroupId,
        /// The link.
        link: LinkId,
    },
    /// A link of a group is gone; connections that used it moved to another one
    /// or ended.
    LinkDown {
        /// The group.
        group: GroupId,
        /// The link.
        link: LinkId,
    },
    /// A link group ended; its connections got their own events.
    GroupDown {
        /// The group.
        group: GroupId,
    },
}

/// Why a connection is plain TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FallbackReason {
    /// The code that this side sent, or would have, in its Decline; when the peer
    /// declined, [`DiagnosisCode::PEER_DECLINED`].
    pub code: DiagnosisCode,
    /// The code in the peer's Decline.
    pub peer_diagnosis: Option<DiagnosisCode>,
}

impl FallbackReason {
    /// This side's own code; the peer has sent none.
    #[must_use]
    pub const fn new(code: DiagnosisCode) -> Self {
        Self {
            code,
            peer_diagnosis: None,
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        match self.peer_diagnosis {
            Some(diagnosis) => write!(f, ", peer says {diagnosis}"),
            None => Ok(()),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// Both sides closed.
    Normal,
    /// The local application aborted it, or closed it with unread data.
    LocalAbort,
    /// The peer aborted it.
    PeerAbort,
    /// TCP was reset.
    TcpReset,
    /// The peer did not finish its part of closing in time.
    CloseTimeout,
    /// No link is left to the peer.
    LinksLost,
    /// The peer broke the protocol.
    PeerMisbehaved,
    /// The rendezvous failed where falling back is no longer allowed.
    RendezvousFailed,
    /// The eye catcher of the RMB element was damaged.
    EyeCatcherDamaged,
    /// Data was lost while moving to another link.
    DataLost,
    /// The peer gave the RMB element to a newer connection.
    RmbeConflict,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "closed by both sides",
            Self::LocalAbort => "aborted by this side",
            Self::PeerAbort => "aborted by the peer",
            Self::TcpReset => "TCP was reset",
            Self::CloseTimeout => "the peer did not finish closing in time",
            Self::LinksLost => "no link to the peer is left",
            Self::PeerMisbehaved => "the peer broke the protocol",
            Self::RendezvousFailed => "the rendezvous failed",
            Self::EyeCatcherDamaged => "the eye catcher of the RMB element was damaged",
            Self::DataLost => "data was lost on a failed link",
            Self::RmbeConflict => "the peer reused the RMB element",
        })
    }
}

impl From<CloseCause> for CloseReason {
    fn from(cause: CloseCause) -> Self {
        match cause {
            CloseCause::Orderly => Self::Normal,
            CloseCause::Aborted | CloseCause::UnreadData | CloseCause::PeerClosedEarly => {
                Self::LocalAbort
            }
            CloseCause::PeerAborted => Self::PeerAbort,
            CloseCause::LingerExpired | CloseCause::CloseWaitExpired => Self::CloseTimeout,
            CloseCause::TcpReset => Self::TcpReset,
            CloseCause::PeerMisbehaved(_) | CloseCause::Fatal(FatalCause::TcpData) => {
                Self::PeerMisbehaved
            }
            CloseCause::Fatal(FatalCause::EyeCatcherDamaged) => Self::EyeCatcherDamaged,
            CloseCause::Fatal(FatalCause::DataLost) => Self::DataLost,
            CloseCause::Fatal(FatalCause::RmbeConflict) => Self::RmbeConflict,
            CloseCause::Fatal(
                FatalCause::LinkLost | FatalCause::MemoryOutOfReach | FatalCause::AccessRefused,
            ) => Self::LinksLost,
        }
    }
}
