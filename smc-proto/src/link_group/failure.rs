//! Links that fail or retire, and where their connections go (RFC 7609 2.3, 4.6).
//!
//! ```text
//!   fail_link ─► Leaving, no new work ─► QpToError ─► QpDrained ─► connections moved
//!   retire_link ─► Leaving in order ─► DELETE LINK agreed, link quiet ─┘
//!                                       both: slot freed once DELETE LINK is settled
//! ```
//!
//! Connections move only when the queue pair is drained: until then its writes
//! may still be placed (FAILOVER-004), and after that nothing of it completes.

use super::standing::{Departure, LinkTold, Word};
use super::{Fallback, GroupState, Link, QpGoal, Role, Standing};
use crate::connection::FatalCause;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::stats::count;
use crate::wire::types::DeleteLinkReason;

impl Engine<'_> {
    /// A link does not work any more. `close` and `fallback` say what becomes of
    /// the group's connections if no other link is left.
    //= FAILOVER-002
    //= FAILOVER-003
    //= FAILOVER-024
    //= LLC-054
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
            Standing::Offered => self.abandon_addition(group, self.addition(group).is_shared()),
            Standing::Adding if added => {
                // The peer has it, unless this side has not answered yet.
                let told = self.addition(group).is_told();
                self.abandon_addition(group, told);
            }
            // The first link, before it is confirmed.
            Standing::Adding => self.end_group(group, close, fallback),
            Standing::Leaving(_) => self.close_link(link),
            Standing::Active if self.is_last_link(group, link) => {
                self.end_group(group, close, fallback);
            }
            Standing::Active => self.depart(link, reason, false),
        }
    }

    /// What a link carried that is of no use any more starts again on another one.
    //= LLC-080
    //= LLCSER-010
    pub(crate) fn restart_carried(&mut self, group: u32, link: u32) {
        let addition = self.addition(group);
        if addition.carrier == link && !addition.is_idle() {
            self.abandon_addition(group, addition.is_told());
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
        // One that was about to be retired, while nobody else knows, stays.
        let reprieved = self
            .select_links(group, |l| {
                l.is_usable()
                    && l.standing
                        .departure()
                        .is_some_and(|d| d.orderly && d.word == Word::Due)
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

    /// A link is not wanted any more though it works.
    //= LINK-046
    //= LINK-047
    pub(crate) fn retire_link(&mut self, link: u32, reason: DeleteLinkReason) {
        let Some(group) = self.links.at(link).map(|l| l.group) else {
            return;
        };
        self.depart(link, reason, true);
        // The server tells of it once nothing of its own is under way; a client
        // only asks.
        //= LLC-052
        if self
            .groups
            .at(group)
            .is_some_and(|g| g.role == Role::Server)
        {
            self.quiet_link(link);
        }
        self.start_departures(group);
        self.start_flow(group);
    }

    /// No new data on a link that is about to be deleted in order; for what is
    /// under way there is time enough.
    pub(crate) fn quiet_link(&mut self, link: u32) {
        if let Some(l) = self.links.at_mut(link)
            && let Standing::Leaving(departure) = &mut l.standing
        {
            departure.quieting = true;
        }
        let wait = self.core.config.timeouts.llc_reply;
        // A client's answer must be there before the server stops waiting.
        self.set_departure_deadline(link, wait.checked_div(2));
    }

    /// Takes a link out of use; DELETE LINK is due.
    pub(crate) fn depart(&mut self, link: u32, reason: DeleteLinkReason, orderly: bool) {
        let Some(l) = self.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        l.standing = Standing::Leaving(Departure {
            reason,
            orderly,
            quieting: !orderly,
            word: Word::Due,
            deadline: None,
        });
        self.arm_link(link);
        if let Some(g) = self.groups.at_mut(group) {
            g.lost_links = true;
        }
        self.review_symmetry(group);
        if !orderly {
            self.close_link(link);
        }
    }

    /// Takes the queue pair down; its connections move once it is drained.
    //= FAILOVER-004
    pub(crate) fn close_link(&mut self, link: u32) {
        if let Some(l) = self.links.at_mut(link) {
            let group = l.group;
            let first = l.goal != QpGoal::Gone;
            l.goal = QpGoal::Gone;
            l.replies.clear();
            l.request = None;
            l.free_flowing = super::link::FreeFlowing::empty();
            let mut owed = None;
            if let Standing::Leaving(departure) = &mut l.standing {
                departure.orderly = false;
                departure.quieting = true;
                if let Word::Owed { carrier } = departure.word {
                    owed = Some(carrier);
                }
            }
            // Nothing of it completes any more.
            if let Some(carrier) = owed {
                self.answer_when_quiet(link, carrier);
            }
            self.arm_link(link);
            self.drop_absent_link(link);
            self.poke_link(link);
            if first {
                self.restart_carried(group, link);
            }
        }
    }

    /// Something on a link completed. One that leaves in order is talked of when
    /// no data is under way on it, and closes when both sides agreed and nothing
    /// is.
    //= LLC-049
    pub(crate) fn close_if_quiet(&mut self, link: u32) {
        if let Some(l) = self.links.at(link)
            && let Some(departure) = l.standing.departure()
            && departure.orderly
            && departure.quieting
            && l.is_free_of_data()
        {
            match departure.word {
                Word::Due => self.start_flow(l.group),
                Word::Owed { carrier } => self.answer_when_quiet(link, carrier),
                _ => {}
            }
        }
        let quiet = self.links.at(link).is_some_and(|l| {
            l.is_quiet()
                && l.goal != QpGoal::Gone
                && l.standing
                    .departure()
                    .is_some_and(|d| d.orderly && d.word == Word::Settled)
        });
        if quiet {
            self.close_link(link);
        }
    }

    /// Both sides agree that a link is gone.
    pub(crate) fn settle_departure(&mut self, link: u32) {
        let Some(l) = self.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        // For one that never came up the pause after a failure holds (LINK-049);
        // one that an operator deleted is not to come back at once.
        //= LINK-049
        let mut missed = l.told != LinkTold::Nothing;
        if let Standing::Leaving(departure) = &mut l.standing {
            departure.word = Word::Settled;
            missed &= departure.reason != DeleteLinkReason::OPERATOR;
        }
        // If it does not become quiet in time it is cut off.
        let wait = self.core.config.timeouts.llc_reply;
        let orderly = self
            .links
            .at(link)
            .and_then(|l| l.standing.departure())
            .is_some_and(|d| d.orderly);
        self.set_departure_deadline(link, orderly.then_some(wait));
        self.close_if_quiet(link);
        self.drop_absent_link(link);
        self.settle_formation(group);
        if missed {
            self.want_redundancy(group);
        }
    }

    /// Nothing of a link is under way any more: its connections go on over
    /// another link, or end.
    //= FAILOVER-002
    //= FAILOVER-021
    //= FAILOVER-025
    //= LLC-050
    pub(crate) fn move_connections(&mut self, link: u32) {
        let Some(group) = self.links.at(link).map(|l| l.group) else {
            return;
        };
        let Some(members) = self.groups.at(group).map(|g| g.members) else {
            return;
        };
        let mut next = members.first();
        while let Some(conn) = next {
            self.step();
            next = members.next(&mut self.connections, conn);
            let Some(record) = self.connections.at(conn).filter(|r| r.link == link) else {
                continue;
            };
            match record.phase {
                Phase::Active | Phase::Ended if record.connection.is_some() => {
                    self.move_connection(conn, group, link);
                }
                _ => {
                    let target = self.link_for_connection(group, NONE, NONE);
                    self.assign_link(conn, target);
                    self.wake(conn);
                }
            }
        }
    }

    fn move_connection(&mut self, conn: u32, group: u32, from: u32) {
        let Some((remote, send_buffer)) =
            self.connections.at(conn).map(|r| (r.remote, r.send_buffer))
        else {
            return;
        };
        let target = self.link_for_connection(group, remote.rmb, send_buffer);
        let old = self.links.at(from).map_or(0, |l| l.position);
        let new = self.links.at(target).map_or(0, |l| l.position);
        self.assign_link(conn, target);
        if target == NONE {
            self.with_connection(conn, |connection, now, config| {
                connection.on_link_changed(now, &config.connection);
                connection.on_fatal(now, &config.connection, FatalCause::LinkLost);
            });
            self.release(conn);
            return;
        }
        if let Some(rmb) = self.remote_rmbs.at(remote.rmb)
            && let (Some(before), Some(after)) = (rmb.rtoken(old), rmb.rtoken(new))
            && let Some(record) = self.connections.at_mut(conn)
        {
            let offset = remote.address.wrapping_sub(before.address);
            record.remote.rkey = after.rkey;
            record.remote.address = after.address.wrapping_add(offset);
        }
        count(&mut self.core.statistics.failovers);
        self.with_connection(conn, |connection, now, config| {
            connection.on_link_changed(now, &config.connection);
        });
        self.release(conn);
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
                && matches!(departure.word, Word::Given { carrier, .. } if carrier == link)
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

    /// Notes the end of a link for the application and frees its slot when
    /// nothing needs it any more.
    pub(crate) fn drop_absent_link(&mut self, link: u32) {
        let Some(l) = self.links.at(link) else {
            return;
        };
        let gone = l.state == super::QpState::Absent
            && l.goal == QpGoal::Gone
            && l.under_way.is_none()
            && !l.is_unsettled();
        if !gone {
            return;
        }
        self.leave_links(link);
        match self.links.at(link).map(|l| l.told) {
            Some(LinkTold::Up) => self.core.link_events.push_back(&mut self.links, link),
            Some(LinkTold::Nothing) => {
                self.links.remove(link);
            }
            // `LinkUp` first; then `LinkDown` follows.
            _ => {}
        }
    }

    /// Takes a link out of its group, and its RTokens with it.
    fn leave_links(&mut self, link: u32) {
        self.unhash_link(link);
        let Some(l) = self.links.at(link) else { return };
        let (group, position, device) = (l.group, l.position, usize::from(l.path.device.0));
        if let Some(device) = self.core.devices.get_mut(device) {
            device.links.remove(&mut self.links, link);
        }
        self.links.set_deadline(link, None);
        let member = self
            .groups
            .at_mut(group)
            .and_then(|g| g.links.get_mut(usize::from(position)))
            .filter(|slot| **slot == link);
        if let Some(slot) = member {
            *slot = NONE;
            self.forget_link_of_rmbs(group, position);
        }
        self.try_free_group(group);
    }

    fn forget_link_of_rmbs(&mut self, group: u32, position: u8) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        let (own, remote) = (g.buffers, g.remote_rmbs);
        let mut next = own.first();
        while let Some(index) = next {
            self.step();
            next = own.next(&mut self.buffers, index);
            if let Some(buffer) = self.buffers.at_mut(index) {
                buffer.forget_registration(position);
            }
        }
        let mut next = remote.first();
        while let Some(index) = next {
            self.step();
            next = remote.next(&mut self.remote_rmbs, index);
            let Some(rmb) = self.remote_rmbs.at_mut(index) else {
                continue;
            };
            rmb.forget_link(position);
            // Nobody can write to it, and nobody could name it to delete it.
            if rmb.links().is_empty() && rmb.elements().is_empty() {
                self.remove_remote_rmb(group, index);
            }
        }
    }

    /// Whether a group is past its first link.
    pub(crate) fn takes_exchanges(&self, group: u32) -> bool {
        self.groups.at(group).is_some_and(|g| {
            g.is_active() || g.state == GroupState::Forming(super::Formation::AddingSecond)
        })
    }
}

impl Link {
    /// Whether the peers have still to agree that it is gone.
    pub(crate) const fn is_unsettled(&self) -> bool {
        match self.standing {
            Standing::Leaving(departure) => !matches!(departure.word, Word::Settled),
            _ => false,
        }
    }
}
