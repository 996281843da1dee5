//! The client: Proposal out, Accept in, Confirm out.

use super::{ConnOptions, Handshake, State};
use crate::command::{QpAddress, TcpCommand};
use crate::connection_record::{ConnectionRecord, End, Phase};
use crate::endpoint::OpenError;
use crate::engine::Engine;
use crate::event::FallbackReason;
use crate::id::NONE;
use crate::link_group::{Fallback, Formation, Link, QpGoal, Role};
use crate::path::LocalPath;
use crate::wire::clc::AcceptConfirm;
use crate::wire::types::{AlertToken, DiagnosisCode};

impl Engine<'_> {
    /// Starts the rendezvous of a TCP connection this side opened or accepted.
    pub(crate) fn open(
        &mut self,
        role: Role,
        options: ConnOptions,
        paths: &[LocalPath],
    ) -> Result<u32, OpenError> {
        let negotiated = options.option_negotiated;
        let (conn, generation) = self
            .connections
            .insert(ConnectionRecord::new(NONE))
            .ok_or(OpenError::Full)?;
        if !negotiated {
            //= TCPOPT-008
            let why = FallbackReason {
                code: DiagnosisCode::PEER_NO_SMC,
                peer_diagnosis: None,
            };
            self.command_tcp(
                conn,
                TcpCommand::HandOver {
                    watch_for_decline: false,
                },
            );
            self.end(conn, End::FellBack(why));
            return Ok(conn);
        }
        let overall = self.now().after(self.core.config.timeouts.rendezvous);
        let Some((handshake, _)) = self
            .handshakes
            .insert(Handshake::new(conn, role, options, overall))
        else {
            self.connections.remove(conn);
            return Err(OpenError::Full);
        };
        let token = self.token_key().seal(conn, generation);
        if token == AlertToken(0) {
            // Reserved by deployed peers; the next use of the slot has another.
            self.handshakes.remove(handshake);
            self.connections.remove(conn);
            return Err(OpenError::Full);
        }
        if let Some(record) = self.connections.at_mut(conn) {
            record.phase = Phase::Rendezvous(handshake);
            record.token = token;
        }
        let wait = self.now().after(self.core.config.timeouts.clc_message);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            for path in paths.iter().filter(|path| path.is_usable()) {
                self.core.ports.learn(*path);
                // More candidates than there is room for are not considered.
                let _ = h.paths.push(*path);
            }
            match role {
                //= CLC-020
                Role::Client => {
                    let reachable = !h.paths.is_empty();
                    self.core.clc_out.push_back(&mut self.handshakes, handshake);
                    if !reachable {
                        self.decline(handshake, DiagnosisCode::NO_SMCR_DEVICE, false);
                    }
                }
                Role::Server => h.deadline = Some(wait),
            }
        }
        self.arm_handshake(handshake);
        Ok(conn)
    }

    /// The server's Accept.
    //= RENDEZVOUS-010
    pub(crate) fn on_accept(&mut self, conn: u32, handshake: u32, accept: AcceptConfirm) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let Some(path) = h.paths.first().copied() else {
            self.decline(handshake, DiagnosisCode::NO_SMCR_DEVICE, false);
            return;
        };
        let vlan = h.options.vlan;
        h.peer = Some(accept);
        h.state = State::Preparing;
        h.deadline = None;
        // SEC-009: an element counts from 1.
        //= CLC-035
        if accept.rmbe_index.0 == 0 {
            self.decline(handshake, DiagnosisCode::RTOKEN, false);
            return;
        }
        if accept.first_contact {
            self.on_first_contact_accept(conn, handshake, path, vlan, &accept);
        } else {
            //= RENDEZVOUS-011
            let named = self.find_client_link(&accept, vlan);
            let known = |link| self.links.at(link).is_some_and(Link::is_known);
            match named {
                Some(link) if known(link) => self.join(conn, handshake, link),
                // It is only being added: if it comes to nothing, nobody may be on it.
                Some(_) => self.decline(handshake, DiagnosisCode::LINK_READY, false),
                // A link that this side lost a moment ago is no reason to give
                // up the group.
                None if self.lost_links_to(&accept) => {
                    self.decline(handshake, DiagnosisCode::LINK_READY, false);
                }
                //= RENDEZVOUS-014
                None => self.decline(handshake, DiagnosisCode::OUT_OF_SYNC, true),
            }
        }
    }

    //= RENDEZVOUS-012
    //= RENDEZVOUS-016
    fn on_first_contact_accept(
        &mut self,
        conn: u32,
        handshake: u32,
        path: LocalPath,
        vlan: Option<u16>,
        accept: &AcceptConfirm,
    ) {
        //= CLC-074
        //= CLC-075
        //= CLC-041
        //= CLC-076
        if accept.mtu.octets().is_none() {
            self.decline(handshake, DiagnosisCode::INTERNAL, false);
            return;
        }
        // A new group on a queue pair of an old link: the old one is stale (AMB-06).
        if let Some(stale) = self.find_client_link(accept, vlan)
            && let Some(group) = self.links.at(stale).map(|link| link.group)
        {
            self.end_group(group, crate::event::CloseReason::LinksLost, Fallback::Keep);
        }
        let formation = Formation::Preparing;
        let Some(group) = self.new_group(Role::Client, accept.peer_id, vlan, path, formation)
        else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        let link = self.groups.at(group).map_or(NONE, |g| g.first_link());
        self.bind_link(link, accept, QpGoal::Rtr);
        if let Some(g) = self.groups.at_mut(group) {
            g.founder = conn;
        }
        if let Some(record) = self.connections.at_mut(conn) {
            record.first_contact = true;
        }
        self.join(conn, handshake, link);
    }

    /// Gives a link the other end of its queue pair.
    //= CLC-040
    //= CLC-042
    pub(crate) fn bind_link(&mut self, link: u32, peer: &AcceptConfirm, goal: QpGoal) {
        if let Some(state) = self.links.at_mut(link) {
            let address = QpAddress {
                qpn: peer.qpn,
                psn: peer.psn,
                gid: peer.gid,
                mac: peer.mac,
            };
            state.bind(address, peer.mtu);
            state.goal = goal;
        }
        self.hash_link(link);
        self.poke_link(link);
    }
}
