//! Publishing of connections, link groups and links.

use smc_proto::connection::CloseState;
use smc_proto::event::CloseReason;
use smc_proto::id::{ConnId, GroupId, LinkId};
use smc_proto::time::Instant;
use smc_proto::version::Technology;
use smc_transport_ism::shared::pairing::Peer;
use smc_view::{
    GroupRecord, GroupRow, Label, LinkRecord, LinkRow, Name, Role, Side, StackRecord, StackRow,
};

use super::state::Entry;
use super::{State, Via};
use crate::socket::Socket;
use crate::viewing::{self, Known};

/// What an endpoint publishes besides its connections.
#[derive(Default)]
pub(super) struct Published {
    stack: Option<StackRow>,
    groups: Vec<(GroupId, GroupRow)>,
    links: Vec<(LinkId, LinkRow)>,
    /// Moves of connections to other links that were counted.
    moves: u64,
    /// When the engine's clock began, in nanoseconds since 1970.
    origin: u64,
}

impl State {
    /// A stack begins.
    pub(super) fn publish_stack(&mut self, connections: usize, dmb: u64, pairs: bool) {
        let config = self.engine.config();
        let mut record = StackRecord::default();
        record.connections = connections.try_into().unwrap_or(u32::MAX);
        record.shared_buffer = dmb.try_into().unwrap_or(u32::MAX);
        record.rdma_buffer = config.receive_buffer.octets();
        record.shares_memory = pairs;
        record.has_rnics = self.transports.verbs.is_some();
        record.peer_id = config.peer_id.0;
        self.published.origin = viewing::wall_clock();
        self.published.stack = viewing::publisher().and_then(|at| at.stack(&record));
        let number = self.stack_number();
        self.engine.observer().set_stack(number);
    }

    /// The number of the stack in the process; 0 if it is not published.
    pub(crate) fn stack_number(&self) -> u32 {
        self.published.stack.as_ref().map_or(0, StackRow::number)
    }

    /// SMC carries a connection.
    pub(super) fn publish_established(&mut self, conn: ConnId) {
        let known = self.known(conn);
        if let (Some(entry), Some(known)) = (self.entry(conn), known) {
            let role = entry.socket.view.established(&known);
            self.publish_group(&known, role);
        }
    }

    /// Publishes the state of a connection, if it has changed.
    #[inline]
    pub(super) fn publish_state(&mut self, conn: ConnId) {
        let state = self.engine.conn(conn).and_then(|at| at.state());
        if let (Some(entry), Some(state)) = (self.entry(conn), state) {
            entry.socket.view.state(state);
        }
    }

    /// A connection has ended, and the endpoint has forgotten it.
    pub(super) fn publish_closed(&mut self, entry: &Entry, reason: CloseReason) {
        entry.socket.view.state(CloseState::Closed);
        if reason == CloseReason::RendezvousFailed
            && let Some(publisher) = viewing::publisher()
        {
            publisher.handshake_failed(match entry.arrival {
                Some(_) => Side::Server,
                None => Side::Client,
            });
        }
    }

    fn known(&mut self, conn: ConnId) -> Option<Known> {
        let at = self.engine.conn(conn)?;
        let (progress, token) = at.progress()?;
        let (group, link) = at.group_and_link()?;
        let (receive_reused, send_reused) = at.reused_buffers()?;
        let link = link.and_then(|link| self.engine.link(link));
        let peer = self.entry(conn)?.peer;
        // Each user of peers knows another one.
        let own = |peer: Peer| self.transports.ism.device().gids().toward(peer.uid);
        Some(Known {
            conn,
            progress,
            token: token.0,
            group,
            link: link.map_or(0, |link| link.number.0),
            gids: peer.map_or((0, 0), |peer| (own(peer).gid, peer.gid.gid)),
            stack: self.stack_number(),
            reused: [send_reused, receive_reused],
        })
    }

