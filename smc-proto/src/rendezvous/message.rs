//! Proposal, Accept and Confirm as this side writes them.

use super::{Handshake, Side};
use crate::config::{Offers, ProposalVersion};
use crate::engine::Engine;
use crate::link_group::Role;
use crate::path::LocalPath;
use crate::version::{SERVES_V2, SmcVersion, Terms};
use crate::wire::UpTo;
use crate::wire::clc::{
    AcceptConfirm, AcceptConfirmV2, ClcVersion, FirstContactExtension, GidList, IsmArea,
    IsmGidList, OfferedPath, Proposal, SmcdOffer, Subnets, V2Offer,
};
use crate::wire::types::{Gid, PeerId, RmbeIndex};

/// The code of an offer in one version.
//= V2-002
const fn path_code(smcr: bool, smcd: bool) -> OfferedPath {
    match (smcr, smcd) {
        (true, true) => OfferedPath::Both,
        (true, false) => OfferedPath::SmcR,
        (false, true) => OfferedPath::SmcD,
        (false, false) => OfferedPath::Neither,
    }
}

impl Engine<'_> {
    //= CLC-021
    //= CLC-029
    //= V2-023
    pub(super) fn proposal(&self, h: &Handshake) -> Proposal {
        let offers = h.offers;
        let v1 = h.path_for(SmcVersion::V1);
        let port = v1.or_else(|| h.path_for(SmcVersion::V2));
        let ism = h.ism().iter().find(|path| path.pnet_match);
        Proposal {
            version: match self.groups.data.core.config.proposal_version {
                ProposalVersion::V2 if SERVES_V2 => ClcVersion::V2,
                _ => ClcVersion::V1,
            },
            v1: path_code(
                offers.contains(Offers::SMCR_V1),
                offers.contains(Offers::SMCD_V1),
            ),
            // A name of RNICs, which nothing of SMC-D refers to.
            //= D-016
            peer_id: match offers.intersects(Offers::SMCR) {
                true => self.groups.data.core.config.peer_id,
                false => PeerId::default(),
            },
            gid: port.map_or(Gid::default(), |path| path.gid),
            mac: port.map(|path| path.mac).unwrap_or_default(),
            ism: ism
                .filter(|_| offers.contains(Offers::SMCD_V1))
                .map(|path| IsmArea {
                    gid: path.gid.gid,
                    chid: path.gid.chid,
                }),
            subnets: match &h.side {
                Side::Client {
                    subnets: Some(subnets),
                    ..
                } if offers.intersects(Offers::V1) => subnets.clone(),
                _ => Subnets::default(),
            },
            v2_offer: (SERVES_V2 && offers.intersects(Offers::V2)).then(|| self.v2_offer(h)),
        }
    }

    //= V2-025
    //= V2-027
    fn v2_offer(&self, h: &Handshake) -> V2Offer {
        let config = &self.groups.data.core.config;
        let (smcr, smcd) = (
            h.offers.contains(Offers::SMCR_V2),
            h.offers.contains(Offers::SMCD_V2),
        );
        let mut eids = UpTo::new();
        for eid in config.v2.ueids.as_slice() {
            // Four find room for eight.
            let _ = eids.push(*eid);
        }
        let gid = h.path_for(SmcVersion::V2).filter(|_| smcr);
        V2Offer {
            path: path_code(smcr, smcd),
            release: config.v2.release,
            //= D-015
            gid: gid.map_or(Gid::default(), |path| path.gid),
            eids,
            max_connections: if smcr {
                config.advertised_connections()
            } else {
                0
            },
            max_links: if smcr { config.advertised_links() } else { 0 },
            features: config.v2.features,
            smcd: self.smcd_offer(h),
        }
    }

    /// The device of the ISM area is not repeated.
    //= D-012
    fn smcd_offer(&self, h: &Handshake) -> SmcdOffer {
        let area = match h.offers.contains(Offers::SMCD_V1) {
            true => h.ism().iter().find(|path| path.pnet_match),
            false => None,
        };
        let mut devices = IsmGidList::new();
        for path in h.ism() {
            if path.v2 && Some(path) != area {
                // Four find room, two entries each.
                let _ = devices.push(path.gid);
            }
        }
        SmcdOffer {
            seid: self.groups.data.core.config.v2.seid,
            devices,
        }
    }

    /// The own half of the connection, as Accept or Confirm describes it.
    //= CLC-032
    //= CLC-034
    //= RENDEZVOUS-036
    pub(super) fn accept_confirm(&self, h: &Handshake) -> Option<AcceptConfirm> {
        let record = self.conn(h.conn)?;
        let link = self.link(record.link)?;
        let rmb = self.groups.buffers.at(record.rmb.buffer)?;
        let v2 = h.agreed.terms.is_v2().then(|| AcceptConfirmV2 {
            eid: h.agreed.eid,
            extension: match record.first_contact {
                true => self.first_contact_extension(&h.agreed.terms),
                false => FirstContactExtension::default(),
            },
            gids: match (h.role, record.first_contact) {
                (Role::Client, true) => self.own_gids(&link.path),
                _ => GidList::new(),
            },
        });
        Some(AcceptConfirm {
            first_contact: record.first_contact,
            peer_id: self.groups.data.core.config.peer_id,
            gid: link.path.gid,
            mac: link.path.mac,
            qpn: link.qpn,
            rtoken: rmb.rtoken(link.position)?,
            rmbe_index: RmbeIndex(record.rmb.index),
            alert_token: record.token,
            buffer_size: rmb.size,
            //= V2-058
            mtu: link.mtu,
            psn: link.psn,
            v2,
        })
    }

    /// The terms of a new group; the client repeats them.
    //= V2-052
    //= V2-057
    pub(super) fn first_contact_extension(&self, terms: &Terms) -> FirstContactExtension {
        let own = &self.groups.data.core.config.v2;
        FirstContactExtension {
            direct: terms.direct,
            os: own.os,
            release: terms.release,
            hostname: own.hostname,
            max_connections: terms.max_connections,
            max_links: terms.max_links,
            features: terms.features,
        }
    }

    /// The GID of the first link, and one for another link if there is one.
    //= V2-053
    fn own_gids(&self, first: &LocalPath) -> GidList {
        let ports = self.groups.data.core.ports.on(first.lan, SmcVersion::V2);
        let mut others = ports.filter(|path| path.gid != first.gid && !path.is_at(first));
        let mut gids = GidList::new();
        let _ = gids.push(first.gid);
        if let Some(path) = others.next() {
            let _ = gids.push(path.gid);
        }
        gids
    }
}
