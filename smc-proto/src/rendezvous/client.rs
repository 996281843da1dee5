//! The client: Proposal out, Accept in, Confirm out.

use heapless::Vec;

use super::{ConnOptions, Handshake, PeerEnd, Side, State, version};
use crate::command::{QpAddress, TcpCommand};
use crate::config::Offers;
use crate::connection_record::{ConnectionRecord, End, Phase};
use crate::endpoint::OpenError;
use crate::engine::Engine;
use crate::event::FallbackReason;
use crate::id::{ConnIdx, HandshakeIdx, Idx, LinkIdx};
use crate::link_group::{Fallback, Formation, Link, LinkGroup, QpGoal, Role, qpn_bucket};
use crate::path::{IsmPath, LocalPath, Paths, Route};
use crate::trace::TraceEvent;
use crate::version::{PeerHost, SmcVersion};
use crate::wire::clc::AcceptConfirm;
use crate::wire::types::{AlertToken, DiagnosisCode};

impl Engine<'_> {
    /// Starts the rendezvous of a TCP connection this side opened or accepted.
    pub(crate) fn open(
        &mut self,
        role: Role,
        options: ConnOptions,
        paths: Paths<'_>,
    ) -> Result<ConnIdx, OpenError> {
        let negotiated = options.option_negotiated;
        let paths = paths.served();
        let (conn, generation) = self
            .groups
            .data
            .connections
            .insert(ConnectionRecord::new(Idx::NONE))
            .ok_or(OpenError::Full)?;
        self.trace_conn(conn, || TraceEvent::RendezvousStarted {
            side: role.into(),
            option: negotiated,
        });
        //= TCPOPT-010
        //= TCPOPT-011
        if !negotiated {
            //= TCPOPT-008
            let why = FallbackReason {
                code: DiagnosisCode::PEER_NO_SMC,
                peer_diagnosis: None,
            };
            self.groups.data.command_tcp(
                conn,
                TcpCommand::HandOver {
                    watch_for_decline: false,
                },
            );
            self.end(conn, End::FellBack(why));
            return Ok(conn);
        }
        let overall = self
            .now()
            .after(self.groups.data.core.config.timeouts.rendezvous);
        let Some((handshake, _)) = self
            .handshakes
            .insert(Handshake::new(conn, role, &options, overall))
        else {
            self.trace_conn(conn, || TraceEvent::ConnFreed);
            self.groups.data.connections.remove(conn);
            return Err(OpenError::Full);
        };
        let token = self.groups.data.token_key().seal(conn, generation);
        if token == AlertToken(0) {
            // Reserved by deployed peers; the next use of the slot has another.
            self.handshakes.remove(handshake);
            self.trace_conn(conn, || TraceEvent::ConnFreed);
            self.groups.data.connections.remove(conn);
            return Err(OpenError::Full);
        }
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.phase = Phase::Rendezvous(handshake);
            record.token = token;
        }
        self.learn_ports(paths.rnics);
        match role {
            Role::Client => self.prepare_proposal(handshake, options, paths),
            Role::Server => {
                let wait = self
                    .now()
                    .after(self.groups.data.core.config.timeouts.clc_message);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.deadline = Some(wait);
                }
            }
        }
        self.arm_handshake(handshake);
        Ok(conn)
    }

    pub(super) fn learn_ports(&mut self, paths: &[LocalPath]) {
        for path in paths.iter().filter(|path| path.is_usable()) {
            self.groups.data.core.ports.learn(*path);
        }
    }

    /// Keeps what is offered, the preferred port first. More candidates than there is
    /// room for are not considered.
    //= CLC-020
    //= V2-136
    fn prepare_proposal(
        &mut self,
        handshake: HandshakeIdx,
        options: ConnOptions,
        paths: Paths<'_>,
    ) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let (offers, mac) = match version::offer(&self.groups.data.core.config, &options, paths) {
            Ok(offer) => offer,
            Err(code) => return self.decline(handshake, code, false),
        };
        h.offers = offers;
        let offered = |path: &&LocalPath| {
            path.is_usable()
                && ((offers.contains(Offers::SMCR_V1) && path.serves(SmcVersion::V1))
                    || (offers.contains(Offers::SMCR_V2) && path.serves(SmcVersion::V2)))
        };
        for preferred in [true, false] {
            for path in paths.rnics.iter().filter(offered) {
                if (Some(path.mac) == mac) == preferred {
                    let _ = h.paths.push(*path);
                }
            }
        }
        let of_version = |path: &&IsmPath| {
            path.is_usable()
                && ((offers.contains(Offers::SMCD_V1) && path.pnet_match)
                    || (offers.contains(Offers::SMCD_V2) && path.v2))
        };
        let mut ism = Vec::new();
        for path in paths.ism.iter().filter(of_version) {
            let _ = ism.push(*path);
        }
        h.side = Side::Client {
            ism,
            subnets: options.subnets,
        };
        self.groups
            .data
            .core
            .clc_out
            .push_back(&mut self.handshakes, handshake);
    }

    /// The server's Accept.
    //= RENDEZVOUS-010
    pub(crate) fn on_accept(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        accept: &AcceptConfirm,
    ) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let version = match accept.v2 {
            None => SmcVersion::V1,
            Some(_) => SmcVersion::V2,
        };
        //= V2-071
        h.version = version;
        let path = h.path_for(version);
        let route = path.map_or(Route::None, |path| path.route);
        //= RENDEZVOUS-018
        let agreed = match version::accepted(&self.groups.data.core.config, h.offers, accept, route)
        {
            Ok(agreed) => agreed,
            Err(code) => return self.decline(handshake, code, false),
        };
        let Some(path) = path else {
            self.decline(handshake, DiagnosisCode::NO_SMCR_DEVICE, false);
            return;
        };
        let vlan = h.options.vlan;
        let first_contact = accept.first_contact;
        let host = accept
            .v2
            .as_ref()
            .map(|v2| PeerHost::of(v2.eid, &v2.extension));
        let accept = PeerEnd::new(accept);
        h.agreed = agreed;
        h.peer = Some(accept);
        h.deadline = None;
        self.set_state(handshake, State::Preparing);
        // SEC-009: an element counts from 1.
        //= CLC-035
        //= SEC-009
        if accept.rmbe_index.0 == 0 {
            self.decline(handshake, DiagnosisCode::RTOKEN, false);
            return;
        }
        if first_contact {
            self.on_first_contact_accept(conn, handshake, path, &accept);
            self.keep_host(conn, host);
        } else {
            //= RENDEZVOUS-011
            //= V2-133
            let named = self.find_client_link(&accept, version, vlan);
            let known = |link| self.link(link).is_some_and(Link::is_known);
            match named {
                Some(link) if known(link) => self.join(link, conn, handshake),
                // It is only being added: if that fails, no connection may be on it.
                Some(_) => self.decline(handshake, DiagnosisCode::LINK_READY, false),
                // A link that this side lost a moment ago is no reason to give
                // up the group.
                //= V2-134
                None if self.lost_links_to(&accept) => {
                    let code = match version {
                        SmcVersion::V1 => DiagnosisCode::LINK_READY,
                        SmcVersion::V2 => DiagnosisCode::SERVER_LINK_UNKNOWN,
                    };
                    self.decline(handshake, code, false);
                }
                //= RENDEZVOUS-014
                //= V2-072
                //= V2-135
                None => self.decline(handshake, DiagnosisCode::OUT_OF_SYNC, true),
            }
        }
    }

    //= RENDEZVOUS-012
    //= RENDEZVOUS-016
    fn on_first_contact_accept(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        path: LocalPath,
        accept: &PeerEnd,
    ) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        let (terms, vlan) = (h.agreed.terms, h.options.vlan);
        //= CLC-074
        //= CLC-075
        //= CLC-041
        //= CLC-076
        if accept.mtu.octets().is_none() {
            self.decline(handshake, DiagnosisCode::INTERNAL, false);
            return;
        }
        // A new group on a queue pair of an old link: the old one is stale (AMB-06).
        if let Some(stale) = self.find_client_link(accept, terms.version, vlan)
            && let Some(group) = self.link(stale).map(|link| link.group)
        {
            self.groups
                .end_group(group, crate::event::CloseReason::LinksLost, Fallback::Keep);
        }
        let formation = Formation::Preparing;
        let peer_id = accept.peer_id;
        //= CLC-028
        let Some(group) =
            self.groups
                .new_group(Role::Client, peer_id, vlan, path, terms, formation)
        else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        let link = self.group(group).map_or(Idx::NONE, |g| g.first_link());
        self.bind_link(link, accept, QpGoal::Rtr);
        if let Some(g) = self.groups.data.groups.at_mut(group) {
            g.founder = conn;
        }
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.first_contact = true;
        }
        self.join(link, conn, handshake);
    }

    /// Keeps what the server of a new group says of its host.
    pub(crate) fn keep_host(&mut self, conn: ConnIdx, host: Option<PeerHost>) {
        let group = self.conn(conn).map_or(Idx::NONE, |record| record.group);
        if let (Some(host), Some(g)) = (host, self.groups.data.groups.at_mut(group)) {
            g.host = host;
        }
    }

    /// Gives a link the other end of its queue pair.
    //= CLC-040
    //= CLC-042
    pub(crate) fn bind_link(&mut self, link: LinkIdx, peer: &PeerEnd, goal: QpGoal) {
        if let Some(state) = self.groups.data.links.at_mut(link) {
            let address = QpAddress {
                qpn: peer.qpn,
                psn: peer.psn,
                gid: peer.gid,
                mac: peer.mac,
            };
            //= LINK-001
            //= LINK-002
            state.bind(address, peer.mtu);
            state.goal = goal;
        }
        self.groups.hash_link(link);
        self.groups.data.schedule_link(link);
    }

    /// The link of a group of this side as client that an Accept names.
    //= RENDEZVOUS-011
    //= CLC-030
    fn find_client_link(
        &mut self,
        accept: &PeerEnd,
        version: SmcVersion,
        vlan: Option<u16>,
    ) -> Option<LinkIdx> {
        let list = *self
            .groups
            .data
            .core
            .links_by_qpn
            .get(qpn_bucket(accept.qpn))?;
        let mut next = list.first();
        while let Some(index) = next {
            self.groups.data.core.steps = self.groups.data.core.steps.wrapping_add(1);
            let link = self.link(index)?;
            let names = link.peer.is_some_and(|peer| peer.qpn == accept.qpn)
                && link.leads_to(accept.gid, accept.mac);
            let group = self.group(link.group);
            let fits = |g: &LinkGroup| {
                g.role == Role::Client
                    && !g.is_ending()
                    && g.is_with(accept.peer_id)
                    && g.vlan == vlan
                    && g.terms.version == version
            };
            if names && group.is_some_and(fits) {
                return Some(index);
            }
            next = list.next(&mut self.groups.data.links, index);
        }
        None
    }

    /// Whether a group with the sender of an Accept ever lost a link, which may be
    /// the one it names.
    fn lost_links_to(&mut self, accept: &PeerEnd) -> bool {
        let hit = self.groups.data.groups.view().iter().find(|(_, g)| {
            g.role == Role::Client && g.lost_links && g.is_active() && g.is_with(accept.peer_id)
        });
        hit.is_some()
    }
}
