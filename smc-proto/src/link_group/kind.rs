//! Kinds of link groups, and what only groups of one kind have.

use core::hash::{Hash, Hasher};

use super::LinkGroup;
use super::ism::{IsmPeer, SmcdGroup};
use super::matching::peer_bucket;
use super::waiting::FormerLinks;
use crate::id::LanId;
use crate::wire::types::{Gid, Mac, PeerId};

/// Kind of a link group, with what only a group of this kind has.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "smc-d"),
    expect(dead_code, reason = "no group is of SMC-D then")
)]
pub(crate) enum GroupKind {
    /// Links between RNICs.
    SmcR(SmcrGroup),
    /// A path through an ISM device.
    SmcD(SmcdGroup),
}

/// What only a group of SMC-R has, besides its links.
#[derive(Clone, Debug)]
pub(crate) struct SmcrGroup {
    pub(crate) peer_id: PeerId,
    /// The LAN all its links are on (LINK-037).
    pub(crate) lan: LanId,
    /// Server: GID and MAC that the client proposed when the group was founded.
    pub(crate) proposed: Option<(Gid, Mac)>,
    /// Server: another port of the client, to which no link leads: the one that it
    /// announced last, or at the end of the link that left last.
    pub(crate) other_port: Option<(Gid, Mac)>,
    /// Links that left the group.
    pub(crate) former: FormerLinks,
}

impl SmcrGroup {
    pub(crate) const fn new(peer_id: PeerId, lan: LanId) -> Self {
        Self {
            peer_id,
            lan,
            proposed: None,
            other_port: None,
            former: FormerLinks::NONE,
        }
    }
}

impl GroupKind {
    /// The hash bucket of groups with this peer.
    pub(super) fn bucket(&self) -> usize {
        match self {
            Self::SmcR(smcr) => peer_bucket(smcr.peer_id),
            Self::SmcD(smcd) => smcd.bucket(),
        }
    }

    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        match self {
            // Former links matter to connections in rendezvous, and are hashed with those.
            Self::SmcR(smcr) => {
                (0u8, smcr.peer_id, smcr.lan).hash(hasher);
                (smcr.proposed, smcr.other_port).hash(hasher);
            }
            Self::SmcD(smcd) => {
                hasher.write_u8(1);
                smcd.fingerprint(hasher);
            }
        }
    }
}

impl LinkGroup {
    /// What it has as a group of SMC-R, if it is one.
    pub(crate) const fn smcr(&self) -> Option<&SmcrGroup> {
        match &self.kind {
            GroupKind::SmcR(smcr) => Some(smcr),
            GroupKind::SmcD(_) => None,
        }
    }

    /// What it has as a group of SMC-R, to be changed.
    pub(crate) const fn smcr_mut(&mut self) -> Option<&mut SmcrGroup> {
        match &mut self.kind {
            GroupKind::SmcR(smcr) => Some(smcr),
            GroupKind::SmcD(_) => None,
        }
    }

    /// Whether it is a group of SMC-R with this peer.
    pub(crate) fn is_with(&self, peer_id: PeerId) -> bool {
        self.smcr().is_some_and(|smcr| smcr.peer_id == peer_id)
    }

    /// What it has as a group of SMC-D, if it is one.
    #[inline(always)]
    pub(crate) const fn smcd(&self) -> Option<&SmcdGroup> {
        match &self.kind {
            GroupKind::SmcD(smcd) => Some(smcd),
            GroupKind::SmcR(_) => None,
        }
    }

    /// The path through an ISM device, if it is a group of SMC-D.
    pub(crate) fn ism_peer(&self) -> Option<IsmPeer> {
        self.smcd().map(SmcdGroup::peer)
    }
}
