//! Queue pairs that came up, went down, or broke.

use super::super::{QpGoal, QpState};
use crate::completion::LinkFailure;
use crate::connection::FatalCause;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnId, LinkId, NONE};
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    pub(crate) fn set_qp_state(&mut self, index: u32, state: QpState) {
        if let Some(l) = self.links.at_mut(index) {
            l.under_way = None;
            l.state = state;
        }
    }

    pub(crate) fn on_qp_state(&mut self, link: LinkId, state: QpState) {
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
            .is_none_or(super::super::LinkGroup::is_ending)
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

    pub(crate) fn on_destroyed(&mut self, index: u32) {
        let group = self.links.at(index).map_or(NONE, |l| l.group);
        self.remove_link(index);
        self.retire_buffers_of_ending(group);
    }

    /// A control command of a link failed.
    pub(crate) fn on_link_refused(&mut self, link: LinkId) {
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
    pub(crate) fn on_link_failed(
        &mut self,
        link: LinkId,
        cause: LinkFailure,
        conn: Option<ConnId>,
    ) {
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
}
