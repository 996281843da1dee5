//! Finding groups and links in O(1): hash chains threaded through the slots.

use super::{GroupKind, IsmPeer, LinkGroup, LinkState, Role};
use crate::engine::{BUCKETS, Engine};
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::path::LocalPath;
use crate::rendezvous::PeerEnd;
use crate::version::SmcVersion;
use crate::wire::types::{Gid, Mac, PeerId, Qpn};

fn bucket_of(value: u64) -> usize {
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    usize::try_from(mixed).unwrap_or(0) & BUCKETS.wrapping_sub(1)
}

fn peer_bucket(peer: PeerId) -> usize {
    bucket_of(u64::from_be_bytes(peer.0))
}

impl IsmPeer {
    /// The bucket of its groups.
    pub(super) fn bucket(&self) -> usize {
        bucket_of(self.peer.gid ^ self.peer.gid_ext)
    }
}

impl LinkGroup {
    /// The hash bucket of the group.
    fn bucket(&self) -> usize {
        match &self.kind {
            GroupKind::SmcD(ism_peer) => ism_peer.bucket(),
            GroupKind::SmcR => peer_bucket(self.peer_id),
        }
    }

    /// Whether it can take one connection more. Limits of SMC-R are none of SMC-D's,
    /// and there both sides look groups up.
    ///
    /// RMBs need no look: with fewer than 255 connections one of at most 255 RMBs
    /// serves none, on either side. Its owner gives it out again, or withdraws it to
    /// make room for one of another size.
    //= RMB-001
    //= RMB-006
    //= D-034
    fn has_room(&self, limit: u16) -> bool {
        match self.kind {
            GroupKind::SmcD(_) => !self.is_ending(),
            GroupKind::SmcR => {
                self.role == Role::Server
                    && !self.is_ending()
                    && !self.flow.ends_group()
                    && self.connection_count < limit
            }
        }
    }
}

fn qpn_bucket(qpn: Qpn) -> usize {
    bucket_of(u64::from(qpn.value()))
}

