//! The one exchange that a side runs on a formed group, and its deadlines.

use super::super::{Agreement, Fallback, LinkSet, Role};
use super::{AddLinkSchedule, Addition};
use crate::event::CloseReason;
use crate::id::{BufferIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;

/// How many RMBs that connections wait for are announced before a further link
/// that is wanted: a round trip each, so that redundancy is not put off for long.
const YIELDS: u8 = 16;

/// The exchange this side runs on a formed group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Flow {
    Idle,
    /// CONFIRM RKEY for this RMB.
    ConfirmRkey {
        buffer: BufferIdx,
        attempts: u8,
        via_link: LinkIdx,
        /// Links it is announced for.
        links: LinkSet,
        /// Of these, the ones for CONTINUATIONs.
        left: LinkSet,
    },
    /// The peer refused CONFIRM RKEY for now; it is repeated at the deadline.
    RetryConfirmRkey {
        buffer: BufferIdx,
        attempts: u8,
    },
    /// DELETE RKEY for this RMB.
    DeleteRkey {
        buffer: BufferIdx,
        via_link: LinkIdx,
    },
    /// Server: DELETE LINK for this link.
    DeleteLink {
        link: LinkIdx,
        via_link: LinkIdx,
    },
    /// DELETE LINK of the last link or of all; the group ends with the answer.
    DeleteGroup {
        all: bool,
        via_link: LinkIdx,
    },
    /// Server: DELETE LINK of all links has left; the group ends with the client's reply,
    /// or at the deadline.
    Farewell {
        via_link: LinkIdx,
    },
}

impl Flow {
    /// The link that carries it.
    pub(super) const fn via_link(self) -> LinkIdx {
        match self {
            Self::Idle | Self::RetryConfirmRkey { .. } => Idx::NONE,
            Self::ConfirmRkey { via_link, .. }
            | Self::DeleteRkey { via_link, .. }
            | Self::DeleteLink { via_link, .. }
            | Self::DeleteGroup { via_link, .. }
            | Self::Farewell { via_link } => via_link,
        }
    }

    /// Whether the group ends with it.
    pub(crate) const fn ends_group(self) -> bool {
        matches!(self, Self::DeleteGroup { .. } | Self::Farewell { .. })
    }
}

