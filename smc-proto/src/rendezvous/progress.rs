//! What moves a rendezvous forward when something it waits for changed.

use super::State;
use crate::command::BufferKind;
use crate::connection::{Connection, ConnectionParams, Ring};
use crate::connection_record::{Pending, Phase, RemoteElement};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{DeviceId, NONE};
use crate::link_group::{Agreement, GroupState, LinkSet, Memory, QpState, Role};
use crate::planted::PlantedBug;
use crate::stats::count;
use crate::wire::clc::AcceptConfirm;
use crate::wire::types::{DiagnosisCode, RToken};

/// How far the local preparations of a connection are.
enum Prepared {
    Yes,
    NotYet,
    No(DiagnosisCode),
}

impl Engine<'_> {
    /// Lets every rendezvous that was woken look at the world. Ends because each
    /// step moves a handshake towards its end.
    #[inline]
    pub(crate) fn run_wakes(&mut self) {
        if !self.core.wakes.is_empty() {
            self.advance_woken();
        }
    }

    fn advance_woken(&mut self) {
        while let Some(handshake) = self.core.wakes.pop_front(&mut self.handshakes) {
            self.step();
            self.advance(handshake);
        }
    }

    fn advance(&mut self, handshake: u32) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        let (conn, state, role) = (h.conn, h.state, h.role);
        match state {
            State::Preparing => self.advance_preparing(handshake, conn, role),
            // Our word is still to be said: it becomes Decline if the group is gone.
            State::Accepting | State::Confirming if self.group_is_gone(conn) => {
                self.decline(handshake, DiagnosisCode::LINK_READY, false);
            }
            State::AwaitingConfirm => {
                //= CLC-057
                let first_contact = self
                    .connections
                    .at(conn)
                    .is_some_and(|record| record.first_contact);
                if self.group_is_gone(conn) {
                    if first_contact {
                        // The Confirm is awaited, and then declined (CLC-053).
                        self.detach(conn);
                    } else {
                        self.reset(conn, CloseReason::LinksLost);
                    }
                }
            }
            State::Forming => self.advance_forming(handshake, conn),
            State::Queued => {
                self.unqueue(handshake);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.deadline = None;
                    h.state = State::Preparing;
                }
                self.choose_group(conn, handshake);
            }
            _ => {}
        }
    }

    /// Takes ports that are gone off the candidates of every rendezvous. Who has
    /// the word and no port left declines; a client that waits for the Accept
    /// goes on waiting (CLC-049).
    //= CLC-049
    //= RENDEZVOUS-015
    pub(crate) fn forget_paths(&mut self, device: DeviceId, port: Option<u8>) {
        for index in 0..self.handshakes.capacity() {
            let Some(h) = self.handshakes.at_mut(index) else {
                continue;
            };
            let before = h.paths.len();
            // The Proposal named a port, which the server counts on.
            let proposed = (h.role == Role::Client && h.state != State::Proposing)
                .then(|| h.paths.first().copied())
                .flatten();
            // Not `retain`: it counts in a way that could overflow, as far as the
            // compiler knows.
            let mut left = heapless::Vec::new();
            for path in &h.paths {
                if path.device != device || port.is_some_and(|p| path.port != p) {
                    let _ = left.push(*path);
                }
            }
            h.paths = left;
            if proposed.is_some() && h.paths.first().copied() != proposed {
                h.paths.clear();
            }
            let lost_all = h.paths.is_empty() && before > 0;
            let has_word = matches!(h.state, State::Proposing | State::Queued);
            self.step();
            if lost_all && has_word {
                self.unqueue(index);
                self.decline(index, DiagnosisCode::NO_SMCR_DEVICE, false);
            }
        }
    }

    fn group_is_gone(&self, conn: u32) -> bool {
        let group = self
            .connections
            .at(conn)
            .map_or(NONE, |record| record.group);
        self.groups.at(group).is_none_or(|g| g.is_ending())
    }

    /// Makes a connection a member of a link's group and asks for its buffers.
    //= RENDEZVOUS-008
    //= RENDEZVOUS-019
    pub(crate) fn join(&mut self, conn: u32, handshake: u32, link: u32) {
        let Some(group) = self.links.at(link).map(|l| l.group) else {
            return;
        };
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let wait = self
            .core
            .now
            .after(self.core.config.timeouts.control_command);
        h.state = State::Preparing;
        h.deadline = Some(wait);
        let receive = h
            .options
            .receive_buffer
            .unwrap_or(self.core.config.receive_buffer);
        let send = h
            .options
            .send_buffer
            .unwrap_or(self.core.config.send_buffer);
        let peer = h.peer;
        self.enter_group(conn, group, link);
        if self
            .links
            .at(link)
            .is_some_and(|l| l.standing.departure().is_some())
        {
            // The peer named a link that failed just now: its RMB is known on others.
            let other = self.link_for_connection(group, NONE, NONE);
            self.assign_link(conn, other);
        }
        // A client knows the server's RMB by now; if there is no room for it, this
        // is the last moment to say so.
        if let Some(peer) = peer
            && !self.knows_rmb(handshake, group, link, &peer)
        {
            self.decline(handshake, DiagnosisCode::RTOKEN, false);
            return;
        }
        //= RMB-013
        if self.acquire_buffer(conn, group, BufferKind::Rmb, receive)
            && self.acquire_buffer(conn, group, BufferKind::Send, send)
        {
            self.arm_handshake(handshake);
            self.wake(conn);
        } else {
            //= CLC-054
            self.decline(handshake, DiagnosisCode::MEMORY, false);
        }
    }

    fn advance_preparing(&mut self, handshake: u32, conn: u32, role: Role) {
        match self.prepared(conn, role) {
            Prepared::NotYet => {}
            Prepared::No(code) => self.decline(handshake, code, false),
            Prepared::Yes => {
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.state = match role {
                        Role::Client => State::Confirming,
                        //= RENDEZVOUS-049
                        Role::Server => State::Accepting,
                    };
                    h.deadline = None;
                }
                self.arm_handshake(handshake);
                self.core.clc_out.push_back(&mut self.handshakes, handshake);
            }
        }
    }

    //= RENDEZVOUS-038
    //= RENDEZVOUS-039
    //= RENDEZVOUS-056
    fn prepared(&self, conn: u32, role: Role) -> Prepared {
        let Some(record) = self.connections.at(conn) else {
            return Prepared::NotYet;
        };
        let (Some(group), Some(link)) = (self.groups.at(record.group), self.links.at(record.link))
        else {
            return Prepared::No(DiagnosisCode::LINK_READY);
        };
        if group.is_ending() {
            return Prepared::No(DiagnosisCode::LINK_READY);
        }
        let (Some(rmb), Some(send)) = (
            self.buffers.at(record.rmb.buffer),
            self.buffers.at(record.send_buffer),
        ) else {
            return Prepared::No(DiagnosisCode::MEMORY);
        };
        for buffer in [rmb, send] {
            if buffer.memory == Memory::Gone {
                return Prepared::No(DiagnosisCode::MEMORY);
            }
            if buffer.retired {
                return Prepared::No(DiagnosisCode::REGISTER_BUFFER);
            }
        }
        let links = match record.first_contact {
            true => LinkSet::only(link.position),
            false => self.active_links(record.group),
        };
        let buffers = rmb.is_registered_on(links) && send.is_registered_on(links);
        let path_up = match (record.first_contact, role) {
            (true, Role::Server) => link.state >= QpState::Init,
            //= RENDEZVOUS-016
            (true, Role::Client) => link.state >= QpState::Rtr,
            (false, _) => rmb.agreement == Agreement::Confirmed,
        };
        if buffers && path_up {
            Prepared::Yes
        } else {
            Prepared::NotYet
        }
    }

    fn advance_forming(&mut self, handshake: u32, conn: u32) {
        let group = self
            .connections
            .at(conn)
            .map_or(NONE, |record| record.group);
        let Some(g) = self.groups.at(group) else {
            return;
        };
        match g.state {
            GroupState::Active => self.establish(handshake),
            GroupState::Forming(_) => {}
            GroupState::Ending(reason) => match g.decline {
                Some(code) => self.decline(handshake, code, false),
                //= CLC-063
                None => self.reset(conn, reason),
            },
        }
    }

    /// The rendezvous is over: the connection is carried by SMC-R.
    //= CLOSE-001
    pub(crate) fn establish(&mut self, handshake: u32) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        let (conn, peer, early) = (h.conn, h.peer, h.early);
        if h.role == Role::Client && self.planted(PlantedBug::SilentFallback) {
            return self.on_declined(conn, DiagnosisCode::LINK_READY, false);
        }
        let (nodelay, urgent_inline) = (h.options.nodelay, h.options.urgent_inline);
        let Some(peer) = peer else { return };
        let Some(record) = self.connections.at(conn) else {
            return;
        };
        let (group, first_contact) = (record.group, record.first_contact);
        let (rmb, send_buffer) = (record.rmb.buffer, record.send_buffer);
        let Some(remote) = self.remote_element(handshake, conn, group, &peer) else {
            // The peer withdrew its RMB, or cannot be reached there any more.
            self.reset(conn, CloseReason::LinksLost);
            return;
        };
        let base = self.groups.at(group).map_or(0, |g| g.ring_base);
        let octets = |index| self.buffers.at(index).map_or(0, |b| b.size.octets());
        let rings = (
            Ring::new(base, octets(rmb)),
            Ring::new(base, peer.buffer_size.octets()),
        );
        let (Some(receive), Some(peer_ring)) = rings else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        let params = ConnectionParams {
            alert_token_peer: peer.alert_token,
            receive,
            peer: peer_ring,
            send_buffer: octets(send_buffer),
            nodelay,
            urgent_inline,
        };
        let home = self.group_id(group);
        self.drop_handshake(handshake);
        if let Some(record) = self.connections.at_mut(conn) {
            record.connection = Some(Connection::new(&params, &self.core.config.connection));
            record.remote = remote;
            record.phase = Phase::Active;
            record.home = Some(home);
        }
        count(&mut self.core.statistics.established);
        if first_contact {
            count(&mut self.core.statistics.first_contacts);
        }
        self.notify(conn, Pending::ESTABLISHED | Pending::WRITABLE);
        //= RENDEZVOUS-050
        //= CDC-033
        for cdc in early.iter().flatten() {
            self.apply_cdc(conn, cdc);
        }
        self.after_connection(conn);
        let shutdown = self
            .connections
            .at_mut(conn)
            .and_then(|r| r.shutdown.take());
        if let Some(how) = shutdown {
            self.with_connection(conn, |c, now, config| {
                c.shutdown(now, &config.connection, how);
            });
        }
    }

    /// Finds or stores the peer's RMB as known on the link its Accept or Confirm
    /// names: whether that was possible.
    //= RENDEZVOUS-013
    pub(super) fn knows_rmb(
        &mut self,
        handshake: u32,
        group: u32,
        link: u32,
        peer: &AcceptConfirm,
    ) -> bool {
        let Some(position) = self.links.at(link).map(|l| l.position) else {
            return false;
        };
        let Some(rmb) = self.learn_rtoken(group, position, peer.rtoken) else {
            return false;
        };
        let generation = self.remote_rmbs.generation(rmb);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.remote_rmb = Some((rmb, generation));
        }
        true
    }

    /// Claims an element of the peer's RMB for a connection, over its link or
    /// another one if that was lost meanwhile.
    //= RENDEZVOUS-013
    //= RENDEZVOUS-040
    //= RENDEZVOUS-042
    fn remote_element(
        &mut self,
        handshake: u32,
        conn: u32,
        group: u32,
        peer: &AcceptConfirm,
    ) -> Option<RemoteElement> {
        let (rmb, generation) = self.handshakes.at(handshake)?.remote_rmb?;
        if !self.remote_rmbs.is_live(rmb, generation) {
            return None;
        }
        let (link, send_buffer) = self
            .connections
            .at(conn)
            .map(|record| (record.link, record.send_buffer))?;
        let position = |engine: &Self, link| engine.links.at(link).map(|l| l.position);
        let reachable = self.remote_rmbs.at(rmb)?.links();
        let registered = self.buffers.at(send_buffer)?.registered();
        let usable = self
            .links
            .at(link)
            .is_some_and(|l| l.standing.carries_data())
            && position(self, link).is_some_and(|p| reachable.and(registered).contains(p));
        if !usable {
            let other = self.link_for_connection(group, rmb, send_buffer);
            self.assign_link(conn, other);
        }
        let link = self.connections.at(conn)?.link;
        let position = position(self, link)?;
        let RToken { rkey, address } = self.remote_rmbs.at(rmb)?.rtoken(position)?;
        let index = peer.rmbe_index.0;
        if !self.remote_rmbs.at_mut(rmb)?.elements().insert(index) {
            //= RMB-023
            self.abort_user_of(group, rmb, index, conn);
            self.remote_rmbs.at_mut(rmb)?.elements().insert(index);
        }
        //= RMB-012
        let offset = u64::from(index)
            .saturating_sub(1)
            .saturating_mul(u64::from(peer.buffer_size.octets()));
        Some(RemoteElement {
            rmb,
            index,
            rkey,
            address: address.wrapping_add(offset),
        })
    }
}
