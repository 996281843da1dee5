//! Progress of a rendezvous whenever something that it waits for has changed: a queue pair, a
//! registration, its link group. Such a change wakes it; it then checks everything it waits for.

use super::State;
use crate::command::BufferKind;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, HandshakeIdx, Idx, LinkIdx};
use crate::link_group::{Acquired, Agreement, GroupState, LinkSet, Memory, QpState, Role};
use crate::wire::types::DiagnosisCode;

/// State of the local preparations of a connection for Accept or Confirm.
pub(super) enum Prepared {
    /// The message can be sent.
    Yes,
    /// A completion or the peer is awaited.
    NotYet,
    /// Preparations have failed. The code is the one to decline with.
    No(DiagnosisCode),
}

impl Engine<'_> {
    /// Lets every rendezvous that was woken check what it waits for. Ends because each
    /// step moves a handshake towards its end.
    #[inline]
    pub(crate) fn run_wakes(&mut self) {
        if !self.groups.data.core.wakes.is_empty() {
            self.advance_woken();
        }
    }

    fn advance_woken(&mut self) {
        while let Some(conn) = self
            .groups
            .data
            .core
            .wakes
            .pop_front(&mut self.groups.data.connections)
        {
            self.step();
            let phase = self.conn(conn).map(|record| record.phase);
            if let Some(Phase::Rendezvous(handshake)) = phase {
                self.advance(handshake);
            }
        }
    }

    fn advance(&mut self, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (conn, state, role) = (h.conn, h.state, h.role);
        debug_assert!(
            self.conn(conn)
                .is_some_and(|r| r.contact.step == state.step())
        );
        match state {
            //= RENDEZVOUS-056
            //= CLC-054
            State::Preparing if self.is_unwanted(conn) => {
                self.decline(handshake, DiagnosisCode::REGISTER_BUFFER, false);
            }
            State::Preparing => self.advance_preparing(conn, handshake, role),
            // Accept or Confirm was not sent yet. It becomes Decline if the group is gone, or every
            // link that it could name.
            //= CLC-054
            State::Accepting | State::Confirming
                if self.group_is_gone(conn) || (h.smcd.is_none() && self.has_no_link(conn)) =>
            {
                self.decline(handshake, DiagnosisCode::LINK_READY, false);
            }
            // Accept or Confirm may no longer hold: a link came up that does not know the RMB yet, or
            // no link is left that does.
            State::Accepting | State::Confirming if h.smcd.is_none() => {
                self.review_message(conn, handshake, role);
            }
            // The server may have withdrawn its DMB.
            //= D-059
            State::Confirming if h.smcd.is_some() => {
                if let Prepared::No(code) = self.smcd_prepared(conn, role) {
                    self.decline(handshake, code, false);
                }
            }
            State::AwaitingConfirm => {
                //= CLC-057
                let first_contact = self.conn(conn).is_some_and(|record| record.first_contact);
                if self.group_is_gone(conn) {
                    // After a Confirm of SMC-D there is no way back to TCP.
                    if first_contact
                        && self
                            .handshakes
                            .at(handshake)
                            .is_some_and(|h| h.smcd.is_none())
                    {
                        // The Confirm is awaited, and then declined (CLC-053).
                        self.detach(conn);
                    } else {
                        self.reset(conn, CloseReason::LinksLost);
                    }
                }
            }
            State::Forming if h.smcd.is_some() => self.advance_attaching(conn, handshake),
            State::Forming => self.advance_forming(conn, handshake),
            State::Queued => {
                self.groups.unqueue(conn);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.deadline = None;
                }
                self.set_state(handshake, State::Preparing);
                self.choose_group(conn, handshake);
            }
            _ => {}
        }
    }

    /// Withdraws an Accept or Confirm that was not sent yet, if what it announces no longer holds. The
    /// message waits until that is restored, or becomes Decline. The time limit of the preparations
    /// stays as it is.
    //= RENDEZVOUS-056
    fn review_message(&mut self, conn: ConnIdx, handshake: HandshakeIdx, role: Role) {
        let first_contact = self.conn(conn).is_some_and(|record| record.first_contact);
        if first_contact || matches!(self.prepared(conn, role), Prepared::Yes) {
            return;
        }
        let (now, wait) = (
            self.now(),
            self.groups.data.core.config.timeouts.control_command,
        );
        self.groups
            .data
            .core
            .clc_out
            .remove(&mut self.handshakes, handshake);
        self.prepare(handshake, now, wait);
        self.arm_handshake(handshake);
        self.advance_preparing(conn, handshake, role);
    }

    /// Whether the peer does not want the RMB that a rendezvous waits for.
    fn is_unwanted(&self, conn: ConnIdx) -> bool {
        let record = self.conn(conn);
        record.is_some_and(|record| record.contact.unwanted)
    }

    fn has_no_link(&self, conn: ConnIdx) -> bool {
        self.conn(conn).is_none_or(|record| record.link.is_none())
    }

    fn group_is_gone(&self, conn: ConnIdx) -> bool {
        let group = self.conn(conn).map_or(Idx::NONE, |record| record.group);
        self.group(group).is_none_or(|g| g.is_ending())
    }

    /// Makes a connection a member of a link's group and asks for its buffers.
    //= RENDEZVOUS-008
    //= RENDEZVOUS-019
    pub(crate) fn join(&mut self, link: LinkIdx, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        let (now, wait) = (
            self.now(),
            self.groups.data.core.config.timeouts.control_command,
        );
        self.prepare(handshake, now, wait);
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let peer = h.peer;
        self.groups.enter_group(group, link, conn);
        if self
            .link(link)
            .is_some_and(|l| l.link_state.removal().is_some())
        {
            // The peer named a link that failed just now: its RMB is known on others.
            let other = self.groups.link_for_connection(group, Idx::NONE, &[]);
            self.groups.assign_link(other, conn);
        }
        // A client knows the server's RMB by now. If the table has no room for it, this is the last
        // moment to decline.
        if let Some(peer) = peer
            && !self.knows_rmb(group, link, handshake, &peer)
        {
            self.decline(handshake, DiagnosisCode::RTOKEN, false);
            return;
        }
        self.arm_handshake(handshake);
        self.request_buffers(conn, handshake);
    }

    /// Requests the buffers of a connection: an RMB element and a send buffer. Declines if there is no
    /// memory.
    //= RMB-013
    fn request_buffers(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let config = &self.groups.data.core.config;
        //= RMB-005
        //= RMB-032
        //= API-003
        let receive = h.options.receive_buffer.unwrap_or(config.receive_buffer);
        let send = h.options.send_buffer.unwrap_or(config.send_buffer);
        let group = self.conn(conn).map_or(Idx::NONE, |r| r.group);
        //= RMB-011
        let got = match self
            .groups
            .acquire_buffer(group, conn, BufferKind::Rmb, receive)
        {
            Acquired::Yes => self
                .groups
                .acquire_buffer(group, conn, BufferKind::Send, send),
            other => other,
        };
        match got {
            Acquired::Yes => {
                self.groups.data.wake(conn);
                self.groups.wake_for_rmb(group);
            }
            Acquired::Later => {}
            //= CLC-054
            Acquired::No => self.decline(handshake, DiagnosisCode::MEMORY, false),
        }
    }

    fn advance_preparing(&mut self, conn: ConnIdx, handshake: HandshakeIdx, role: Role) {
        let smcd = self
            .handshakes
            .at(handshake)
            .is_some_and(|h| h.smcd.is_some());
        let waits_for_rmb = !smcd
            && self
                .conn(conn)
                .is_some_and(|record| record.rmb.buffer.is_none());
        if waits_for_rmb && !self.group_is_gone(conn) {
            self.request_buffers(conn, handshake);
            return;
        }
        let prepared = match smcd {
            true => self.smcd_prepared(conn, role),
            false => self.prepared(conn, role),
        };
        match prepared {
            Prepared::NotYet => {}
            Prepared::No(code) => self.decline(handshake, code, false),
            // The server has withdrawn the RMB that its Accept named.
            Prepared::Yes
                if role == Role::Client && !smcd && self.groups.remote_rmb_of(conn).is_none() =>
            {
                self.decline(handshake, DiagnosisCode::RTOKEN, false);
            }
            Prepared::Yes => {
                let state = match role {
                    Role::Client => State::Confirming,
                    //= RENDEZVOUS-049
                    Role::Server => State::Accepting,
                };
                self.set_state(handshake, state);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.deadline = None;
                }
                self.arm_handshake(handshake);
                self.groups
                    .data
                    .core
                    .clc_out
                    .push_back(&mut self.handshakes, handshake);
                if role == Role::Client && !smcd && !self.reaches_peer(conn) {
                    self.groups.move_handshake(conn);
                }
            }
        }
    }

    /// Whether the peer's RMB can be written over the link of a rendezvous.
    fn reaches_peer(&self, conn: ConnIdx) -> bool {
        let link = self.conn(conn).map_or(Idx::NONE, |r| r.link);
        let (Some(link), Some(rmb)) = (
            self.link(link),
            self.groups.remote_rmbs.at(self.groups.remote_rmb_of(conn)),
        ) else {
            return false;
        };
        rmb.links().contains(link.position)
    }

    /// State of the preparations of an SMC-R connection: both buffers are registered on the links
    /// concerned, and the link or the peer's knowledge of the RMB is ready.
    //= RENDEZVOUS-038
    //= RENDEZVOUS-039
    //= RENDEZVOUS-056
    //= V2-108
    fn prepared(&self, conn: ConnIdx, role: Role) -> Prepared {
        let Some(record) = self.conn(conn) else {
            return Prepared::NotYet;
        };
        let (Some(group), Some(link)) = (self.group(record.group), self.link(record.link)) else {
            return Prepared::No(DiagnosisCode::LINK_READY);
        };
        if group.is_ending() {
            return Prepared::No(DiagnosisCode::LINK_READY);
        }
        let (Some(rmb), Some(send)) = (
            self.groups.buffers.at(record.rmb.buffer),
            self.groups.buffers.at(record.send_buffer),
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
            false => self.groups.active_links(record.group),
        };
        let buffers = rmb.is_registered_on(links) && send.is_registered_on(links);
        let path_up = match (record.first_contact, role) {
            (true, Role::Server) => link.state >= QpState::Init,
            //= RENDEZVOUS-016
            (true, Role::Client) => link.state >= QpState::Rtr,
            (false, _) => rmb.agreement == Agreement::Confirmed && rmb.is_announced_on(links),
        };
        if buffers && path_up {
            Prepared::Yes
        } else {
            Prepared::NotYet
        }
    }

    fn advance_forming(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        let group = self.conn(conn).map_or(Idx::NONE, |record| record.group);
        let Some(g) = self.group(group) else {
            return;
        };
        match g.state {
            GroupState::Active => self.establish(handshake),
            GroupState::Forming(_) => {}
            //= CLC-058
            GroupState::Ending(reason) => match g.decline {
                Some(code) => self.decline(handshake, code, false),
                //= CLC-063
                None => self.reset(conn, reason),
            },
        }
    }
}
