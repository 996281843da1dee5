//! DELETE LINK whose reply is overdue: either the link that carried the request is dead,
//! or the reply is late.
//!
//! ```text
//!   Requested ── no reply in time ──► Overdue ── TEST LINK answered ──► Agreed
//!                                        └────── not answered ────────► link lost, Due again
//! ```
//!
//! By RFC 7609 silence means that the carrying link is dead (C.7.1). But the peer may
//! have to wait for its own writes to fail on the link that is to go before it can
//! answer (Linux does), and then the request went over the link that all connections have
//! moved to. It is asked, therefore: what arrives on a queue pair arrives in order, so
//! that an answer to TEST LINK shows that DELETE LINK is there, too. With that the
//! deletion is complete as far as this side is concerned; an answer that comes after
//! all finds nothing that it could change.

use super::super::Link;
use super::super::link_state::DeletionProgress;
use super::Flow;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;

impl Groups<'_> {
    /// The answer to DELETE LINK of `link` is overdue. The link that carries it is
    /// tested, or is lost if that is no use: it is the one to be deleted, it takes no
    /// messages, or the first contact is not through, in which no side sends data before
    /// the answer (RENDEZVOUS-030).
    //= TIMER-023
    //= TIMER-024
    //= TIMER-027
    pub(super) fn test_via_link(&mut self, link: LinkIdx, via_link: LinkIdx) {
        let group = self.link(link).map_or(Idx::NONE, |l| l.group);
        let testable = via_link != link
            && self.data.groups.at(group).is_some_and(|g| g.is_active())
            && self.link(via_link).is_some_and(Link::is_usable);
        if !testable {
            self.set_progress(link, DeletionProgress::Due);
            self.lose_link(via_link);
            return;
        }
        self.set_progress(link, DeletionProgress::Overdue { via_link });
        // The test has its own deadline. This one is for a link that is not watched
        // any more because it leaves itself.
        let timeouts = self.data.core.config.timeouts;
        let wait = timeouts.send_slot.max(timeouts.test_link_reply);
        self.set_removal_deadline(link, Some(wait));
        self.test_link(via_link);
    }

    /// The peer answered TEST LINK: it has received the DELETE LINKs that this link
    /// carried.
    pub(crate) fn complete_overdue(&mut self, via_link: LinkIdx) {
        let group = self.link(via_link).map_or(Idx::NONE, |l| l.group);
        for link in self.links_of(group) {
            let progress = self.link(link).and_then(|l| l.link_state.removal());
            if progress.is_some_and(|d| d.progress == DeletionProgress::Overdue { via_link }) {
                self.drain_link(link);
                self.conclude_deletion(group, link);
            }
        }
    }

    /// A deletion is over: the server's exchange with it, if it was that.
    pub(super) fn conclude_deletion(&mut self, group: GroupIdx, link: LinkIdx) {
        if let Some(g) = self.data.groups.at_mut(group)
            && matches!(g.flow, Flow::DeleteLink { link: of, .. } if of == link)
        {
            g.flow = Flow::Idle;
            g.flow_deadline = None;
            self.arm_group(group);
        }
        self.complete_removal(link);
        self.start_flow(group);
    }
}
