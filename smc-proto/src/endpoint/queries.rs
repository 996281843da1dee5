//! Queries, which change nothing.

use core::hash::Hasher;

use super::Endpoint;
use super::Proposed;
use crate::config::Config;
use crate::connection::CloseState;
use crate::connection_record::Phase;
use crate::id::{ConnId, GroupId, LinkId};
use crate::link_group::Role;
use crate::path::LocalPath;
use crate::stats::Statistics;
use crate::storage::Storage;
use crate::time::Instant;
use crate::version::{PeerHost, Terms};
use crate::wire::types::{Gid, LinkNumber, LinkUserId, Mac};

impl<S: Storage> Endpoint<S> {
    /// What the client of a connection proposed, while it waits for an answer.
    pub fn proposal(&self, conn: ConnId) -> Option<Proposed> {
        let tables = self.storage.views();
        let record = tables.connections.live(conn.index, conn.generation)?;
        let Phase::Rendezvous(handshake) = record.phase else {
            return None;
        };
        let handshake = tables.handshakes.at(handshake)?;
        if handshake.role != Role::Server {
            return None;
        }
        handshake.proposal().cloned()
    }

    /// Whether there are bytes to be read from a connection next.
    #[inline]
    pub fn is_readable(&self, conn: ConnId) -> bool {
        let tables = self.storage.views();
        let record = tables.connections.live(conn.index, conn.generation);
        record
            .and_then(|record| record.connection.as_ref())
            .is_some_and(|connection| connection.readable_bytes() > 0)
    }

    /// What a connection is ready for, by one look-up. `None` if the handle is stale, or the
    /// connection has no buffers or is lent.
    #[inline]
    pub fn readiness(&self, conn: ConnId) -> Option<Readiness> {
        let tables = self.storage.views();
        let record = tables.connections.live(conn.index, conn.generation);
        let record = record.filter(|record| record.group.is_some())?;
        let connection = record.connection.as_ref()?;
        Some(Readiness {
            bytes: connection.readable_bytes() > 0,
            end_of_stream: connection.is_end_of_stream(),
            space: connection.has_send_space(),
            over: connection.is_over(),
            state: connection.state(),
        })
    }

    /// A link, unless the handle is stale.
    pub fn link(&self, link: LinkId) -> Option<LinkStatus> {
        let tables = self.storage.views();
        let l = tables.links.live(link.index, link.generation)?;
        let group = GroupId {
            index: l.group,
            generation: tables.groups.generation(l.group),
        };
        Some(LinkStatus {
            group,
            vlan: tables.groups.at(l.group).and_then(|g| g.vlan),
            user_ids: (l.user_id, l.peer_user_id),
            number: l.number,
            path: l.path,
            peer: l.peer.map(|peer| (peer.gid, peer.mac)),
            active: l.is_active(),
            asymmetric: l.asymmetric,
            connections: l.connections,
        })
    }

    /// What both sides of a link group agreed on, unless the handle is stale.
    pub fn terms(&self, group: GroupId) -> Option<Terms> {
        let tables = self.storage.views();
        let g = tables.groups.live(group.index, group.generation)?;
        Some(Terms {
            max_links: g.max_links,
            ..g.terms
        })
    }

    /// VLAN of a link group, if it is in one and the handle is not stale. A group of SMC-D of version 2
    /// is in [`ISM_VLAN_V2`](crate::command::ISM_VLAN_V2).
    pub fn vlan(&self, group: GroupId) -> Option<u16> {
        let tables = self.storage.views();
        tables.groups.live(group.index, group.generation)?.vlan
    }

    /// What the peer said of its host, of a link group of version 2, unless the handle is stale.
    pub fn peer_host(&self, group: GroupId) -> Option<PeerHost> {
        let tables = self.storage.views();
        let g = tables.groups.live(group.index, group.generation)?;
        g.terms.is_v2().then_some(g.host)
    }

    /// Counters since the endpoint was made.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.core.statistics
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.core.config
    }

    /// How many steps the last input or command took: each message, object and
    /// list entry visited is one. Bounded whatever the peer does (reliability I13).
    #[must_use]
    pub const fn last_steps(&self) -> u32 {
        self.core.steps
    }

    /// How many objects of each kind exist.
    pub fn usage(&self) -> Usage {
        let tables = self.storage.views();
        Usage {
            connections: tables.connections.used(),
            handshakes: tables.handshakes.used(),
            groups: tables.groups.used(),
            links: tables.links.used(),
            buffers: tables.buffers.used(),
            remote_rmbs: tables.remote_rmbs.used(),
        }
    }

    /// Feeds the state into a hasher in a canonical form: deadlines relative to
    /// `now`, positions and numbers relative to each other, no counters.
    pub fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        crate::fingerprint::endpoint(&self.storage.views(), &self.core.ports, now, hasher);
    }
}

/// What a connection is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Readiness {
    /// There are bytes to be read.
    pub bytes: bool,
    /// The peer sends no more and everything was read.
    pub end_of_stream: bool,
    /// There is room to write.
    pub space: bool,
    /// Whether this side has closed the connection, or it was reset.
    pub over: bool,
    /// State of the close machine.
    pub state: CloseState,
}

/// What a link is and joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LinkStatus {
    /// Group of the link.
    pub group: GroupId,
    /// VLAN of its group, if it is in one.
    pub vlan: Option<u16>,
    /// Number of the link, the same at both ends (LINK-025).
    pub number: LinkNumber,
    /// Numbers by which the own side and the peer know it; 0 for the peer's until the peer confirms
    /// the link.
    pub user_ids: (LinkUserId, LinkUserId),
    /// The own end.
    pub path: LocalPath,
    /// GID and MAC of the other end, once known.
    pub peer: Option<(Gid, Mac)>,
    /// Whether connections may use it.
    pub active: bool,
    /// Whether it shares an RNIC with another link of the group.
    pub asymmetric: bool,
    /// Connections whose writes go over it.
    pub connections: u16,
}

/// How many objects of each kind an endpoint has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Connections, until their last event was polled.
    pub connections: u32,
    /// Of these, in rendezvous.
    pub handshakes: u32,
    /// Link groups.
    pub groups: u32,
    /// Links; groups of SMC-D have none.
    pub links: u32,
    /// RMBs and send buffers.
    pub buffers: u32,
    /// RMBs of peers.
    pub remote_rmbs: u32,
}
