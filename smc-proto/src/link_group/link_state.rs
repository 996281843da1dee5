//! State of a link within its group.
//!
//! ```text
//!  server: Offered ─┐
//!                   ├─► Adding ─► Active ─► Leaving ─► (slot freed)
//!  first link ──────┘
//! ```

use core::hash::{Hash, Hasher};

use crate::fingerprint::until;
use crate::id::LinkIdx;
use crate::time::Instant;
use crate::wire::types::DeleteLinkReason;

/// State of a link within its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkState {
    /// Server: offered by ADD LINK, not accepted yet.
    Offered,
    /// Being made; not confirmed.
    Adding,
    /// Confirmed: connections may use it.
    Active,
    /// Failed, or being deleted.
    Leaving(Removal),
}

/// Removal of a link from its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removal {
    /// Why, for DELETE LINK.
    pub(crate) reason: DeleteLinkReason,
    /// Whether the link still works: what is posted on it may complete first.
    pub(crate) graceful: bool,
    /// Whether new data is kept off it: its end is decided, not only asked for.
    pub(crate) draining: bool,
    /// State of the DELETE LINK exchange.
    pub(crate) progress: DeletionProgress,
    /// When the server must have answered a client's request, or when the link
    /// must be drained.
    pub(crate) deadline: Option<Instant>,
}

/// State of the DELETE LINK exchange about a link that is being removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum DeletionProgress {
    /// DELETE LINK must be sent; the server first lets data in flight complete.
    Due,
    /// Client: the reply has to be sent once data in flight is completed.
    ReplyDue {
        /// The link that brought the request.
        via_link: LinkIdx,
    },
    /// The request waits or is in flight on a link.
    Requested {
        /// The link that carries the request.
        via_link: LinkIdx,
        /// Client: whether it was posted.
        posted: bool,
    },
    /// The reply is overdue; TEST LINK shows whether the link it was sent on is dead.
    Overdue {
        /// The link that carried the request.
        via_link: LinkIdx,
    },
    /// Both sides agree.
    Agreed,
}

impl DeletionProgress {
    /// Whether nothing shows that the peer knows of it.
    pub(super) const fn is_unknown_to_peer(self) -> bool {
        matches!(self, Self::Due | Self::Overdue { .. })
    }

    /// Whether DELETE LINK was given to a link, and there is no reply.
    pub(super) const fn is_requested(self) -> bool {
        matches!(self, Self::Requested { .. } | Self::Overdue { .. })
    }

    /// Whether the reply is awaited on this link.
    pub(super) fn is_awaited_from(self, link: LinkIdx) -> bool {
        match self {
            Self::Requested { via_link, .. } | Self::Overdue { via_link } => via_link == link,
            Self::Due | Self::ReplyDue { .. } | Self::Agreed => false,
        }
    }
}

/// What the application was notified of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LinkNotified {
    /// Nothing.
    Nothing,
    /// `LinkUp` waits to be polled.
    Rising,
    /// `LinkUp` was polled.
    Up,
}

impl LinkState {
    /// Whether connections may send over it: also while its deletion in order is
    /// only asked for.
    #[inline]
    pub(crate) const fn carries_data(self) -> bool {
        match self {
            Self::Active => true,
            Self::Leaving(Removal {
                graceful, draining, ..
            }) => graceful && !draining,
            Self::Offered | Self::Adding => false,
        }
    }

    /// The state of a failed link; `progress` says whether DELETE LINK has to be sent.
    pub(crate) const fn failed(reason: DeleteLinkReason, progress: DeletionProgress) -> Self {
        Self::Leaving(Removal {
            reason,
            graceful: false,
            draining: true,
            progress,
            deadline: None,
        })
    }

    /// The removal, if the link is being removed.
    pub(crate) const fn removal(self) -> Option<Removal> {
        match self {
            Self::Leaving(removal) => Some(removal),
            _ => None,
        }
    }

    pub(super) fn fingerprint<H: Hasher>(self, now: Instant, hasher: &mut H) {
        match self {
            Self::Offered => hasher.write_u8(0),
            Self::Adding => hasher.write_u8(1),
            Self::Active => hasher.write_u8(2),
            Self::Leaving(Removal {
                reason,
                graceful,
                draining,
                progress,
                deadline,
            }) => {
                (3u8, reason, graceful, draining).hash(hasher);
                (progress, until(deadline, now)).hash(hasher);
            }
        }
    }
}
