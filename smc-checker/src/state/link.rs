//! The checker's state of one SMC-R link, that is, a pair of connected queue pairs.

use smc_proto::wire::types::{Gid, LinkNumber, Mac, Mtu, Psn, Qpn};

use super::flow::CROSSING;
use super::side::Pair;

/// Address of a queue pair in RoCE packets.
pub(crate) type QpAddress = (Gid, Qpn);

/// Index of a link in its link group, in the order of creation.
pub(crate) type LinkIndex = usize;

/// One end of a link, as CLC or ADD LINK described it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEnd {
    pub(crate) address: QpAddress,
    pub(crate) mac: Mac,
    pub(crate) mtu: Mtu,
    /// Initial packet sequence number of the packets that this end sends.
    pub(crate) psn: Psn,
}

/// Stage in the life of a link, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// CLC or ADD LINK messages named the queue pairs.
    Named,
    /// The server sent CONFIRM LINK.
    Asked,
    /// The client replied to CONFIRM LINK: the link can be used.
    Confirmed,
    /// The server sent DELETE LINK.
    Leaving,
    /// The client replied to DELETE LINK, or adding the link failed.
    Gone,
}

/// State of one link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) number: Option<LinkNumber>,
    pub(crate) ends: Pair<Option<LinkEnd>>,
    pub(crate) stage: Stage,
    /// Whether the client requested its deletion. Either side may then omit the link where rules
    /// require all links.
    pub(crate) doubtful: bool,
    /// The link over which the server last sent a DELETE LINK for this one.
    pub(crate) deleted_over: Option<LinkIndex>,
    /// Whether the link was ever in [`Stage::Confirmed`].
    pub(crate) was_up: bool,
    /// Whether the capture contains the beginning of the link.
    pub(crate) whole: bool,
    /// Whether any packet of a side was seen on the link.
    pub(crate) used: Pair<bool>,
    /// Number of the frame with a side's last message or RDMA WRITE on the link.
    pub(crate) last: Pair<u64>,
    /// Whether packets of a side are missing in the capture.
    pub(crate) gaps: Pair<bool>,
    /// Time of the change to [`Stage::Gone`], in nanoseconds.
    pub(crate) gone_at: u64,
    /// Whether the last message of a side on the link was its reply to the DELETE LINK.
    pub(crate) left: Pair<bool>,
}

impl Link {
    /// A new link. `whole`: the capture contains its beginning; else the link counts as confirmed.
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

    /// Whether the link is usable: confirmed, and not being deleted.
    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Confirmed
    }

    /// Whether the link is deleted, or adding it failed.
    pub(crate) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Whether the link has been gone for at least [`CROSSING`] at the time `now`, in nanoseconds. A
    /// CLC message that was sent before has arrived by then; TCP and RoCE packets have no order
    /// among each other.
    pub(crate) fn is_long_gone(&self, now: u64) -> bool {
        self.is_gone() && now.saturating_sub(self.gone_at) >= CROSSING
    }

    /// Name of the link for messages to users.
    pub(crate) fn name(&self) -> String {
        self.number
            .map_or_else(|| "the first link".to_owned(), |n| format!("link {n}"))
    }
}
