//! DELETE LINK for links that are removed: the server's exchange and the client's request.

use super::super::Role;
use super::super::link::FreeFlowing;
use super::super::link_state::{DeletionProgress, LinkNotified, LinkState, Removal};
use super::Flow;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::time::Duration;
use crate::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::LinkNumber;

impl Groups<'_> {
    /// Server: starts DELETE LINK for the next link that leaves; whether there was
    /// one.
    //= FAILOVER-024
    //= LINK-024
    //= LLC-045
    pub(super) fn start_delete_link(&mut self, group: GroupIdx) -> bool {
        if self
            .data
            .groups
            .at(group)
            .is_none_or(|g| g.role == Role::Client)
        {
            return false;
        }
        let Some((link, removal)) = self.next_removal(group) else {
            return false;
        };
        let via_link = self.link_for_removal(group, link);
        if via_link.is_none() {
            return false;
        }
        self.set_progress(
            link,
            DeletionProgress::Requested {
                via_link,
                posted: false,
            },
        );
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = Flow::DeleteLink { link, via_link };
        }
        let number = self.link(link).map_or(LinkNumber(0), |l| l.number);
        self.request(via_link, &delete_link(number, removal));
        true
    }

    /// Client: asks the server to delete links that leave. That needs no exchange.
    //= FAILOVER-003
    //= LLC-051
    //= LLCSER-001
    pub(crate) fn start_removals(&mut self, group: GroupIdx) {
        if self
            .data
            .groups
            .at(group)
            .is_none_or(|g| g.role == Role::Server)
        {
            return;
        }
        while let Some((link, _)) = self.next_removal(group) {
            let via_link = self.link_for_removal(group, link);
            let Some(l) = self.data.links.at_mut(via_link) else {
                return;
            };
            l.free_flowing |= FreeFlowing::DELETE_LINK;
            let progress = DeletionProgress::Requested {
                via_link,
                posted: false,
            };
            self.set_progress(link, progress);
            self.data.schedule_link(via_link);
        }
    }

    /// The link to be deleted next. A link that was never confirmed comes first: its
    /// deletion ends the exchange that was to add it, which the peer may still answer.
    //= LLCSER-003
    fn next_removal(&self, group: GroupIdx) -> Option<(LinkIdx, Removal)> {
        self.select_links(group, |_| true)
            .filter_map(|(index, link)| {
                let removal = link.link_state.removal()?;
                // A server that deletes in order lets its data complete first.
                let waits = removal.graceful && removal.draining && !link.is_free_of_data();
                let due = removal.progress == DeletionProgress::Due && !waits;
                due.then_some((link.notified != LinkNotified::Nothing, index, removal))
            })
            .min_by_key(|(confirmed, ..)| *confirmed)
            .map(|(_, index, removal)| (index, removal))
    }

    /// A link that works: another one, or the one to be deleted itself.
    //= LLC-012
    fn link_for_removal(&self, group: GroupIdx, link: LinkIdx) -> LinkIdx {
        let other = self.link_for_llc(group, link);
        let usable = self.link(link).is_some_and(super::super::Link::is_usable);
        if other.is_none() && usable {
            link
        } else {
            other
        }
    }

    pub(super) fn set_progress(&mut self, link: LinkIdx, progress: DeletionProgress) {
        if let Some(l) = self.data.links.at_mut(link)
            && let LinkState::Leaving(removal) = &mut l.link_state
        {
            removal.progress = progress;
        }
    }

    pub(crate) fn set_removal_deadline(&mut self, link: LinkIdx, wait: Option<Duration>) {
        let deadline = wait.map(|wait| self.now().after(wait));
        if let Some(l) = self.data.links.at_mut(link)
            && let LinkState::Leaving(removal) = &mut l.link_state
        {
            removal.deadline = deadline;
        }
        self.arm_link(link);
    }

    /// The client's DELETE LINK that this link is to carry. The server must answer
    /// with its own (TIMER-023).
    pub(super) fn next_delete_request(
        &mut self,
        group: GroupIdx,
        via_link: LinkIdx,
    ) -> Option<LlcMessage<'static>> {
        let waits = |link: &super::super::Link| {
            link.link_state.removal().filter(|d| {
                d.progress
                    == DeletionProgress::Requested {
                        via_link,
                        posted: false,
                    }
            })
        };
        let (link, number, removal) = self
            .select_links(group, |_| true)
            .find_map(|(index, link)| Some((index, link.number, waits(link)?)))?;
        let progress = DeletionProgress::Requested {
            via_link,
            posted: true,
        };
        self.set_progress(link, progress);
        let wait = self.data.core.config.timeouts.llc_reply;
        self.set_removal_deadline(link, Some(wait));
        let more = self
            .select_links(group, |link| waits(link).is_some())
            .next()
            .is_some();
        if more && let Some(l) = self.data.links.at_mut(via_link) {
            l.free_flowing |= FreeFlowing::DELETE_LINK;
        }
        Some(delete_link(number, removal))
    }

    /// Client: an exchange of the server is over, behind which it had to queue what
    /// this side asked for. Only now can it answer, so the waits start anew.
    //= LLCSER-009
    //= LLCSER-014
    pub(crate) fn restart_removal_waits(&mut self, group: GroupIdx) {
        let wait = self.data.core.config.timeouts.llc_reply;
        for link in self.links_of(group) {
            let removal = self.link(link).and_then(|l| l.link_state.removal());
            if removal.is_some_and(|d| {
                matches!(d.progress, DeletionProgress::Requested { posted: true, .. })
            }) {
                self.set_removal_deadline(link, Some(wait));
            }
        }
    }

    /// Handles the deadline of a link in removal: the server has not answered in time, or the link
    /// has not drained.
    //= TIMER-023
    pub(crate) fn on_removal_timeout(&mut self, link: LinkIdx, removal: Removal) {
        self.set_removal_deadline(link, None);
        let group = self.link(link).map_or(Idx::NONE, |l| l.group);
        match removal.progress {
            // The server adds a link and answers afterwards; how long that takes is
            // bounded by the timers of the addition.
            //= LLCSER-009
            DeletionProgress::Requested { posted: true, .. } if !self.addition(group).is_idle() => {
                let wait = self.data.core.config.timeouts.llc_reply;
                self.set_removal_deadline(link, Some(wait));
            }
            DeletionProgress::Requested {
                via_link,
                posted: true,
            } => {
                if via_link == link {
                    // No other link carries it: the group keeps none that leads nowhere.
                    self.complete_removal(link);
                    self.close_link(link);
                } else {
                    self.test_via_link(link, via_link);
                }
            }
            DeletionProgress::Overdue { via_link } => self.lose_link(via_link),
            DeletionProgress::Agreed => self.close_link(link),
            DeletionProgress::ReplyDue { via_link } => self.reply_when_drained(link, via_link),
            // A server's data does not complete: the link is broken.
            DeletionProgress::Due
                if self
                    .link(link)
                    .is_some_and(|l| removal.graceful && !l.is_free_of_data()) =>
            {
                self.close_link(link);
            }
            DeletionProgress::Due | DeletionProgress::Requested { .. } => {}
        }
    }
}

fn delete_link(number: LinkNumber, removal: Removal) -> LlcMessage<'static> {
    let mut flags = DeleteLinkFlags::empty();
    flags.set(DeleteLinkFlags::ORDERLY, removal.graceful);
    LlcMessage::DeleteLink(DeleteLink {
        reply: false,
        flags,
        link: number,
        reason: removal.reason,
    })
}