    /// Publishes how far a connection has got now.
    pub(crate) fn publish_progress(&mut self, socket: &Socket, now: Instant) {
        let conn = socket.conn().and_then(|conn| self.engine.conn(conn));
        if let Some((progress, _)) = conn.and_then(|conn| conn.progress()) {
            let at = self.published.origin.wrapping_add(now.as_nanos());
            socket.view.progress(&progress, at);
        }
    }

    /// Counts a write that finds no room: without a send buffer, the peer's buffer is full.
    pub(crate) fn publish_stall(&mut self, socket: &Socket) {
        socket.view.stalled(|| {
            let conn = socket.conn().filter(|_| socket.via() == Via::Verbs);
            let progress = conn.and_then(|conn| self.engine.conn(conn)?.progress());
            progress.is_none_or(|(at, _)| {
                at.written.saturating_sub(at.peer_consumed) >= at.peer_buffer.into()
            })
        });
    }

    /// A connection is carried by a link group.
    fn publish_group(&mut self, known: &Known, role: Role) {
        let group = known.group;
        if self.published.groups.iter().any(|(of, _)| *of == group) {
            return;
        }
        let (Some(publisher), Some(terms)) = (viewing::publisher(), self.engine.terms(group))
        else {
            return;
        };
        let host = self.engine.peer_host(group);
        let vlan = self.engine.vlan(group);
        let mut record = GroupRecord::default();
        record.number = viewing::number_of_group(group);
        record.technology = viewing::technology(terms.technology);
        record.role = role;
        record.version = viewing::version(terms.version);
        record.release = terms.release.number();
        record.max_links = match terms.technology {
            Technology::SmcD => 0,
            Technology::SmcR => terms.max_links,
        };
        record.max_connections = terms.max_connections;
        record.direct = terms.direct;
        record.vlan = vlan.unwrap_or(0);
        record.stack = known.stack;
        record.gids = known.gids;
        record.eid = host.map_or_else(Label::default, |host| Label(host.eid.0));
        record.peer_host = host.map_or_else(Label::default, |host| Label(host.name.0));
        record.peer_os = host.map_or(0, |host| host.os.0);
        let row = publisher.group(&record);
        self.published.groups.extend(row.map(|row| (group, row)));
    }

    pub(super) fn unpublish_group(&mut self, group: GroupId) {
        self.published.groups.retain(|(of, _)| *of != group);
    }

    /// A link of a group can carry connections, or has changed.
    pub(super) fn publish_link(&mut self, link: LinkId) {
        let (Some(publisher), Some(status)) = (viewing::publisher(), self.engine.link(link)) else {
            return;
        };
        let verbs = self.transports.verbs.as_ref();
        let names = verbs.and_then(|verbs| verbs.names(status.path.device, status.path.port));
        let names = names.unwrap_or_default();
        let mut record = LinkRecord::default();
        record.number = viewing::number_of_link(link);
        record.group = viewing::number_of_group(status.group);
        record.stack = self.stack_number();
        record.link = status.number.0;
        record.active = status.active;
        record.asymmetric = status.asymmetric;
        record.port = status.path.port;
        record.device = Name::of(&names.device);
        record.interface = Name::of(&names.interface);
        record.pnet = Name::of(&names.pnet);
        record.gid = status.path.gid.0;
        record.peer_gid = status.peer.map_or([0; 16], |(gid, _)| gid.0);
        record.user_ids = (status.user_ids.0.0, status.user_ids.1.0);
        self.published.links.retain(|(of, _)| *of != link);
        let row = publisher.link(&record);
        self.published.links.extend(row.map(|row| (link, row)));
    }

    /// A link is gone: connections may have moved to another one.
    pub(super) fn unpublish_link(&mut self, link: LinkId) {
        let moves = self.engine.statistics().failovers;
        let new = moves.wrapping_sub(self.published.moves);
        self.published.moves = moves;
        if let Some(publisher) = viewing::publisher() {
            publisher.moved(new);
        }
        self.published.links.retain(|(of, _)| *of != link);
    }
}
