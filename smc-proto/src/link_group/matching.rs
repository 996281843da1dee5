//! Finding groups and links in O(1): hash chains threaded through the slots.

use super::{GroupKind, LinkGroup, LinkState, Role};
use crate::core::BUCKETS;
use crate::id::{ConnIdx, GroupIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::link_group::Groups;
use crate::path::LocalPath;
use crate::wire::types::{Gid, Mac, PeerId, Qpn};

pub(super) fn bucket_of(value: u64) -> usize {
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    usize::try_from(mixed).unwrap_or(0) & BUCKETS.wrapping_sub(1)
}

pub(crate) fn peer_bucket(peer: PeerId) -> usize {
    bucket_of(u64::from_be_bytes(peer.0))
}

impl LinkGroup {
    /// Whether it can take one connection more. Limits of SMC-R are none of SMC-D's,
    /// and there both sides look up groups.
    ///
    /// RMBs need no check: with fewer than 255 connections one of at most 255 RMBs
    /// serves none, on either side. Its owner gives it out again, or withdraws it to
    /// make room for one of another size.
    //= RMB-001
    //= RMB-006
    //= D-034
    fn has_room(&self, limit: u16) -> bool {
        match self.kind {
            GroupKind::SmcD(_) => !self.is_ending(),
            GroupKind::SmcR(_) => {
                self.role == Role::Server
                    && !self.is_ending()
                    && !self.flow.ends_group()
                    && self.connection_count < limit
            }
        }
    }
}

pub(crate) fn qpn_bucket(qpn: Qpn) -> usize {
    bucket_of(u64::from(qpn.value()))
}

impl Groups<'_> {
    /// Lists a group as one that takes connections, if it does; only groups of
    /// this side as server are looked up by peer.
    pub(crate) fn offer_group(&mut self, group: GroupIdx) {
        let own = self.data.core.config.connections_per_group;
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        //= V2-212
        let limit = u16::from(own.min(g.terms.max_connections));
        let (bucket, has_room) = (g.kind.bucket(), g.has_room(limit));
        if let Some(list) = self.data.core.joinable.get_mut(bucket) {
            if has_room {
                list.push_back(&mut self.data.groups, group);
            } else {
                list.remove(&mut self.data.groups, group);
            }
        }
    }

    /// Takes a group that ends off the list.
    pub(crate) fn withdraw_group(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        if let Some(list) = self.data.core.joinable.get_mut(g.kind.bucket()) {
            list.remove(&mut self.data.groups, group);
        }
    }

    /// Whether a group is one with the owner of this port of the peer, on the LAN of
    /// one of these ports of this side.
    ///
    /// A peer ID alone is not unique: hosts without an RNIC of version 1 have none,
    /// and stacks beside each other in one host may share it. Without a port that the
    /// peer announced as its own, a stranger's Decline would end the group of another
    /// (CLC-046).
    pub(crate) fn is_group_of(
        &self,
        group: GroupIdx,
        paths: &[LocalPath],
        port: (Gid, Mac),
    ) -> bool {
        let Some(g) = self.data.groups.at(group) else {
            return false;
        };
        let Some(smcr) = g.smcr() else {
            return false;
        };
        //= V2-210
        let same = |named: Option<(Gid, Mac)>| {
            named == Some(port) || (g.terms.is_v2() && named.is_some_and(|(gid, _)| gid == port.0))
        };
        let known = same(smcr.proposed) || same(smcr.other_port);
        let mut links = self.select_links(group, |link| {
            matches!(link.link_state, LinkState::Active | LinkState::Adding)
        });
        paths.iter().any(|path| path.lan == smcr.lan)
            && (known || links.any(|(_, link)| link.leads_to(port.0, port.1)))
    }

    /// Lists a link under its peer's queue pair number.
    pub(crate) fn hash_link(&mut self, link: LinkIdx) {
        let Some(peer) = self.link(link).and_then(|l| l.peer) else {
            return;
        };
        if let Some(list) = self.data.core.links_by_qpn.get_mut(qpn_bucket(peer.qpn)) {
            list.push_back(&mut self.data.links, link);
        }
    }

    pub(crate) fn unhash_link(&mut self, link: LinkIdx) {
        let Some(peer) = self.link(link).and_then(|l| l.peer) else {
            return;
        };
        if let Some(list) = self.data.core.links_by_qpn.get_mut(qpn_bucket(peer.qpn)) {
            list.remove(&mut self.data.links, link);
        }
    }

    /// The connection of a group that uses an element of the peer's RMB.
    pub(crate) fn user_of(
        &mut self,
        group: GroupIdx,
        rmb: RemoteRmbIdx,
        index: u8,
        except: ConnIdx,
    ) -> ConnIdx {
        let uses = |groups: &mut Self, conn| {
            conn != except
                && groups
                    .conn(conn)
                    .is_some_and(|r| r.remote.rmb == rmb && (index == 0 || r.remote.index == index))
        };
        self.find_member(group, uses).unwrap_or(Idx::NONE)
    }
}
