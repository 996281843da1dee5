//! What devices answer, and what peers send.

use super::buffer::Control;
use super::{Buffer, Memory, QpGoal, QpState, SendKind};
use crate::completion::{LinkFailure, RdmaCompletion};
use crate::connection::{CdcOutcome, FatalCause};
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{BufferId, ConnId, LinkId, NONE, WrId};
use crate::stats::count;
use crate::wire::cdc::{CDC_TYPE, Cdc};
use crate::wire::types::{DiagnosisCode, RToken};

impl Engine<'_> {
    #[inline]
    pub(crate) fn on_completion(&mut self, completion: &RdmaCompletion<'_>) {
        self.step();
        match *completion {
            RdmaCompletion::Received { link, payload } => self.on_received(link, payload),
            RdmaCompletion::Sent { link, wr_id } => self.on_sent(link, wr_id),
            RdmaCompletion::QpCreated { link, qpn } => {
                if let Some(index) = self.expecting_link(link, QpState::Init)
                    && let Some(l) = self.links.at_mut(index)
                {
                    l.qpn = qpn;
                }
                self.on_qp_state(link, QpState::Init);
            }
            RdmaCompletion::QpConnected { link } => self.on_qp_state(link, QpState::Rtr),
            RdmaCompletion::QpActive { link } => self.on_qp_state(link, QpState::Rts),
            RdmaCompletion::QpDrained { link } => {
                if let Some(index) = self.expecting_link(link, QpState::Drained) {
                    self.set_qp_state(index, QpState::Drained);
                    self.on_drained(index);
                }
            }
            RdmaCompletion::QpDestroyed { link } => {
                if let Some(index) = self.expecting_link(link, QpState::Absent) {
                    self.on_destroyed(index);
                }
            }
            RdmaCompletion::LinkRefused { link } => self.on_link_refused(link),
            RdmaCompletion::LinkFailed { link, cause, conn } => {
                self.on_link_failed(link, cause, conn);
            }
            RdmaCompletion::BufferAllocated { buffer } => {
                if let Some(index) = self.live_buffer(buffer) {
                    if let Some(b) = self.buffers.at_mut(index) {
                        b.on_allocated();
                    }
                    self.poke_buffer(index);
                }
            }
            RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => {
                self.on_registered(buffer, link, rtoken);
            }
            RdmaCompletion::BufferDeregistered { buffer, link } => {
                self.on_deregistered(buffer, link);
            }
            RdmaCompletion::BufferFreed { buffer } => {
                if let Some(index) = self.live_buffer(buffer)
                    && self.buffers.at(index).is_some_and(Buffer::is_being_freed)
                {
                    self.remove_buffer(index);
                }
            }
            RdmaCompletion::ElementCleared { buffer, offset } => {
                if let Some(index) = self.live_buffer(buffer) {
                    if let Some(b) = self.buffers.at_mut(index) {
                        b.on_cleared(offset);
                    }
                    self.poke_buffer(index);
                    self.list_spare(index);
                }
            }
            RdmaCompletion::BufferRefused { buffer } => self.on_buffer_refused(buffer),
            //= RMB-018
            //= RMB-019
            RdmaCompletion::EyeCatcherDamaged { conn } => {
                if let Some(index) = self.live_conn(conn) {
                    self.with_connection(index, |connection, now, config| {
                        connection.on_fatal(now, &config.connection, FatalCause::EyeCatcherDamaged);
                    });
                }
            }
        }
    }

    #[inline]
    fn live_link(&self, id: LinkId) -> Option<u32> {
        self.links
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    fn live_buffer(&self, id: BufferId) -> Option<u32> {
        self.buffers
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    /// The link of a control completion, if the command that leads to this state
    /// is under way.
    fn expecting_link(&self, id: LinkId, state: QpState) -> Option<u32> {
        let index = self.live_link(id)?;
        (self.links.at(index)?.under_way == Some(state)).then_some(index)
    }

    // ---- messages ----------------------------------------------------------

    //= LLC-006
    #[inline]
    fn on_received(&mut self, link: LinkId, payload: &[u8]) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        let now = self.core.now;
        let Some(l) = self.links.at_mut(index) else {
            return;
        };
        l.last_received = now;
        let group = l.group;
        if payload.first() == Some(&CDC_TYPE) {
            match Cdc::parse(payload) {
                Ok(cdc) => self.on_cdc(group, &cdc),
                Err(_) => self.violation(index),
            }
        } else {
            self.on_llc(index, payload);
        }
    }

    /// A CDC message on any link of the group (CDC-032).
    //= CDC-032
    #[inline]
    fn on_cdc(&mut self, group: u32, cdc: &Cdc) {
        //= CDC-004
        let Some(conn) = self.conn_by_token(cdc.alert_token, group) else {
            count(&mut self.core.statistics.cdc_unknown);
            return;
        };
        match self.connections.at(conn).map(|record| record.phase) {
            Some(Phase::Active) => {
                self.apply_cdc(conn, cdc);
                self.after_connection(conn);
            }
            // The data outran the Confirm, or the last answer of the first
            // contact: the newest message says all that the older ones said.
            //= RENDEZVOUS-033
            //= RENDEZVOUS-050
            Some(Phase::Rendezvous(handshake)) => {
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.keep_early(cdc);
                }
            }
            _ => count(&mut self.core.statistics.cdc_unknown),
        }
    }

    /// Gives a CDC message to its connection; the caller draws the consequences.
    #[inline]
    pub(crate) fn apply_cdc(&mut self, conn: u32, cdc: &Cdc) {
        let now = self.core.now;
        let Some(connection) = self
            .connections
            .at_mut(conn)
            .and_then(|record| record.connection.as_mut())
        else {
            return;
        };
        let statistics = &mut self.core.statistics;
        match connection.on_cdc(now, &self.core.config.connection, cdc) {
            CdcOutcome::Stale => count(&mut statistics.cdc_stale),
            CdcOutcome::Misbehaved(_) => count(&mut statistics.violations),
            CdcOutcome::BackwardCursor => {
                count(&mut statistics.backward_cursors);
                count(&mut statistics.cdc_received);
            }
            _ => count(&mut statistics.cdc_received),
        }
    }

    /// A SEND completed, and with it all before it on its link.
    #[inline]
    fn on_sent(&mut self, link: LinkId, wr_id: WrId) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        if !self
            .links
            .at(index)
            .is_some_and(|l| l.in_flight.contains(wr_id.0))
        {
            return;
        }
        while let Some((number, kind)) = self.links.at_mut(index).and_then(|l| l.in_flight.pop()) {
            self.step();
            match kind {
                SendKind::Notify {
                    index,
                    generation,
                    record,
                } => {
                    if self.connections.is_live(index, generation) {
                        self.with_connection(index, |connection, now, config| {
                            connection.on_notify_completed(now, &config.connection, record);
                        });
                        if self
                            .connections
                            .at(index)
                            .is_some_and(|record| record.phase != Phase::Active)
                        {
                            self.release(index);
                        }
                    }
                }
                SendKind::Request => self.on_request_sent(index),
                SendKind::Llc => {
                    let group = self.links.at(index).map_or(NONE, |l| l.group);
                    self.on_llc_sent(group);
                }
            }
            if number == wr_id.0 {
                break;
            }
        }
        self.poke_link(index);
    }

    // ---- queue pairs -------------------------------------------------------

    fn set_qp_state(&mut self, index: u32, state: QpState) {
        if let Some(l) = self.links.at_mut(index) {
            l.under_way = None;
            l.state = state;
        }
    }

    fn on_qp_state(&mut self, link: LinkId, state: QpState) {
        let Some(index) = self.expecting_link(link, state) else {
            return;
        };
        self.set_qp_state(index, state);
        self.poke_link(index);
        let Some(group) = self.links.at(index).map(|l| l.group) else {
            return;
        };
        if self
            .groups
            .at(group)
            .is_none_or(super::LinkGroup::is_ending)
        {
            return;
        }
        if state == QpState::Init {
            // The protection domain exists: buffers can be registered.
            self.poke_group_buffers(group);
        }
        let founder = self.groups.at(group).map_or(NONE, |g| g.founder);
        self.wake(founder);
        self.on_formation_progress(group);
    }

    fn poke_group_buffers(&mut self, group: u32) {
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            self.poke_buffer(index);
        }
    }

    fn on_destroyed(&mut self, index: u32) {
        let group = self.links.at(index).map_or(NONE, |l| l.group);
        self.remove_link(index);
        self.retire_buffers_of_ending(group);
    }

    /// A control command of a link failed.
    fn on_link_refused(&mut self, link: LinkId) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        let Some(l) = self.links.at_mut(index) else {
            return;
        };
        let (group, goal) = (l.group, l.goal);
        match l.under_way.take() {
            None => {}
            // Nothing more can be done than to count it as gone.
            Some(QpState::Absent) => self.on_destroyed(index),
            Some(QpState::Drained) => {
                self.set_qp_state(index, QpState::Drained);
                self.on_drained(index);
            }
            Some(QpState::Init) => {
                l.goal = QpGoal::Gone;
                let second = self
                    .groups
                    .at(group)
                    .is_some_and(|g| g.second_link == index);
                if second {
                    self.retire_second_link(group);
                    self.on_second_link_refused(group);
                } else {
                    // A link that was given up meanwhile takes nothing along.
                    if goal != QpGoal::Gone {
                        self.end_group(
                            group,
                            CloseReason::LinksLost,
                            Some(DiagnosisCode::LINK_READY),
                        );
                    }
                    self.drop_absent_link(index);
                    self.retire_buffers_of_ending(group);
                }
            }
            // The queue pair exists and still has to be drained.
            Some(QpState::Rtr | QpState::Rts) if goal == QpGoal::Gone => self.poke_link(index),
            Some(QpState::Rtr | QpState::Rts) => {
                self.end_group(
                    group,
                    CloseReason::LinksLost,
                    Some(DiagnosisCode::LINK_READY),
                );
            }
        }
    }

    fn retire_buffers_of_ending(&mut self, group: u32) {
        if self
            .groups
            .at(group)
            .is_some_and(|g| g.is_ending() && g.link == NONE)
        {
            self.retire_buffers(group);
            self.try_free_group(group);
        }
    }

    /// A queue pair broke. With one link that is the end of its group, but the
    /// connection at fault is told apart from the others.
    //= TIMER-004
    //= TIMER-007
    //= TIMER-009
    //= RENDEZVOUS-058
    fn on_link_failed(&mut self, link: LinkId, cause: LinkFailure, conn: Option<ConnId>) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        let Some(l) = self.links.at(index) else {
            return;
        };
        let group = l.group;
        if self
            .groups
            .at(group)
            .is_some_and(|g| g.second_link == index)
        {
            self.retire_second_link(group);
            self.on_second_link_refused(group);
            return;
        }
        if cause == LinkFailure::RemoteAccess
            && let Some(conn) = conn.and_then(|id| self.live_conn(id))
        {
            self.with_connection(conn, |connection, now, config| {
                connection.on_fatal(now, &config.connection, FatalCause::AccessRefused);
            });
        }
        self.end_group(
            group,
            CloseReason::LinksLost,
            Some(DiagnosisCode::LINK_READY),
        );
    }

    // ---- buffers -----------------------------------------------------------

    fn on_registered(&mut self, buffer: BufferId, link: LinkId, rtoken: RToken) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.links.at(link).map(|l| l.position) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        if !b.on_registered(position, rtoken) {
            return;
        }
        let (group, waiter) = (b.group, b.waiter);
        self.poke_buffer(index);
        self.announce_rmb(group, index);
        if self
            .buffers
            .at(index)
            .is_some_and(|b| b.kind == crate::command::BufferKind::Send)
            && let Some(b) = self.buffers.at_mut(index)
        {
            b.waiter = NONE;
        }
        self.list_spare(index);
        self.wake(waiter);
    }

    fn on_deregistered(&mut self, buffer: BufferId, link: LinkId) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.links.at(link).map(|l| l.position) else {
            return;
        };
        if self
            .buffers
            .at_mut(index)
            .is_some_and(|b| b.on_deregistered(position))
        {
            if let Some(l) = self.links.at_mut(link) {
                l.registrations = l.registrations.saturating_sub(1);
            }
            self.poke_buffer(index);
            self.poke_link(link);
        }
    }

    /// A control command of a buffer failed.
    fn on_buffer_refused(&mut self, buffer: BufferId) {
        let Some(index) = self.live_buffer(buffer) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let Some(refused) = b.take_refused() else {
            return;
        };
        let (group, waiter) = (b.group, b.waiter);
        match refused {
            Control::Alloc => b.memory = Memory::Gone,
            // The element is lost, the RMB is not; without users it goes, but in
            // order, because the peer knows its key (RMB-030).
            Control::Clear(element) => {
                b.dirty.remove(element);
                if b.users == 0 {
                    b.idle_deadline = Some(self.core.now);
                    self.buffers.set_deadline(index, Some(self.core.now));
                }
                self.poke_buffer(index);
                return;
            }
            Control::Register(_) => self.end_registration(group),
            // What cannot be taken back counts as gone.
            Control::Deregister(position) => {
                b.forget_registration(position);
                self.end_registration(group);
            }
            Control::Free => {
                self.remove_buffer(index);
                return;
            }
        }
        if let Some(b) = self.buffers.at_mut(index) {
            b.retired = true;
        }
        self.list_spare(index);
        // The waiter leaves first, so that its element comes back.
        self.wake(waiter);
        self.run_wakes();
        self.drop_absent_buffer(index);
        self.poke_buffer(index);
    }

    /// One buffer less is registered on the link of a group.
    fn end_registration(&mut self, group: u32) {
        let link = self.groups.at(group).map_or(NONE, |g| g.link);
        if let Some(l) = self.links.at_mut(link) {
            l.registrations = l.registrations.saturating_sub(1);
        }
        self.poke_link(link);
    }
}
