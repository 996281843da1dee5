//! Which link, and which port: every choice among several.

use super::buffer::Registrable;
use super::link::QpState;
use super::{Link, LinkGroup, LinkSet, Role};
use crate::config::LINKS_PER_GROUP;
use crate::id::{BufferIdx, ConnIdx, GroupIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::link_group::Groups;
use crate::path::LocalPath;
use crate::wire::types::{Gid, LinkNumber, Mac};

impl Groups<'_> {
    /// Links of a group, by position; `NONE` where there is none.
    pub(crate) fn links_of(&self, group: GroupIdx) -> [LinkIdx; LINKS_PER_GROUP] {
        self.data
            .groups
            .at(group)
            .map_or([Idx::NONE; LINKS_PER_GROUP], |g| g.links)
    }

    /// Whether this side decides about the links of a group (LINK-024).
    pub(crate) fn is_server(&self, group: GroupIdx) -> bool {
        self.data
            .groups
            .at(group)
            .is_some_and(|g| g.role == Role::Server)
    }

    /// The links of a group that fulfil a condition.
    pub(crate) fn select_links<'s>(
        &'s self,
        group: GroupIdx,
        condition: impl Fn(&Link) -> bool + 's,
    ) -> impl Iterator<Item = (LinkIdx, &'s Link)> {
        self.links_of(group)
            .into_iter()
            .filter_map(|index| Some((index, self.link(index)?)))
            .filter(move |(_, link)| condition(link))
    }

    /// The link of a group with this number, unless it is only offered.
    //= V2-161
    pub(crate) fn link_by_number(&self, group: GroupIdx, number: LinkNumber) -> LinkIdx {
        self.select_links(group, |link| link.number == number && link.is_known())
            .next()
            .map_or(Idx::NONE, |(index, _)| index)
    }

    /// Positions of the links that connections may use.
    pub(crate) fn active_links(&self, group: GroupIdx) -> LinkSet {
        let mut set = LinkSet::EMPTY;
        for (_, link) in self.select_links(group, Link::is_active) {
            set.insert(link.position);
        }
        set
    }

    /// The links of a group as its buffers see them.
    pub(crate) fn registrable(&self, group: GroupIdx) -> Registrable {
        let mut links = Registrable {
            open: LinkSet::EMPTY,
            drained: LinkSet::EMPTY,
        };
        for (_, link) in self.select_links(group, |_| true) {
            if link.takes_registrations() {
                links.open.insert(link.position);
            } else if link.state == QpState::Drained {
                links.drained.insert(link.position);
            }
        }
        links
    }

    /// A link to carry an LLC message that may flow on any (LLC-010).
    //= LLC-010
    pub(crate) fn link_for_llc(&self, group: GroupIdx, except: LinkIdx) -> LinkIdx {
        self.select_links(group, |link| link.is_active() && link.is_usable())
            .map(|(index, _)| index)
            .find(|index| *index != except)
            .unwrap_or(Idx::NONE)
    }

    /// The link for a connection's writes: the one with the fewest connections,
    /// an asymmetric one only if there is no other (FAILOVER-001, FAILOVER-023).
    /// With `rmb`, only links on which that RMB of the peer can be written; with
    /// `buffers`, only those on which these buffers are registered (reliability D9).
    //= FAILOVER-001
    //= FAILOVER-023
    pub(crate) fn link_for_connection(
        &self,
        group: GroupIdx,
        rmb: RemoteRmbIdx,
        buffers: &[BufferIdx],
    ) -> LinkIdx {
        let reachable = self.remote_rmbs.at(rmb).map(super::RemoteRmb::links);
        self.select_links(group, |link| link.is_active() && link.is_usable())
            .filter(|(_, link)| reachable.is_none_or(|links| links.contains(link.position)))
            .filter(|(_, link)| {
                buffers.iter().all(|buffer| {
                    let buffer = self.buffers.at(*buffer);
                    buffer.is_none_or(|b| b.registered().contains(link.position))
                })
            })
            //= V2-213
            .min_by_key(|(_, link)| (link.asymmetric, link.connections))
            .map_or(Idx::NONE, |(index, _)| index)
    }

    /// A port for a further link: not one of a symmetric link, rather one that no
    /// link uses, and not parallel to a link (LINK-007). `peer` is the other end,
    /// if it is known.
    //= LINK-007
    //= LINK-037
    pub(crate) fn spare_port(
        &self,
        group: GroupIdx,
        peer: Option<(Gid, Mac)>,
    ) -> Option<LocalPath> {
        let g = self.data.groups.at(group)?;
        let smcr = g.smcr()?;
        self.data
            .core
            .ports
            //= LINK-006
            .on(smcr.lan, g.terms.version)
            .filter(|path| !self.is_parallel(group, path, peer))
            .filter_map(|path| {
                let users = |asymmetric| {
                    self.select_links(group, Link::holds_ports)
                        .any(|(_, link)| link.is_at(&path) && link.asymmetric == asymmetric)
                };
                (!users(false)).then_some((users(true), path))
            })
            .min_by_key(|(used, _)| *used)
            .map(|(_, path)| path)
    }

    /// A port of a link, for an asymmetric one to this peer.
    pub(crate) fn shared_port(&self, group: GroupIdx, peer: (Gid, Mac)) -> Option<LocalPath> {
        self.select_links(group, |link| link.is_active() && link.is_usable())
            .map(|(_, link)| link.path)
            .find(|path| !self.is_parallel(group, path, Some(peer)))
    }

    /// Whether a link between these ends would share both RNICs with another one.
    pub(crate) fn is_parallel(
        &self,
        group: GroupIdx,
        path: &LocalPath,
        peer: Option<(Gid, Mac)>,
    ) -> bool {
        peer.is_some_and(|(gid, mac)| {
            self.select_links(group, Link::holds_ports)
                .any(|(_, link)| link.is_at(path) && link.leads_to(gid, mac))
        })
    }

    /// Whether a link between these ends would share an RNIC with a symmetric
    /// link, which makes it asymmetric.
    pub(crate) fn is_asymmetric(
        &self,
        group: GroupIdx,
        path: &LocalPath,
        gid: Gid,
        mac: Mac,
    ) -> bool {
        self.select_links(group, |link| link.is_active() && !link.asymmetric)
            .any(|(_, link)| link.is_at(path) || link.leads_to(gid, mac))
    }

    /// Whether the limits of a group allow one more link of this kind.
    //= LINK-011
    //= LINK-018
    //= LINK-019
    //= LINK-020
    //= LINK-021
    //= LINK-038
    pub(crate) fn has_room_for(&self, group: GroupIdx, asymmetric: bool) -> bool {
        let most = self
            .data
            .groups
            .at(group)
            .map_or(0, |g| usize::from(g.max_links));
        let count = |kind| {
            self.select_links(group, move |link| {
                link.is_active() && link.asymmetric == kind
            })
            .count()
        };
        if most < 2 {
            //= V2-184
            count(true).saturating_add(count(false)) < most
        //= LINK-008
        } else if asymmetric {
            // It only stands in for a symmetric one.
            count(true) == 0 && count(false) < 2
        } else {
            count(false) < most
        }
    }

    /// Whether one more link makes sense at all: for redundancy, to replace an
    /// asymmetric one, or up to the limit.
    //= LINK-040
    //= LINK-042
    //= LINK-043
    //= LINK-044
    pub(crate) fn has_room_for_link(&self, group: GroupIdx) -> bool {
        self.has_room_for(group, false)
    }

    /// Makes asymmetric links that share nothing any more symmetric ones.
    pub(crate) fn review_symmetry(&mut self, group: GroupIdx) {
        for index in self.links_of(group) {
            let Some(link) = self.link(index).filter(|l| l.asymmetric && l.is_active()) else {
                continue;
            };
            let (path, peer) = (link.path, link.peer);
            let shares = self
                .select_links(group, Link::is_active)
                .filter(|(other, _)| *other != index)
                .any(|(_, other)| {
                    other.is_at(&path) || peer.is_some_and(|p| other.leads_to(p.gid, p.mac))
                });
            if !shares && let Some(link) = self.data.links.at_mut(index) {
                link.asymmetric = false;
            }
        }
    }

    /// The number for a further link: none is used again before all others were.
    //= LINK-025
    //= LINK-027
    pub(crate) fn next_link_number(&mut self, group: GroupIdx) -> LinkNumber {
        let mut number = self
            .data
            .groups
            .at(group)
            .map_or(LinkNumber(0), |g: &LinkGroup| g.last_number);
        // Nine links cannot occupy ten numbers.
        for _ in 0..LINKS_PER_GROUP.saturating_add(1) {
            number = LinkNumber(number.0.wrapping_add(1).max(1));
            if self
                .select_links(group, |link| link.number == number)
                .next()
                .is_none()
            {
                break;
            }
        }
        if let Some(g) = self.data.groups.at_mut(group) {
            g.last_number = number;
        }
        number
    }

    /// Keeps a connection of a group from transmitting: it has no link, and waits for no ISM device.
    pub(crate) fn stop_transmits(&mut self, group: GroupIdx, conn: ConnIdx) {
        self.assign_link(Idx::NONE, conn);
        self.leave_smcd_queue(group, conn);
    }

    /// Gives a connection's writes to a link, or to none.
    pub(crate) fn assign_link(&mut self, link: LinkIdx, conn: ConnIdx) {
        let Some(record) = self.data.connections.at_mut(conn) else {
            return;
        };
        let before = core::mem::replace(&mut record.link, link);
        if let Some(l) = self.data.links.at_mut(before) {
            l.queue.ready.remove(&mut self.data.connections, conn);
            l.connections = l.connections.saturating_sub(1);
        }
        if let Some(l) = self.data.links.at_mut(link) {
            l.connections = l.connections.saturating_add(1);
        }
    }
}
