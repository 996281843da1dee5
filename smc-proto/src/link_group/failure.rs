//! Links that fail, and what becomes of their connections (RFC 7609 2.3, 4.6).
//!
//! ```text
//!   fail_link ───► Leaving, no new work (leaving.rs) ─────────┐
//!   retire_link ─► Leaving in order ─► agreed, link quiet ────┴─► QpToError
//!      QpDrained ─► connections move (moving.rs)
//!      QpDestroyed and DELETE LINK settled ─► slot freed (dropping.rs)
//! ```
//!
//! Connections move only when the queue pair is drained: until then its writes
//! may still be placed (FAILOVER-004), and after that nothing of it completes.

use super::standing::Word;
use super::{Fallback, GroupState, Standing};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::wire::types::DeleteLinkReason;

impl Engine<'_> {
    /// A link does not work any more. `close` and `fallback` say what becomes of
    /// the group's connections if no other link is left.
    //= FAILOVER-002
    //= FAILOVER-003
    //= FAILOVER-024
    //= LLC-054
    //= CLOSE-041
    pub(crate) fn fail_link(
        &mut self,
        link: u32,
        reason: DeleteLinkReason,
        close: CloseReason,
        fallback: Fallback,
    ) {
        let Some(l) = self.links.at(link) else {
            return;
        };
        let (group, standing) = (l.group, l.standing);
        let Some(g) = self.groups.at(group) else {
            return;
        };
        if g.is_ending() {
            return;
        }
        let added = g.addition.link == link;
        match standing {
            Standing::Offered => self.lose_addition(group),
            Standing::Adding if added => self.lose_addition(group),
            // The first link, before it is confirmed.
            Standing::Adding => self.end_group(group, close, fallback),
            Standing::Leaving(_) => self.close_link(link),
            Standing::Active if self.is_last_link(group, link) => {
                self.end_group(group, close, fallback);
            }
            Standing::Active => self.depart(link, reason, false),
        }
        self.poke_large(group);
    }

    /// What a link carried that is of no use any more starts again on another one.
    //= LLC-080
    //= LLCSER-010
    pub(crate) fn restart_carried(&mut self, group: u32, link: u32) {
        let addition = self.addition(group);
        if addition.carrier == link && !addition.is_idle() {
            self.lose_addition(group);
        }
        self.restart_exchanges(group, link);
        self.review_buffers(group);
        self.start_departures(group);
        self.start_flow(group);
    }

    /// Whether no other link could carry the connections of this one.
    fn is_last_link(&mut self, group: u32, link: u32) -> bool {
        if self.carrier(group, link) != NONE {
            return false;
        }
        // One that was about to be retired stays, unless the peer may count on that.
        let reprieved = self
            .select_links(group, |l| {
                l.is_usable()
                    && l.standing
                        .departure()
                        .is_some_and(|d| d.orderly && d.word.is_unheard())
            })
            .find(|(index, _)| *index != link)
            .map(|(index, _)| index);
        if let Some(index) = reprieved
            && let Some(l) = self.links.at_mut(index)
        {
            l.standing = Standing::Active;
            self.arm_link(index);
            self.poke_link(index);
            return false;
        }
        true
    }

    /// Exchanges that the failed link carried start again on another one.
    //= LLC-080
    //= TIMER-023
    fn restart_exchanges(&mut self, group: u32, link: u32) {
        for index in self.links_of(group) {
            let Some(l) = self.links.at_mut(index) else {
                continue;
            };
            if let Standing::Leaving(departure) = &mut l.standing
                && departure.word.is_carried_by(link)
            {
                departure.word = Word::Due;
                departure.deadline = None;
                self.arm_link(index);
            }
        }
        if let Some(g) = self.groups.at_mut(group)
            && g.incoming_rkey
                .is_some_and(|incoming| incoming.carrier == link)
        {
            g.incoming_rkey = None;
        }
        self.restart_flow(group, link);
    }

    /// Whether a group is past its first link.
    pub(crate) fn takes_exchanges(&self, group: u32) -> bool {
        self.groups.at(group).is_some_and(|g| {
            g.is_active() || g.state == GroupState::Forming(super::Formation::AddingSecond)
        })
    }
}
