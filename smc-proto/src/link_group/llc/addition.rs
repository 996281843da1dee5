//! A further link: ADD LINK, its CONTINUATIONs, then CONFIRM LINK on the new link.
//!
//! ```text
//!  server                                             client
//!    Creating (queue pair INIT)
//!    AwaitingReply ──────────── ADD LINK ────────────►  Joining (RTR, RMBs registered)
//!    Registering (RTS, RMBs)  ◄─ reply or rejection ──  AwaitingContinuation
//!    AwaitingContinuationReply ─ CONTINUATION ───────►
//!                             ◄────────── reply ──────  …, then AwaitingConfirmLink
//!    AwaitingConfirmLinkReply ─ CONFIRM LINK (new) ──►  Activating (RTS)
//!    active                   ◄────────── reply ──────  active
//! ```
//!
//! Until the reply to ADD LINK the server's link is an offer that costs a queue
//! pair; a link that fails later is deleted like any other.

mod client;
mod continuation;
mod server;

use core::hash::{Hash, Hasher};

use super::super::standing::{LinkTold, Word};
use super::super::{Fallback, GroupState, Link, QpGoal, Role, Standing};
use super::Formation;
use crate::config::OnSilence;
use crate::engine::Engine;
use crate::fingerprint::until;
use crate::id::NONE;
use crate::time::{Duration, Instant};
use crate::wire::types::{AddLinkRejectReason, DeleteLinkReason};

/// The further link that is being added to a group, if one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addition {
    pub(crate) stage: AddingStage,
    /// The new link.
    pub(crate) link: u32,
    /// The link that carries everything but CONFIRM LINK (LLC-033).
    pub(crate) carrier: u32,
    /// Own RMB to tell of next.
    pub(crate) next_rmb: u32,
    /// Own RMBs still to tell of.
    pub(crate) left: u8,
    /// RMBs the peer has still to tell of, once it said so.
    pub(crate) peer_left: Option<u8>,
    /// CONTINUATIONs received.
    pub(crate) rounds: u8,
    /// The client asked for the end of the link before it was complete.
    pub(crate) unwanted: bool,
    pub(crate) deadline: Option<Instant>,
}

/// How far an addition is; see the figure of the module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum AddingStage {
    Idle,
    Creating,
    AwaitingReply,
    Registering,
    AwaitingContinuationReply,
    AwaitingConfirmLinkReply,
    Joining,
    AwaitingContinuation,
    AwaitingConfirmLink,
    Activating,
}

/// Whether and when a further link is to be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddWish {
    /// At the next opportunity.
    pub(crate) due: bool,
    /// Not before this time.
    pub(crate) retry: Option<Instant>,
    /// Attempts that failed since something changed.
    pub(crate) failures: u8,
    /// Until then a link that was added and is lost again counts as one of them.
    pub(crate) probation: Option<Instant>,
}

impl AddWish {
    pub(crate) const NONE: Self = Self {
        due: false,
        retry: None,
        failures: 0,
        probation: None,
    };

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.due, until(self.retry, now), self.failures).hash(hasher);
        until(self.probation, now).hash(hasher);
    }
}

impl Addition {
    pub(crate) const IDLE: Self = Self {
        stage: AddingStage::Idle,
        link: NONE,
        carrier: NONE,
        next_rmb: NONE,
        left: 0,
        peer_left: None,
        rounds: 0,
        unwanted: false,
        deadline: None,
    };

    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.stage, AddingStage::Idle)
    }

    /// Whether the peer knows of it: RMBs must not change meanwhile (LLCSER-004).
    pub(crate) const fn is_shared(&self) -> bool {
        !matches!(self.stage, AddingStage::Idle | AddingStage::Creating)
    }

    /// Whether the peer counts on the new link: as client once this side's reply
    /// is decided, as server once the client's is there.
    pub(crate) const fn is_told(&self) -> bool {
        !matches!(
            self.stage,
            AddingStage::Idle | AddingStage::Creating | AddingStage::Joining
        )
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.stage, self.link, self.carrier, self.next_rmb).hash(hasher);
        (self.left, self.peer_left, self.rounds, self.unwanted).hash(hasher);
        until(self.deadline, now).hash(hasher);
    }
}

