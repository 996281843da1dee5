//! Links that fail, and what becomes of their connections (RFC 7609 2.3, 4.6).
//!
//! ```text
//!   fail_link ───► Leaving, no new work (leaving.rs) ─────────┐
//!   retire_link ─► Leaving gracefully ► agreed, link idle ────┴─► QpToError
//!      QpDrained ─► connections move (moving.rs)
//!      QpDestroyed and DELETE LINK agreed ──► slot freed (dropping.rs)
//! ```
//!
//! Connections move only when the queue pair is drained: until then its writes
//! may still be placed (FAILOVER-004), and after that nothing of it completes.

use super::link_state::DeletionProgress;
use super::{Fallback, GroupState, LinkState};
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::trace::TraceEvent;
use crate::wire::types::DeleteLinkReason;

impl Groups<'_> {
    /// A link does not work any more. `close` and `fallback` say what becomes of
    /// the group's connections if no other link is left.
    //= FAILOVER-002
    //= FAILOVER-003
    //= FAILOVER-024
    //= LLC-054
    //= CLOSE-041
    pub(crate) fn fail_link(
        &mut self,
        link: LinkIdx,
        reason: DeleteLinkReason,
        close: CloseReason,
        fallback: Fallback,
    ) {
        let Some(l) = self.link(link) else {
            return;
        };
        let (group, link_state) = (l.group, l.link_state);
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        if g.is_ending() {
            return;
        }
        let added = g.addition.link == link;
        self.trace_link(link, || TraceEvent::LinkFailed { reason, close });
        match link_state {
            LinkState::Offered => self.lose_addition(group),
            LinkState::Adding if added => self.lose_addition(group),
            // The first link, before it is confirmed.
            LinkState::Adding => self.end_group(group, close, fallback),
            LinkState::Leaving(_) => self.close_link(link),
            LinkState::Active if self.is_last_link(group, link) => {
                self.end_group(group, close, fallback);
            }
            LinkState::Active => self.begin_removal(link, reason, false),
        }
        self.schedule_large(group);
    }

    /// What a link carried that is of no use any more starts again on another one.
    //= LLC-080
    //= LLCSER-010
    pub(crate) fn restart_exchanges_via(&mut self, group: GroupIdx, link: LinkIdx) {
        let addition = self.addition(group);
        if addition.via_link == link && !addition.is_idle() {
            self.lose_addition(group);
        }
        self.restart_exchanges(group, link);
        self.review_buffers(group);
        self.start_removals(group);
        self.start_flow(group);
    }

    /// Whether no other link could carry the connections of this one.
    fn is_last_link(&mut self, group: GroupIdx, link: LinkIdx) -> bool {
        if self.link_for_llc(group, link).is_some() {
            return false;
        }
        // One that was about to be retired stays, unless the peer may count on that.
        let reprieved = self
            .select_links(group, |l| {
                l.is_usable()
                    && l.link_state
                        .removal()
                        .is_some_and(|d| d.graceful && d.progress.is_unknown_to_peer())
            })
            .find(|(index, _)| *index != link)
            .map(|(index, _)| index);
        let before = self.data.link_before(reprieved.unwrap_or(Idx::NONE));
        if let Some(index) = reprieved
            && let Some(l) = self.data.links.at_mut(index)
        {
            l.link_state = LinkState::Active;
            self.data.trace_link_changes(index, before);
            self.arm_link(index);
            self.data.schedule_link(index);
            return false;
        }
        true
    }

    /// Exchanges that the failed link carried start again on another one.
    //= LLC-080
    //= TIMER-023
    fn restart_exchanges(&mut self, group: GroupIdx, link: LinkIdx) {
        for index in self.links_of(group) {
            let Some(l) = self.data.links.at_mut(index) else {
                continue;
            };
            if let LinkState::Leaving(removal) = &mut l.link_state
                && removal.progress.is_awaited_from(link)
            {
                removal.progress = DeletionProgress::Due;
                removal.deadline = None;
                self.arm_link(index);
            }
        }
        if let Some(g) = self.data.groups.at_mut(group)
            && g.incoming_rkey
                .is_some_and(|incoming| incoming.via_link == link)
        {
            g.incoming_rkey = None;
        }
        self.restart_flow(group, link);
    }

    /// Whether a group is past its first link.
    pub(crate) fn takes_exchanges(&self, group: GroupIdx) -> bool {
        self.data.groups.at(group).is_some_and(|g| {
            g.is_active() || g.state == GroupState::Forming(super::Formation::AddingSecond)
        })
    }
}
