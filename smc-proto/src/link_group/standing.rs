//! What a link is to its group.
//!
//! ```text
//!  server: Offered ─┐
//!                   ├─► Adding ─► Active ─► Leaving ─► (slot freed)
//!  first link ──────┘
//! ```

use core::hash::{Hash, Hasher};

use crate::fingerprint::until;
use crate::time::Instant;
use crate::wire::types::DeleteLinkReason;

/// What a link is to its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Server: offered by ADD LINK, not accepted yet.
    Offered,
    /// Being made; not confirmed.
    Adding,
    /// Confirmed: connections may use it.
    Active,
    /// Failed, or being deleted.
    Leaving(Departure),
}

/// How a link leaves its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departure {
    /// Why, for DELETE LINK.
    pub(crate) reason: DeleteLinkReason,
    /// Whether it still works: what is posted on it may complete first.
    pub(crate) orderly: bool,
    /// No new data goes over it: its end is decided, not only asked for.
    pub(crate) quieting: bool,
    /// How far the peers agree on it.
    pub(crate) word: Word,
    /// When the server must have answered a client's request, or when the link
    /// must have become quiet.
    pub(crate) deadline: Option<Instant>,
}

/// What is to be said to the peer about a link that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Word {
    /// DELETE LINK must be sent; the server first lets data under way complete.
    Due,
    /// Client: the answer is to be sent on this link once data under way is
    /// completed.
    Owed {
        /// The link that brought the request.
        carrier: u32,
    },
    /// It waits or is under way on this link.
    Given {
        /// The link that carries it.
        carrier: u32,
        /// Client: whether it was posted.
        posted: bool,
    },
    /// The answer is overdue; TEST LINK on this link tells whether it is dead.
    Doubted {
        /// The link that carried it.
        carrier: u32,
    },
    /// Both sides know.
    Settled,
}

impl Word {
    /// Whether nothing says that the peer has heard of it.
    pub(super) const fn is_unheard(self) -> bool {
        matches!(self, Self::Due | Self::Doubted { .. })
    }

    /// Whether DELETE LINK was given to a link, and there is no answer.
    pub(super) const fn is_given(self) -> bool {
        matches!(self, Self::Given { .. } | Self::Doubted { .. })
    }

    /// Whether the answer is awaited from this link.
    pub(super) const fn is_carried_by(self, link: u32) -> bool {
        match self {
            Self::Given { carrier, .. } | Self::Doubted { carrier } => carrier == link,
            Self::Due | Self::Owed { .. } | Self::Settled => false,
        }
    }
}

/// What the application was told of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LinkTold {
    /// Nothing.
    Nothing,
    /// `LinkUp` waits to be polled.
    Rising,
    /// `LinkUp` was polled.
    Up,
}

impl Standing {
    /// Whether connections may send over it: also while its deletion in order is
    /// only asked for.
    #[inline]
    pub(crate) const fn carries_data(self) -> bool {
        match self {
            Self::Active => true,
            Self::Leaving(Departure {
                orderly, quieting, ..
            }) => orderly && !quieting,
            Self::Offered | Self::Adding => false,
        }
    }

    /// Leaves because it failed; `word` tells whether the peer must hear of it.
    pub(crate) const fn failed(reason: DeleteLinkReason, word: Word) -> Self {
        Self::Leaving(Departure {
            reason,
            orderly: false,
            quieting: true,
            word,
            deadline: None,
        })
    }

    /// The departure, if it leaves.
    pub(crate) const fn departure(self) -> Option<Departure> {
        match self {
            Self::Leaving(departure) => Some(departure),
            _ => None,
        }
    }

    pub(super) fn fingerprint<H: Hasher>(self, now: Instant, hasher: &mut H) {
        match self {
            Self::Offered => hasher.write_u8(0),
            Self::Adding => hasher.write_u8(1),
            Self::Active => hasher.write_u8(2),
            Self::Leaving(Departure {
                reason,
                orderly,
                quieting,
                word,
                deadline,
            }) => {
                (3u8, reason, orderly, quieting).hash(hasher);
                (word, until(deadline, now)).hash(hasher);
            }
        }
    }
}