impl Engine<'_> {
    /// Lists a group as one that takes connections, if it does; only groups of
    /// this side as server are looked up by peer.
    pub(crate) fn offer_group(&mut self, group: GroupIdx) {
        let own = self.core.config.connections_per_group;
        let Some(g) = self.groups.at(group) else {
            return;
        };
        //= V2-212
        let limit = u16::from(own.min(g.terms.max_connections));
        let (bucket, has_room) = (g.bucket(), g.has_room(limit));
        if let Some(list) = self.core.joinable.get_mut(bucket) {
            if has_room {
                list.push_back(&mut self.groups, group);
            } else {
                list.remove(&mut self.groups, group);
            }
        }
    }

    /// Takes a group that ends off the list.
    pub(crate) fn withdraw_group(&mut self, group: GroupIdx) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        if let Some(list) = self.core.joinable.get_mut(g.bucket()) {
            list.remove(&mut self.groups, group);
        }
    }

    /// The group of a Proposal's client with room for one more connection, on the LAN
    /// of a port that the embedder found in the client's subnet (AMB-08).
    //= RENDEZVOUS-001
    //= LINK-004
    //= LINK-023
    //= V2-210
    //= V2-211
    //= SEC-002
    pub(crate) fn find_server_group(&mut self, handshake: HandshakeIdx) -> Option<GroupIdx> {
        let h = self.handshakes.at(handshake)?;
        let proposal = h.proposal()?;
        let (peer_id, vlan) = (proposal.peer_id, h.options.vlan);
        let version = h.agreed.terms.version;
        let port = proposal.port(version);
        let list = *self.core.joinable.get(peer_bucket(peer_id))?;
        let mut forming = None;
        let mut next = list.first();
        while let Some(index) = next {
            self.core.steps = self.core.steps.wrapping_add(1);
            if let Some(g) = self.groups.at(index)
                && g.peer_id == peer_id
                && g.vlan == vlan
                && g.terms.version == version
                && self.is_group_of(index, &h.paths, port)
            {
                if g.is_active() {
                    return Some(index);
                }
                forming = forming.or(Some(index));
            }
            next = list.next(&mut self.groups, index);
        }
        forming
    }

    /// Whether a group is one with the owner of this port of the peer, on the LAN of
    /// one of these ports of this side.
    ///
    /// A peer ID alone is not unique: hosts without an RNIC of version 1 have none,
    /// and stacks beside each other in one host may share it. Without a port that the
    /// peer announced as its own, a stranger's Decline would end the group of another
    /// (CLC-046).
    fn is_group_of(&self, group: GroupIdx, paths: &[LocalPath], port: (Gid, Mac)) -> bool {
        let Some(g) = self.groups.at(group) else {
            return false;
        };
        //= V2-210
        let same = |named: Option<(Gid, Mac)>| {
            named == Some(port) || (g.terms.is_v2() && named.is_some_and(|(gid, _)| gid == port.0))
        };
        let known = same(g.proposed) || same(g.other_port);
        let mut links = self.select_links(group, |link| {
            matches!(link.link_state, LinkState::Active | LinkState::Adding)
        });
        paths.iter().any(|path| path.lan == g.lan)
            && (known || links.any(|(_, link)| link.leads_to(port.0, port.1)))
    }

    /// Lists a link under its peer's queue pair number.
    pub(crate) fn hash_link(&mut self, link: LinkIdx) {
        let Some(peer) = self.links.at(link).and_then(|l| l.peer) else {
            return;
        };
        if let Some(list) = self.core.links_by_qpn.get_mut(qpn_bucket(peer.qpn)) {
            list.push_back(&mut self.links, link);
        }
    }

    pub(crate) fn unhash_link(&mut self, link: LinkIdx) {
        let Some(peer) = self.links.at(link).and_then(|l| l.peer) else {
            return;
        };
        if let Some(list) = self.core.links_by_qpn.get_mut(qpn_bucket(peer.qpn)) {
            list.remove(&mut self.links, link);
        }
    }

    /// The link of a group of this side as client that an Accept names.
    //= RENDEZVOUS-011
    //= CLC-030
    pub(crate) fn find_client_link(
        &mut self,
        accept: &PeerEnd,
        version: SmcVersion,
        vlan: Option<u16>,
    ) -> Option<LinkIdx> {
        let list = *self.core.links_by_qpn.get(qpn_bucket(accept.qpn))?;
        let mut next = list.first();
        while let Some(index) = next {
            self.core.steps = self.core.steps.wrapping_add(1);
            let link = self.links.at(index)?;
            let names = link.peer.is_some_and(|peer| peer.qpn == accept.qpn)
                && link.leads_to(accept.gid, accept.mac);
            let group = self.groups.at(link.group);
            let fits = |g: &LinkGroup| {
                g.role == Role::Client
                    && !g.is_ending()
                    && g.peer_id == accept.peer_id
                    && g.vlan == vlan
                    && g.terms.version == version
            };
            if names && group.is_some_and(fits) {
                return Some(index);
            }
            next = list.next(&mut self.links, index);
        }
        None
    }

    /// Whether a group with the sender of an Accept ever lost a link, which may be
    /// the one it names.
    pub(crate) fn lost_links_to(&mut self, accept: &PeerEnd) -> bool {
        let hit = self.groups.iter().find(|(_, g)| {
            g.role == Role::Client && g.lost_links && g.is_active() && g.peer_id == accept.peer_id
        });
        hit.is_some()
    }

    /// The connection of a group that uses an element of the peer's RMB.
    pub(crate) fn user_of(
        &mut self,
        group: GroupIdx,
        rmb: RemoteRmbIdx,
        index: u8,
        except: ConnIdx,
    ) -> ConnIdx {
        let uses = |engine: &mut Self, conn| {
            conn != except
                && engine
                    .connections
                    .at(conn)
                    .is_some_and(|r| r.remote.rmb == rmb && (index == 0 || r.remote.index == index))
        };
        self.find_member(group, uses).unwrap_or(Idx::NONE)
    }
}