impl Engine<'_> {
    pub(crate) fn addition(&self, group: u32) -> Addition {
        self.groups.at(group).map_or(Addition::IDLE, |g| g.addition)
    }

    pub(super) fn set_addition(&mut self, group: u32, addition: Addition) {
        if let Some(g) = self.groups.at_mut(group) {
            g.addition = addition;
        }
        self.arm_group(group);
    }

    fn set_adding_stage(&mut self, group: u32, stage: AddingStage, wait: Duration) {
        let deadline = Some(self.now().after(wait));
        let addition = self.addition(group);
        self.set_addition(
            group,
            Addition {
                stage,
                deadline,
                ..addition
            },
        );
    }

    /// A queue pair or a buffer of a group changed: the addition may go on.
    pub(crate) fn on_addition_progress(&mut self, group: u32) {
        let addition = self.addition(group);
        let Some(link) = self.links.at(addition.link) else {
            return;
        };
        let (state, usable) = (link.state, link.is_usable());
        let position = link.position;
        match addition.stage {
            AddingStage::Creating if state >= super::super::QpState::Init => {
                self.send_add_link(group);
            }
            AddingStage::Registering if usable && self.all_registered(group, position) => {
                self.start_continuations(group);
            }
            AddingStage::Joining
                if state >= super::super::QpState::Rtr && self.all_registered(group, position) =>
            {
                self.accept_add_link(group);
            }
            AddingStage::Activating if usable => self.answer_added_confirm_link(group),
            _ => {}
        }
    }

    /// Whether every buffer of a group can be used on a link.
    fn all_registered(&mut self, group: u32, position: u8) -> bool {
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return false;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            if self
                .buffers
                .at(index)
                .is_some_and(|b| !b.retired && !b.registered().contains(position))
            {
                return false;
            }
        }
        true
    }

    /// The new link is confirmed: connections may use it.
    fn finish_addition(&mut self, group: u32) {
        let Addition {
            link: added,
            unwanted,
            ..
        } = self.addition(group);
        self.set_addition(group, Addition::IDLE);
        let probation = self.now().after(self.core.config.timeouts.add_link_retry);
        if let Some(g) = self.groups.at_mut(group) {
            g.add_wish = AddWish {
                failures: g.add_wish.failures,
                probation: Some(probation),
                ..AddWish::NONE
            };
        }
        self.activate_link(added);
        let server = self
            .groups
            .at(group)
            .is_some_and(|g| g.role == Role::Server);
        if server {
            self.retire_asymmetric_link(group);
            // There may be ports for still more links; a client that shares its
            // only port tells when it has another one.
            let shared = self.links.at(added).is_some_and(|l| l.asymmetric);
            if !shared
                && self.has_room_for_link(group)
                && self.spare_port(group, None).is_some()
                && let Some(g) = self.groups.at_mut(group)
            {
                g.add_wish.due = true;
            }
        } else {
            self.hint_spare_port(group);
        }
        self.announce_missing_links(group);
        //= LLCSER-009
        if unwanted {
            self.retire_link(added, DeleteLinkReason::LOST_PATH);
        }
        self.settle_formation(group);
        self.start_flow(group);
    }

    /// A link carries connections from now on.
    pub(crate) fn activate_link(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else {
            return;
        };
        link.standing = Standing::Active;
        let group = link.group;
        self.arm_keepalive(index);
        if self.groups.at(group).is_some_and(|g| g.is_active()) {
            self.tell_links(group);
        }
    }

    /// Lets the application know of active links; of those a group was formed
    /// with, only once it is.
    pub(super) fn tell_links(&mut self, group: u32) {
        for index in self.links_of(group) {
            if let Some(link) = self.links.at_mut(index)
                && link.is_active()
                && link.told == LinkTold::Nothing
            {
                link.told = LinkTold::Rising;
                self.core.link_events.push_back(&mut self.links, index);
            }
        }
    }

    /// With two symmetric links the asymmetric one is not needed any more.
    //= LINK-009
    //= LINK-010
    fn retire_asymmetric_link(&mut self, group: u32) {
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
            self.retire_link(index, DeleteLinkReason::ASYMMETRIC_NOT_NEEDED);
        }
    }

    /// The new link comes to nothing. `told`: the peer counts on it and must be
    /// told by DELETE LINK.
    //= LLC-027
    //= LINK-048
    //= LINK-049
    //= TIMER-012
    //= TIMER-018
    //= TIMER-019
    pub(crate) fn abandon_addition(&mut self, group: u32, told: bool) {
        let addition = self.addition(group);
        if addition.is_idle() {
            return;
        }
        // A client that has not answered yet still owes the answer.
        if addition.stage == AddingStage::Joining {
            self.reject_add_link(group, AddLinkRejectReason::NO_ALTERNATE_PATH);
        }
        let link = addition.link;
        self.set_addition(group, Addition::IDLE);
        if let Some(l) = self.links.at_mut(link) {
            l.request = None;
            l.goal = QpGoal::Gone;
            let word = if told { Word::Due } else { Word::Settled };
            l.standing = Standing::failed(DeleteLinkReason::LOST_PATH, word);
        }
        // A client has no request of its own in this, but perhaps of another exchange.
        let server = self
            .groups
            .at(group)
            .is_some_and(|g| g.role == Role::Server);
        if server && let Some(l) = self.links.at_mut(addition.carrier) {
            l.request = None;
        }
        self.schedule_retry(group);
        self.drop_absent_link(link);
        self.poke_link(link);
        self.review_buffers(group);
        self.start_departures(group);
        self.settle_formation(group);
        self.start_flow(group);
    }

    /// Tries again after a pause that grows with each failure.
    pub(crate) fn schedule_retry(&mut self, group: u32) {
        let now = self.now();
        let timeouts = self.core.config.timeouts;
        let wanted = self.has_room_for_link(group);
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        // A port that came up during the attempt ends the pause at once.
        //= LINK-050
        if g.add_wish.due {
            return;
        }
        let doublings = u32::from(g.add_wish.failures.min(16));
        let pause = timeouts
            .add_link_retry
            .saturating_mul(1_u32.wrapping_shl(doublings))
            .min(timeouts.add_link_retry_most);
        g.add_wish.failures = g.add_wish.failures.saturating_add(1);
        g.add_wish.retry = wanted.then(|| now.after(pause));
        self.arm_group(group);
    }

    /// A group that lost a link looks for another one (LINK-042): at once, unless
    /// links are lost as fast as they are added (reliability H17).
    pub(crate) fn want_redundancy(&mut self, group: u32) {
        let now = self.now();
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if !g.is_active() {
            return;
        }
        let wish = &mut g.add_wish;
        if wish.probation.is_none_or(|until| until <= now) {
            wish.failures = 0;
        } else if wish.failures > 0 {
            self.schedule_retry(group);
            return;
        } else {
            wish.failures = 1;
        }
        self.try_for_link(group);
    }

    /// A further link is worth a try now.
    pub(crate) fn try_for_link(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        g.add_wish.retry = None;
        match g.role {
            Role::Server => {
                g.add_wish.due = true;
                self.arm_group(group);
                self.start_flow(group);
            }
            Role::Client => {
                self.arm_group(group);
                self.hint_spare_port(group);
            }
        }
    }

    /// The pause is over.
    pub(super) fn on_retry(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        g.add_wish.retry = None;
        match g.role {
            Role::Server => {
                g.add_wish.due = true;
                self.start_flow(group);
            }
            Role::Client => {
                self.hint_spare_port(group);
                if self.spare_port(group, None).is_some() {
                    self.schedule_retry(group);
                }
            }
        }
    }

    /// A wait of the addition is over (RFC 7609 C.7.1).
    //= TIMER-011
    //= TIMER-015
    //= TIMER-016
    //= TIMER-017
    //= TIMER-020
    //= TIMER-021
    //= TIMER-022
    pub(super) fn on_addition_timeout(&mut self, group: u32) {
        let addition = self.addition(group);
        let forming = self
            .groups
            .at(group)
            .is_some_and(|g| matches!(g.state, GroupState::Forming(_)));
        if forming
            && self.core.config.add_link_timeout == OnSilence::Reset
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
            // DELETE LINK tells whether only the new link is concerned: if it
            // is not answered either, its carrier has failed.
            _ => self.abandon_addition(group, true),
        }
    }

    /// The first contact is over once no addition and no deletion is under way.
    pub(crate) fn settle_formation(&mut self, group: u32) {
        let settled = self.groups.at(group).is_some_and(|g| {
            g.state == GroupState::Forming(Formation::AddingSecond) && g.addition.is_idle()
        }) && self
            .select_links(group, Link::is_unsettled)
            .next()
            .is_none();
        if settled {
            self.group_formed(group);
        }
    }
}
