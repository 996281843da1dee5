//! Ways out: Decline, fall back, give up.

use super::{Handshake, State};
use crate::command::TcpCommand;
use crate::connection_record::{Contact, End, Pending, Phase};
use crate::engine::Engine;
use crate::event::{CloseReason, FallbackReason};
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, Idx};
use crate::link_group::{Fallback, Groups};
use crate::trace::{self, TimerKind, TraceEvent};
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
        // While time passes here, the peer may give up as well, and its Decline may
        // be in flight.
        let crossing = matches!(h.state, State::Forming | State::Preparing);
        let conn = h.conn;
        h.deadline = None;
        h.paths.clear();
        let state = State::Declining {
            code,
            out_of_sync,
            crossing,
        };
        self.set_state(handshake, state);
        self.trace_conn(conn, || TraceEvent::Declining {
            code,
            out_of_sync,
            crossing,
        });
        self.groups
            .data
            .core
            .clc_out
            .push_back(&mut self.handshakes, handshake);
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
        self.groups.data.command_tcp(
            conn,
            TcpCommand::HandOver {
                watch_for_decline: crossing,
            },
        );
        if let Some(record) = self.groups.data.connections.at_mut(conn)
            && crossing
            && let Phase::Rendezvous(handshake) = record.phase
        {
            record.phase = Phase::Watching;
            record.end = Some(End::FellBack(why));
            self.drop_handshake(handshake);
            self.groups.data.core.statistics.ended(End::FellBack(why));
            self.trace_conn(conn, || End::FellBack(why).into());
            // Nothing is held back yet, so nothing hurries: TCP may take as long
            // as it likes to deliver the first bytes, a Decline or not.
            self.groups.data.set_conn_deadline(conn, None);
            self.groups.data.report(conn, Pending::END);
            self.groups.release(conn);
        } else {
            self.end(conn, End::FellBack(why));
        }
    }

    /// Ends a connection that never became active.
    pub(crate) fn end(&mut self, index: ConnIdx, end: End) {
        let Some(record) = self.groups.data.connections.at_mut(index) else {
            return;
        };
        if record.phase == Phase::Ended {
            return;
        }
        if let Phase::Rendezvous(handshake) = record.phase {
            if matches!(end, End::Closed(_)) {
                self.keep_promised_element(handshake);
            }
            self.drop_handshake(handshake);
        }
        if let Some(record) = self.groups.data.connections.at_mut(index) {
            record.phase = Phase::Ended;
            record.end = Some(end);
        }
        self.groups.data.set_conn_deadline(index, None);
        self.groups.data.core.statistics.ended(end);
        self.trace_conn(index, || end.into());
        self.groups.data.report(index, Pending::END);
        self.groups.release(index);
    }

    /// Ends the group that a connection was founding, if it was. One that others are
    /// established in by now stays: their server counts it as formed, and only this
    /// side still waits, for a second link.
    //= CLC-065
    pub(crate) fn leave_founded_group(&mut self, conn: ConnIdx, reason: CloseReason) {
        let Some(group) = self.conn(conn).map(|record| record.group) else {
            return;
        };
        let carries_others = self.carries_connections(group);
        if carries_others
            && let Some(g) = self.groups.data.groups.at_mut(group)
            && g.founder == conn
        {
            g.founder = Idx::NONE;
            self.groups.lose_element(conn);
        } else if let Some(g) = self.groups.data.groups.at_mut(group)
            && g.founder == conn
        {
            g.founder = Idx::NONE;
            //= CLC-066
            self.groups.end_group(group, reason, Fallback::Reset);
        }
    }

    /// Whether a connection of a group is established.
    fn carries_connections(&mut self, group: GroupIdx) -> bool {
        let is_active = |groups: &mut Groups<'_>, conn| {
            let record = groups.conn(conn);
            record.is_some_and(|record| record.phase == Phase::Active)
        };
        self.groups.find_member(group, is_active).is_some()
    }

    /// A rendezvous ends without the peer's message. If our Accept named an RMB element the
    /// peer may have confirmed and write to it already, so no other connection gets it.
    //= RMB-021
    pub(crate) fn keep_promised_element(&mut self, handshake: HandshakeIdx) {
        if let Some(h) = self.handshakes.at(handshake)
            && h.state == State::AwaitingConfirm
        {
            self.groups.lose_element(h.conn);
        }
    }

    /// Gives back what a connection in rendezvous holds of its group.
    pub(crate) fn detach(&mut self, conn: ConnIdx) {
        if self.conn(conn).is_some_and(|record| record.group.is_some()) {
            self.groups.leave_group(conn);
        }
    }

    pub(crate) fn drop_handshake(&mut self, handshake: HandshakeIdx) {
        self.groups
            .data
            .core
            .clc_out
            .remove(&mut self.handshakes, handshake);
        let Some(Handshake { conn, .. }) = self.handshakes.remove(handshake) else {
            return;
        };
        self.groups
            .data
            .core
            .wakes
            .remove(&mut self.groups.data.connections, conn);
        self.groups.unqueue(conn);
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.contact = Contact::NONE;
        }
    }

    pub(crate) fn arm_handshake(&mut self, handshake: HandshakeIdx) {
        let deadline = self
            .handshakes
            .at(handshake)
            .map(super::Handshake::next_deadline);
        if let Some(h) = self.handshakes.at(handshake)
            && self.groups.data.tap.is_on()
            && self.handshakes.deadline(handshake) != deadline
        {
            let conn = h.conn;
            self.trace_conn(conn, || trace::deadline(TimerKind::Rendezvous, deadline));
        }
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