impl Groups<'_> {
    /// An addition has its own deadline, because a client's flow may go on beside it.
    pub(super) fn set_exchange_deadline(
        &mut self,
        group: GroupIdx,
        deadline: crate::time::Instant,
    ) {
        if let Some(g) = self.data.groups.at_mut(group) {
            if g.role == Role::Server && !g.addition.is_idle() {
                g.addition.deadline = Some(deadline);
            } else {
                g.flow_deadline = Some(deadline);
            }
        }
        self.arm_group(group);
    }

    pub(crate) fn arm_group(&mut self, group: GroupIdx) {
        let deadline = self
            .data
            .groups
            .at(group)
            .and_then(super::super::LinkGroup::next_deadline);
        self.set_group_deadline(group, deadline);
    }

    /// The exchange is over; the next one may start.
    //= LLCSER-021
    pub(crate) fn end_flow(&mut self, group: GroupIdx) {
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = Flow::Idle;
            g.flow_deadline = None;
        }
        self.arm_group(group);
        self.start_flow(group);
    }

    /// Starts the next exchange that is wanted, if none is running: deletions
    /// first, because connections may hang on them, then RMBs that connections wait
    /// for, then a further link, then other RMBs. Which of its own exchanges comes
    /// next is its initiator's choice; while a link is added no RMB can be announced
    /// (LLCSER-004), and adding one may take as long as a rendezvous.
    //= LLCSER-002
    //= LLCSER-003
    //= LLCSER-004
    //= LLCSER-021
    pub(crate) fn start_flow(&mut self, group: GroupIdx) {
        //= LLCSER-022
        if !self.takes_exchanges(group) || !self.is_between_exchanges(group) {
            return;
        }
        if self.start_delete_link(group) {
            return;
        }
        let schedule = self
            .data
            .groups
            .at(group)
            .map_or(AddLinkSchedule::NONE, |g| g.add_schedule);
        if schedule.due {
            if schedule.yielded < YIELDS && self.start_awaited_rkey_flow(group) {
                if let Some(g) = self.data.groups.at_mut(group) {
                    g.add_schedule.yielded = schedule.yielded.saturating_add(1);
                }
                return;
            }
            self.start_addition(group);
        }
        while self.is_between_exchanges(group)
            && let Some(g) = self.data.groups.at_mut(group)
            && g.is_active()
            && let Some(buffer) = g.agreements.pop_front(&mut self.buffers)
        {
            self.step();
            self.start_rkey_flow(group, buffer);
        }
    }

    /// Whether this side runs no exchange on a group.
    fn is_between_exchanges(&self, group: GroupIdx) -> bool {
        self.data
            .groups
            .at(group)
            .is_some_and(|g| g.flow == Flow::Idle && g.addition.is_idle())
    }

    /// Announces the first RMB that a connection waits for; they are in front of
    /// the others. Whether there was one.
    fn start_awaited_rkey_flow(&mut self, group: GroupIdx) -> bool {
        while self.is_between_exchanges(group)
            && let Some(g) = self.data.groups.at_mut(group)
            && g.is_active()
            && let Some(buffer) = g.agreements.first()
            && let Some(b) = self.buffers.at(buffer)
            && b.agreement == Agreement::Confirming
            && b.waiter.is_some()
        {
            g.agreements.remove(&mut self.buffers, buffer);
            self.step();
            self.start_rkey_flow(group, buffer);
        }
        !self.is_between_exchanges(group)
    }

    /// The exchange that a failed link carried goes back to what waits.
    //= LLC-080
    pub(crate) fn restart_flow(&mut self, group: GroupIdx, link: LinkIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        let flow = g.flow;
        if flow == Flow::Idle || flow.via_link() != link {
            return;
        }
        g.flow = Flow::Idle;
        g.flow_deadline = None;
        self.arm_group(group);
        match flow {
            Flow::ConfirmRkey { buffer, .. } | Flow::DeleteRkey { buffer, .. } => {
                self.queue_agreement(group, buffer);
            }
            //= TIMER-025
            Flow::DeleteGroup { .. } => self.delete_group(group),
            // All is said.
            Flow::Farewell { .. } => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            _ => {}
        }
    }

    /// A deadline of the group passed.
    pub(crate) fn on_group_timeout(&mut self, group: GroupIdx) {
        let now = self.now();
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if g.idle_deadline.is_some_and(|deadline| deadline <= now) {
            g.idle_deadline = None;
            //= LINK-031
            self.delete_group(group);
        }
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if g.flow_deadline.is_some_and(|deadline| deadline <= now) {
            g.flow_deadline = None;
            self.on_flow_timeout(group);
        }
        let due = |deadline: Option<crate::time::Instant>| deadline.is_some_and(|d| d <= now);
        if due(self.addition(group).deadline) {
            let addition = self.addition(group);
            self.set_addition(
                group,
                Addition {
                    deadline: None,
                    ..addition
                },
            );
            self.on_addition_timeout(group);
        }
        if self
            .data
            .groups
            .at(group)
            .is_some_and(|g| due(g.add_schedule.retry))
        {
            self.on_retry(group);
        }
        self.arm_group(group);
    }

    fn on_flow_timeout(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        match (g.state, g.flow) {
            (_, Flow::DeleteLink { link, via_link }) => self.test_via_link(link, via_link),
            (_, Flow::Farewell { .. }) => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            (super::super::GroupState::Forming(formation), _) => {
                self.on_formation_timeout(group, formation);
            }
            (super::super::GroupState::Active, Flow::RetryConfirmRkey { buffer, attempts }) => {
                self.retry_confirm_rkey(group, buffer, attempts);
            }
            //= TIMER-003
            //= TIMER-024
            //= TIMER-025
            //= TIMER-026
            //= TIMER-028
            (super::super::GroupState::Active, flow) => self.lose_link(flow.via_link()),
            _ => {}
        }
    }
}
