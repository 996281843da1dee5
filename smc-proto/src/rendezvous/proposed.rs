//! What is kept of a Proposal: what this side decides by, and no more. The longest
//! Proposal has 652 bytes; a table of them would be most of an endpoint's memory.

use core::hash::Hash;

use crate::config::V2Config;
use crate::version::{SERVES_V2, SmcVersion};
use crate::wire::clc::{IsmArea, IsmGidList, OfferedPath, Proposal, Subnets};
use crate::wire::types::{FeatureMask, Gid, IsmGid, Mac, PeerId, Release};

/// What a client proposed, as far as a server decides by it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Proposed {
    /// Version of the Proposal, 2 also if it offers nothing of version 2.
    pub version: SmcVersion,
    /// What is offered in version 1.
    pub v1: OfferedPath,
    /// Identity of the client; may be zero and the same in many hosts.
    pub peer_id: PeerId,
    /// GID of the RNIC port the client prefers, for version 1.
    pub gid: Gid,
    /// MAC of the RNIC port the client prefers, for both versions.
    pub mac: Mac,
    /// The client's IP networks: to be compared with those of this host.
    pub subnets: Subnets,
    /// The client's SMC-D device of version 1.
    pub ism: Option<IsmArea>,
    /// What is offered in version 2.
    pub v2: Option<ProposedV2>,
    devices: IsmGidList,
}

/// What a client offers in version 2, as far as a server decides by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct ProposedV2 {
    /// What is offered.
    pub path: OfferedPath,
    /// Release of version 2 that is offered.
    pub release: Release,
    /// GID of the client for SMC-R: whether there is a route to it is for the embedder to say.
    pub gid: Gid,
    /// The first of its user EIDs that this side has, as the place among those of this
    /// side.
    pub eid: Option<u8>,
    /// Whether it has any user EID.
    pub has_eids: bool,
    /// Whether it has a system EID.
    pub has_seid: bool,
    /// Whether that is the one of this side.
    pub seid_match: bool,
    /// Most connections in a link group, from release 1 on.
    pub max_connections: u8,
    /// Most links in a link group, from release 1 on.
    pub max_links: u8,
    /// Features of the client, from release 1 on.
    pub features: FeatureMask,
}

impl Proposed {
    pub(crate) fn new(proposal: &Proposal, own: &V2Config) -> Self {
        // A side without version 2 answers in version 1.
        let v2 = proposal.v2_offer.as_ref().filter(|_| SERVES_V2);
        Self {
            version: match proposal.version.is_v1() || !SERVES_V2 {
                true => SmcVersion::V1,
                false => SmcVersion::V2,
            },
            v1: proposal.v1,
            peer_id: proposal.peer_id,
            gid: proposal.gid,
            mac: proposal.mac,
            subnets: proposal.subnets.clone(),
            ism: proposal.ism,
            v2: v2.map(|offer| {
                let offered = offer.smcd.seid.filter(|_| offer.path.has_smcd());
                ProposedV2 {
                    path: offer.path,
                    release: offer.release,
                    gid: offer.gid,
                    //= V2-104
                    //= V2-252
                    eid: offer.eids.iter().find_map(|eid| own.ueids.place_of(eid)),
                    has_eids: !offer.eids.is_empty(),
                    has_seid: offered.is_some(),
                    //= D-031
                    seid_match: offered.is_some() && own.seid == offered,
                    max_connections: offer.max_connections,
                    max_links: offer.max_links,
                    features: offer.features,
                }
            }),
            devices: v2.map_or_else(IsmGidList::new, |offer| offer.smcd.devices.clone()),
        }
    }

    /// The client's SMC-D devices that can be chosen in version 2; none without an
    /// offer of it.
    //= D-012
    pub fn ism_gids(&self) -> impl Iterator<Item = IsmGid> + '_ {
        let offers = self.v2.is_some_and(|v2| v2.path.has_smcd());
        let area = self.ism.filter(|_| offers && self.v1.has_smcd());
        let area = area.map(|area| IsmGid {
            gid: area.gid,
            gid_ext: 0,
            chid: area.chid,
        });
        let listed = self.devices.iter().filter(move |_| offers);
        area.into_iter().chain(listed)
    }

    /// GID and MAC of the client's end of a first link.
    //= V2-030
    //= V2-110
    pub(crate) fn port(&self, version: SmcVersion) -> (Gid, Mac) {
        match (version, &self.v2) {
            (SmcVersion::V2, Some(v2)) if SERVES_V2 => (v2.gid, self.mac),
            _ => (self.gid, self.mac),
        }
    }
}
