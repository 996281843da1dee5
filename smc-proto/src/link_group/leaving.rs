//! Links that leave: taken out of use, agreed on with the peer, closed.

use super::link_state::{DeletionProgress, LinkNotified, LinkState, Removal};
use super::{Link, QpGoal};
use crate::id::LinkIdx;
use crate::link_group::Groups;
use crate::wire::types::DeleteLinkReason;

impl Groups<'_> {
    /// Removes a link that works and is not wanted any more.
    //= LINK-046
    //= LINK-047
    pub(crate) fn retire_link(&mut self, link: LinkIdx, reason: DeleteLinkReason) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        self.begin_removal(link, reason, true);
        // The server sends DELETE LINK once nothing of its own is in flight; a client
        // only asks.
        //= LLC-052
        if self.is_server(group) {
            self.drain_link(link);
        }
        self.start_removals(group);
        self.start_flow(group);
    }

    /// Keeps new data off a link that is about to be deleted gracefully; what is in
    /// flight has time to complete.
    pub(crate) fn drain_link(&mut self, link: LinkIdx) {
        if let Some(l) = self.data.links.at_mut(link)
            && let LinkState::Leaving(removal) = &mut l.link_state
        {
            removal.draining = true;
        }
        let wait = self.data.core.config.timeouts.llc_reply;
        // A client's answer must be there before the server stops waiting.
        self.set_removal_deadline(link, wait.checked_div(2));
    }

    /// Takes a link out of use; DELETE LINK is due then.
    pub(crate) fn begin_removal(
        &mut self,
        link: LinkIdx,
        reason: DeleteLinkReason,
        graceful: bool,
    ) {
        let before = self.data.link_before(link);
        let Some(l) = self.data.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        l.link_state = LinkState::Leaving(Removal {
            reason,
            graceful,
            draining: !graceful,
            progress: DeletionProgress::Due,
            deadline: None,
        });
        self.data.trace_link_changes(link, before);
        self.arm_link(link);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.lost_links = true;
        }
        self.review_symmetry(group);
        self.rewrite_announcement(group, link);
        self.move_handshakes(link);
        if !graceful {
            self.close_link(link);
        }
    }

    /// Takes the queue pair down. Its connections move to other links once it is drained.
    //= FAILOVER-004
    pub(crate) fn close_link(&mut self, link: LinkIdx) {
        if let Some(l) = self.data.links.at_mut(link) {
            let group = l.group;
            let first = l.goal != QpGoal::Gone;
            l.shut();
            let mut reply_due_on = None;
            if let LinkState::Leaving(removal) = &mut l.link_state {
                removal.graceful = false;
                removal.draining = true;
                if let DeletionProgress::ReplyDue { via_link } = removal.progress {
                    reply_due_on = Some(via_link);
                }
            }
            // Nothing on the link completes any more: no need to wait for that.
            if let Some(via_link) = reply_due_on {
                self.reply_when_drained(link, via_link);
            }
            self.arm_link(link);
            self.drop_absent_link(link);
            self.data.schedule_link(link);
            if first {
                self.restart_exchanges_via(group, link);
            }
        }
    }

    /// Advances the graceful removal of a link after something on it completed. DELETE LINK, or the
    /// reply to it, is sent when no data is in flight on the link. The link is closed when both
    /// sides have agreed and nothing is in flight.
    //= LLC-049
    pub(crate) fn close_if_drained(&mut self, link: LinkIdx) {
        if let Some(l) = self.link(link)
            && let Some(removal) = l.link_state.removal()
            && removal.graceful
            && removal.draining
            && l.is_free_of_data()
        {
            match removal.progress {
                DeletionProgress::Due => self.start_flow(l.group),
                DeletionProgress::ReplyDue { via_link } => self.reply_when_drained(link, via_link),
                _ => {}
            }
        }
        let is_done = self.link(link).is_some_and(|l| {
            l.is_idle()
                && l.goal != QpGoal::Gone
                && l.link_state
                    .removal()
                    .is_some_and(|d| d.graceful && d.progress == DeletionProgress::Agreed)
        });
        if is_done {
            self.close_link(link);
        }
    }

    /// Notes that both sides have agreed to remove a link.
    pub(crate) fn complete_removal(&mut self, link: LinkIdx) {
        let Some(l) = self.data.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        // A link that never came up is replaced after a pause only (LINK-049). One that an operator
        // has deleted is not replaced at once.
        //= LINK-049
        let mut missed = l.notified != LinkNotified::Nothing;
        if let LinkState::Leaving(removal) = &mut l.link_state {
            removal.progress = DeletionProgress::Agreed;
            missed &= removal.reason != DeleteLinkReason::OPERATOR;
        }
        // A link that does not drain in time is closed.
        let wait = self.data.core.config.timeouts.llc_reply;
        let graceful = self
            .link(link)
            .and_then(|l| l.link_state.removal())
            .is_some_and(|d| d.graceful);
        self.set_removal_deadline(link, graceful.then_some(wait));
        self.restart_removal_waits(group);
        self.close_if_drained(link);
        self.drop_absent_link(link);
        self.conclude_formation(group);
        if missed {
            self.want_redundancy(group);
        }
    }
}

impl Link {
    /// Whether the link is in removal, and both sides have not agreed on that yet.
    pub(crate) const fn is_unagreed(&self) -> bool {
        match self.link_state {
            LinkState::Leaving(removal) => !matches!(removal.progress, DeletionProgress::Agreed),
            _ => false,
        }
    }
}
