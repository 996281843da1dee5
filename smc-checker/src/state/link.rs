//! Links: pairs of queue pairs.

use smc_proto::wire::types::{Gid, LinkNumber, Mac, Mtu, Psn, Qpn};

use super::flow::CROSSING;
use super::side::Pair;

/// A queue pair as packets name it.
pub(crate) type QpAddress = (Gid, Qpn);

/// Which link of its group, in the order of their making.
pub(crate) type LinkIndex = usize;

/// One end of a link, as CLC or ADD LINK described it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEnd {
    pub(crate) address: QpAddress,
    pub(crate) mac: Mac,
    pub(crate) mtu: Mtu,
    /// The number its packets begin with.
    pub(crate) psn: Psn,
}

/// How far a link is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Its queue pairs were named.
    Named,
    /// The server asked for confirmation.
    Asked,
    /// The client confirmed: it can be used.
    Confirmed,
    /// The server deletes it.
    Leaving,
    /// Both sides agreed that it is gone, or its addition failed.
    Gone,
}

/// A link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) number: Option<LinkNumber>,
    pub(crate) ends: Pair<Option<LinkEnd>>,
    pub(crate) stage: Stage,
    /// Whether a client asked for its deletion, so that either side may leave it out.
    pub(crate) doubtful: bool,
    /// The link over which the server last announced that it deletes this one.
    pub(crate) deleted_over: Option<LinkIndex>,
    /// Whether it could ever be used.
    pub(crate) was_up: bool,
    /// Whether the capture holds its beginning.
    pub(crate) whole: bool,
    /// Whether anything of a side was seen on it.
    pub(crate) used: Pair<bool>,
    /// The frame of a side's last message or RDMA WRITE on it.
    pub(crate) last: Pair<u64>,
    /// Whether packets of a side are missing in the capture.
    pub(crate) gaps: Pair<bool>,
    /// When it went, in nanoseconds.
    pub(crate) gone_at: u64,
    /// Whether a side's answer to its deletion was its last message.
    pub(crate) left: Pair<bool>,
}

impl Link {
    pub(crate) fn new(whole: bool) -> Self {
        Self {
            number: None,
            ends: Pair::default(),
            stage: if whole {
                Stage::Named
            } else {
                Stage::Confirmed
            },
            doubtful: false,
            deleted_over: None,
            was_up: !whole,
            whole,
            used: Pair::default(),
            last: Pair::default(),
            gaps: Pair::default(),
            gone_at: 0,
            left: Pair::default(),
        }
    }

    /// Whether it is neither being made nor gone.
    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Confirmed
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Whether it is gone, and so long that a CLC message which named it before would
    /// have been seen: TCP keeps no order with what goes over links.
    pub(crate) fn is_long_gone(&self, now: u64) -> bool {
        self.is_gone() && now.saturating_sub(self.gone_at) >= CROSSING
    }

    /// Its number in words.
    pub(crate) fn name(&self) -> String {
        self.number
            .map_or_else(|| "the first link".to_owned(), |n| format!("link {n}"))
    }
}
