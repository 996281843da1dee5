//! The life of one link.

use smc_proto::time::Instant;
use smc_proto::wire::types::Gid;

use crate::demo::rung::Effect;

/// The life of a link.
#[derive(Clone, Debug)]
pub struct LinkLife {
    /// Number of the link, the same at both ends.
    pub number: u8,
    /// Where it begins at the client and at the server, as far as they announced that.
    pub ends: [Option<LinkEnd>; 2],
    /// Whether it came up on an RNIC that another link uses.
    pub asymmetric: bool,
    /// When it was up at both ends.
    pub up_at: Option<Instant>,
    /// What became of it.
    pub state: LinkState,
    /// When and of what it died, or when it was deleted.
    pub died: Option<(Instant, String)>,
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// The RNIC, from 1.
    pub rnic: u8,
    /// GID of its port.
    pub gid: Gid,
}

/// What became of a link before the connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkState {
    /// Connections can use it.
    Active,
    /// The link failed.
    Died,
    /// The peers agreed to do without it.
    Deleted,
}

impl LinkState {
    /// For tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Died => "died",
            Self::Deleted => "deleted",
        }
    }
}

/// Something to be noted in the ladder.
#[derive(Debug)]
pub(in crate::demo) struct Note {
    pub(in crate::demo) at: Instant,
    pub(in crate::demo) link: Option<u8>,
    pub(in crate::demo) mood: Effect,
    pub(in crate::demo) text: String,
}

impl Note {
    pub(in crate::demo) const fn new(at: Instant, link: u8, mood: Effect, text: String) -> Self {
        let link = Some(link);
        Self {
            at,
            link,
            mood,
            text,
        }
    }

    /// About no link.
    pub(in crate::demo) const fn general(at: Instant, mood: Effect, text: String) -> Self {
        let link = None;
        Self {
            at,
            link,
            mood,
            text,
        }
    }
}
