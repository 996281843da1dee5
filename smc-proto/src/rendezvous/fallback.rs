//! Ways out: Decline, fall back, give up.

use super::State;
use crate::command::TcpCommand;
use crate::connection_record::{End, Pending, Phase};
use crate::engine::Engine;
use crate::event::{CloseReason, FallbackReason};
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, Idx};
use crate::link_group::Fallback;
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    /// Decides to decline: what the connection held is released at once, the
    /// message leaves with the next poll (CLC-065).
    //= CLC-047
    pub(crate) fn decline(
        &mut self,
        handshake: HandshakeIdx,
        code: DiagnosisCode,
        out_of_sync: bool,
    ) {
        self.keep_promised_element(handshake);
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        // While time passes here, the peer may lose patience as well, and its Decline may
        // be in flight.
        let crossing = matches!(h.state, State::Forming | State::Preparing);
        let conn = h.conn;
        h.state = State::Declining {
            code,
            out_of_sync,
            crossing,
        };
        h.deadline = None;
        h.paths.clear();
        self.core.clc_out.push_back(&mut self.handshakes, handshake);
        self.leave_founded_group(conn, CloseReason::RendezvousFailed);
        self.detach(conn);
        self.arm_handshake(handshake);
    }

    /// Our Decline left: plain TCP from here on.
    pub(crate) fn on_declined(&mut self, conn: ConnIdx, code: DiagnosisCode, crossing: bool) {
        self.fall_back(
            conn,
            FallbackReason {
                code,
                peer_diagnosis: None,
            },
            crossing,
        );
    }

    /// Hands the connection over as plain TCP; `crossing` if a Decline of the
    /// peer may still arrive (AMB-46).
    pub(crate) fn fall_back(&mut self, conn: ConnIdx, why: FallbackReason, crossing: bool) {
        self.leave_founded_group(conn, CloseReason::RendezvousFailed);
        self.command_tcp(
            conn,
            TcpCommand::HandOver {
                watch_for_decline: crossing,
            },
        );
        if let Some(record) = self.connections.at_mut(conn)
            && crossing
            && let Phase::Rendezvous(handshake) = record.phase
        {
            record.phase = Phase::Watching;
            record.end = Some(End::FellBack(why));
            self.drop_handshake(handshake);
            self.core.statistics.ended(End::FellBack(why));
            // Nothing is held back yet, so nothing hurries: TCP may take as long
            // as it likes to deliver the first bytes, a Decline or not.
            self.connections.set_deadline(conn, None);
            self.notify(conn, Pending::END);
            self.release(conn);
        } else {
            self.end(conn, End::FellBack(why));
        }
    }

    /// Ends the group that a connection was founding, if it was. One that others are
    /// established in by now stays: their server counts it as formed, and only this
    /// side still waits, for a second link.
    //= CLC-065
    pub(crate) fn leave_founded_group(&mut self, conn: ConnIdx, reason: CloseReason) {
        let Some(group) = self.connections.at(conn).map(|record| record.group) else {
            return;
        };
        let carries_others = self.carries_connections(group);
        if carries_others
            && let Some(g) = self.groups.at_mut(group)
            && g.founder == conn
        {
            g.founder = Idx::NONE;
            self.lose_element(conn);
        } else if let Some(g) = self.groups.at_mut(group)
            && g.founder == conn
        {
            g.founder = Idx::NONE;
            //= CLC-066
            self.end_group(group, reason, Fallback::Reset);
        }
    }

    /// Whether a connection of a group is established.
    fn carries_connections(&mut self, group: GroupIdx) -> bool {
        let is_active = |engine: &mut Self, conn| {
            let record = engine.connections.at(conn);
            record.is_some_and(|record| record.phase == Phase::Active)
        };
        self.find_member(group, is_active).is_some()
    }

    /// A rendezvous ends without the peer's message. If our Accept named an RMB element the
    /// peer may have confirmed and write to it already, so no other connection gets it.
    //= RMB-021
    pub(crate) fn keep_promised_element(&mut self, handshake: HandshakeIdx) {
        if let Some(h) = self.handshakes.at(handshake)
            && h.state == State::AwaitingConfirm
        {
            self.lose_element(h.conn);
        }
    }

    /// Gives back what a connection in rendezvous holds of its group.
    pub(crate) fn detach(&mut self, conn: ConnIdx) {
        if self
            .connections
            .at(conn)
            .is_some_and(|record| record.group.is_some())
        {
            self.leave_group(conn);
        }
    }

    pub(crate) fn drop_handshake(&mut self, handshake: HandshakeIdx) {
        self.core.clc_out.remove(&mut self.handshakes, handshake);
        self.core.wakes.remove(&mut self.handshakes, handshake);
        self.unqueue(handshake);
        self.handshakes.remove(handshake);
    }

    pub(crate) fn arm_handshake(&mut self, handshake: HandshakeIdx) {
        let deadline = self
            .handshakes
            .at(handshake)
            .map(super::Handshake::next_deadline);
        self.handshakes.set_deadline(handshake, deadline);
    }

    /// A wait of a rendezvous is over.
    //= CLC-067
    pub(crate) fn on_handshake_timeout(&mut self, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        if h.next_deadline() > self.now() {
            self.arm_handshake(handshake);
            return;
        }
        let (conn, state) = (h.conn, h.state);
        match state {
            // Local work hangs: the peer still waits for our word, so it can be Decline.
            //= V2-084
            State::Preparing => self.decline(handshake, DiagnosisCode::REGISTER_BUFFER, false),
            State::Queued => self.start_first_contact(handshake),
            //= CLC-069
            _ => self.reset(conn, CloseReason::RendezvousFailed),
        }
    }
}
