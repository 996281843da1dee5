//! How an addition ends: the link is active, or it comes to nothing.

use super::{AddLinkSchedule, AddingStage, Addition};
use crate::config::OnSilence;
use crate::id::{GroupIdx, LinkIdx};
use crate::link_group::Groups;
use crate::link_group::link::Link;
use crate::link_group::link_state::{DeletionProgress, LinkNotified};
use crate::link_group::{Fallback, Formation, GroupState, LinkState, QpGoal};
use crate::trace::TraceEvent;
use crate::wire::types::{AddLinkRejectReason, DeleteLinkReason};

impl Groups<'_> {
    /// The new link is confirmed: connections may use it.
    pub(super) fn finish_addition(&mut self, group: GroupIdx) {
        let Addition {
            link: added,
            unwanted,
            ..
        } = self.addition(group);
        self.set_addition(group, Addition::IDLE);
        let probation = self
            .now()
            .after(self.data.core.config.timeouts.add_link_retry);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.add_schedule = AddLinkSchedule {
                // What the client announced after its last reply came before it.
                due: g.add_schedule.hinted,
                failures: g.add_schedule.failures,
                probation: Some(probation),
                ..AddLinkSchedule::NONE
            };
        }
        self.activate_link(added);
        let server = self.is_server(group);
        if server {
            self.retire_asymmetric_link(group);
            // There may be ports for still more links; a client that shares its
            // only port announces another one later.
            let shared = self.link(added).is_some_and(|l| l.asymmetric);
            if !shared
                && self.has_room_for_link(group)
                && self.spare_port(group, None).is_some()
                && let Some(g) = self.data.groups.at_mut(group)
            {
                g.add_schedule.due = true;
            }
        } else {
            self.hint_spare_port(group);
            self.restart_removal_waits(group);
        }
        self.announce_missing_links(group);
        //= LLCSER-009
        if unwanted {
            self.retire_link(added, DeleteLinkReason::LOST_PATH);
        }
        self.conclude_formation(group);
        self.start_flow(group);
    }

    /// A link carries connections from now on.
    pub(crate) fn activate_link(&mut self, index: LinkIdx) {
        let before = self.data.link_before(index);
        let Some(link) = self.data.links.at_mut(index) else {
            return;
        };
        link.link_state = LinkState::Active;
        let (group, number) = (link.group, link.number);
        self.data.trace_link_changes(index, before);
        if self.data.tap.is_on() {
            let group = self.group_id(group);
            self.trace_link(index, || TraceEvent::LinkUp { number, group });
        }
        self.arm_keepalive(index);
        if self.data.groups.at(group).is_some_and(|g| g.is_active()) {
            // A request that was not answered in this time its sender has given up,
            // together with the link that carried it.
            let until = self.now().after(self.data.core.config.timeouts.llc_reply);
            if let Some(link) = self.data.links.at_mut(index) {
                link.new_until = until;
            }
            self.announce_links(group);
            self.wake_rendezvous(group);
        }
    }

    /// Lets the application know of active links; of those a group was formed
    /// with, only once it is.
    pub(in super::super) fn announce_links(&mut self, group: GroupIdx) {
        for index in self.links_of(group) {
            if let Some(link) = self.data.links.at_mut(index)
                && link.is_active()
                && link.notified == LinkNotified::Nothing
            {
                link.notified = LinkNotified::Rising;
                self.data
                    .core
                    .link_events
                    .push_back(&mut self.data.links, index);
            }
        }
    }

    /// With two symmetric links the asymmetric one is not needed any more.
    //= LINK-009
    //= LINK-010
    fn retire_asymmetric_link(&mut self, group: GroupIdx) {
        let symmetric = self
            .select_links(group, |link| link.is_active() && !link.asymmetric)
            .count();
        let asymmetric = self
            .select_links(group, |link| link.is_active() && link.asymmetric)
            .next()
            .map(|(index, _)| index);
        if symmetric >= 2
            && let Some(index) = asymmetric
        {
            //= V2-213
            self.retire_link(index, DeleteLinkReason::ASYMMETRIC_NOT_NEEDED);
        }
    }

    /// The new link fails: the peer is notified if it counts on it by now.
    pub(crate) fn lose_addition(&mut self, group: GroupIdx) {
        self.abandon_addition(group, self.addition(group).is_announced());
    }

    /// The new link is abandoned. `notified`: the peer counts on it and must be
    /// notified by DELETE LINK.
    //= LLC-027
    //= LINK-048
    //= LINK-049
    //= TIMER-012
    //= TIMER-018
    //= TIMER-019
    pub(crate) fn abandon_addition(&mut self, group: GroupIdx, notified: bool) {
        let addition = self.addition(group);
        if addition.is_idle() {
            return;
        }
        // A client that has not answered yet has to reject. One whose acceptance was not sent yet
        // rejects instead.
        let is_queued = |large| self.link(addition.via_link).map(|l| l.large) == Some(Some(large));
        let unsent_acceptance = is_queued(true);
        let notified = notified && !unsent_acceptance && !is_queued(false);
        if addition.stage == AddingStage::Joining || unsent_acceptance {
            self.reject_add_link(group, AddLinkRejectReason::NO_ALTERNATE_PATH);
        }
        //= V2-188
        if addition.stage == AddingStage::Creating && addition.asked_on.is_some() {
            self.refuse_link(addition.asked_on);
        }
        let link = addition.link;
        self.set_addition(group, Addition::IDLE);
        let before = self.data.link_before(link);
        if let Some(l) = self.data.links.at_mut(link) {
            l.request = None;
            l.goal = QpGoal::Gone;
            let progress = if notified {
                DeletionProgress::Due
            } else {
                DeletionProgress::Agreed
            };
            l.link_state = LinkState::failed(DeleteLinkReason::LOST_PATH, progress);
        }
        self.data.trace_link_changes(link, before);
        if let Some(l) = self.data.links.at_mut(addition.via_link) {
            l.large = None;
        }
        // A client has no request of its own in this, but perhaps of another exchange.
        let server = self.is_server(group);
        if server && let Some(l) = self.data.links.at_mut(addition.via_link) {
            l.request = None;
        }
        self.restart_removal_waits(group);
        self.schedule_retry(group);
        self.drop_absent_link(link);
        self.data.schedule_link(link);
        self.review_buffers(group);
        self.start_removals(group);
        self.conclude_formation(group);
        self.start_flow(group);
    }

    /// A wait of the addition is over (RFC 7609 C.7.1).
    //= TIMER-011
    //= TIMER-015
    //= TIMER-016
    //= TIMER-017
    //= TIMER-020
    //= TIMER-021
    //= TIMER-022
    pub(in super::super) fn on_addition_timeout(&mut self, group: GroupIdx) {
        let addition = self.addition(group);
        let forming = self
            .data
            .groups
            .at(group)
            .is_some_and(|g| matches!(g.state, GroupState::Forming(_)));
        if forming
            && self.data.core.config.add_link_timeout == OnSilence::Reset
            && matches!(
                addition.stage,
                AddingStage::AwaitingReply
                    | AddingStage::AwaitingContinuation
                    | AddingStage::AwaitingContinuationReply
            )
        {
            self.fail_formation(group, Fallback::Reset);
            return;
        }
        match addition.stage {
            AddingStage::Idle => {}
            AddingStage::Creating | AddingStage::Joining => self.abandon_addition(group, false),
            // A peer that never answered may have dropped the request, as Linux
            // does when it is busy; in the first contact no data waits for it.
            AddingStage::AwaitingReply => self.abandon_addition(group, !forming),
            // DELETE LINK says whether only the new link is concerned: if it
            // is not answered either, the link that carries it has failed.
            _ => self.abandon_addition(group, true),
        }
    }

    /// The first contact is over once no addition and no deletion is in progress.
    pub(crate) fn conclude_formation(&mut self, group: GroupIdx) {
        let is_over = self.data.groups.at(group).is_some_and(|g| {
            g.state == GroupState::Forming(Formation::AddingSecond) && g.addition.is_idle()
        }) && self.select_links(group, Link::is_unagreed).next().is_none();
        //= RENDEZVOUS-030
        if is_over {
            self.group_formed(group);
        }
    }
}
