//! Queue pairs that came up, went down, or broke.

use super::super::{Fallback, QpGoal, QpState};
use crate::completion::LinkFailure;
use crate::connection::FatalCause;
use crate::event::CloseReason;
use crate::id::{ConnId, GroupIdx, Idx, LinkId, LinkIdx};
use crate::link_group::Groups;
use crate::trace::TraceEvent;
use crate::wire::types::{DeleteLinkReason, DiagnosisCode};

impl Groups<'_> {
    pub(crate) fn set_qp_state(&mut self, index: LinkIdx, state: QpState) {
        let before = self.data.link_before(index);
        if let Some(l) = self.data.links.at_mut(index) {
            l.pending = None;
            l.state = state;
        }
        self.data.trace_link_changes(index, before);
    }

    pub(crate) fn on_qp_state(&mut self, link: LinkId, state: QpState) {
        let Some(index) = self.expecting_link(link, state) else {
            return;
        };
        self.set_qp_state(index, state);
        self.data.schedule_link(index);
        let Some(group) = self.link(index).map(|l| l.group) else {
            return;
        };
        if self
            .data
            .groups
            .at(group)
            .is_none_or(super::super::LinkGroup::is_ending)
        {
            return;
        }
        if state == QpState::Init {
            // The protection domain exists: buffers can be registered.
            self.schedule_group_buffers(group);
        }
        let founder = self.data.groups.at(group).map_or(Idx::NONE, |g| g.founder);
        self.data.wake(founder);
        self.on_formation_progress(group);
        self.on_addition_progress(group);
    }

    pub(crate) fn schedule_group_buffers(&mut self, group: GroupIdx) {
        self.each_buffer(group, |groups, index| {
            groups.schedule_buffer(index);
        });
    }

    pub(crate) fn on_destroyed(&mut self, index: LinkIdx) {
        let group = self.link(index).map_or(Idx::NONE, |l| l.group);
        let before = self.data.link_before(index);
        if let Some(l) = self.data.links.at_mut(index) {
            l.state = QpState::Absent;
            l.pending = None;
            l.goal = QpGoal::Gone;
        }
        self.data.trace_link_changes(index, before);
        self.drop_absent_link(index);
        self.retire_buffers_if_drained(group);
    }

    /// A control command of a link failed.
    pub(crate) fn on_link_refused(&mut self, link: LinkId) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        let Some(l) = self.data.links.at_mut(index) else {
            return;
        };
        let (group, goal) = (l.group, l.goal);
        let refused = l.pending.take();
        if refused.is_some() {
            self.trace_link(index, || TraceEvent::LinkRefused);
        }
        match refused {
            None => {}
            // Nothing more can be done than to count it as gone.
            Some(QpState::Absent) => self.on_destroyed(index),
            Some(QpState::Drained) => {
                self.set_qp_state(index, QpState::Drained);
                self.on_drained(index);
            }
            // A link that was given up meanwhile takes nothing along.
            Some(QpState::Init) if goal == QpGoal::Gone => {
                self.drop_absent_link(index);
                self.retire_buffers_if_drained(group);
            }
            // The queue pair exists and still has to be drained.
            Some(QpState::Rtr | QpState::Rts) if goal == QpGoal::Gone => {
                self.data.schedule_link(index)
            }
            Some(QpState::Init | QpState::Rtr | QpState::Rts) => self.fail_link(
                index,
                DeleteLinkReason::LOST_PATH,
                CloseReason::LinksLost,
                Fallback::Decline(DiagnosisCode::LINK_READY),
            ),
        }
    }

    /// A queue pair broke. Its connections go on over another link, except the one
    /// at fault, whose writes would break that one, too.
    //= TIMER-004
    //= TIMER-007
    //= TIMER-009
    //= RENDEZVOUS-058
    pub(crate) fn on_link_failed(
        &mut self,
        link: LinkId,
        cause: LinkFailure,
        conn: Option<ConnId>,
    ) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        self.trace_link(index, || TraceEvent::LinkBroken { cause });
        if cause == LinkFailure::RemoteAccess
            && let Some(conn) = conn.and_then(|id| self.data.live_conn(id))
        {
            self.with_connection(conn, |connection, now, config| {
                connection.on_fatal(now, &config.connection, FatalCause::AccessRefused);
            });
        }
        self.fail_link(
            index,
            DeleteLinkReason::LOST_PATH,
            CloseReason::LinksLost,
            Fallback::Decline(DiagnosisCode::LINK_READY),
        );
    }
}
