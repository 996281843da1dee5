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
//! In version 2 there are no CONTINUATIONs: ADD LINK announces all RMBs, which are
//! registered on the new link before it is sent, and follows CONFIRM LINK at once.
//!
//! Until the reply to ADD LINK the server's link is an offer that costs a queue
//! pair; a link that fails later is deleted like any other.

mod client;
mod continuation;
mod ending;
mod message;
mod schedule;
mod server;

pub(crate) use schedule::AddLinkSchedule;

use core::hash::{Hash, Hasher};

use crate::fingerprint::until;
use crate::id::{BufferIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::time::{Duration, Instant};
use crate::wire::llc::LlcMessage;

/// The further link that is being added to a group, if one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addition {
    pub(crate) stage: AddingStage,
    /// The new link.
    pub(crate) link: LinkIdx,
    /// The link that carries everything but CONFIRM LINK (LLC-033).
    pub(crate) via_link: LinkIdx,
    /// Own RMB to announce next.
    pub(crate) next_rmb: BufferIdx,
    /// Own RMBs still to be announced.
    pub(crate) left: u8,
    /// RMBs the peer still has to announce, once it gave their number.
    pub(crate) peer_left: Option<u8>,
    /// CONTINUATIONs received.
    pub(crate) rounds: u8,
    /// Server: the link that brought REQUEST ADD LINK, which waits for an answer.
    pub(crate) asked_on: LinkIdx,
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

impl Addition {
    pub(crate) const IDLE: Self = Self {
        stage: AddingStage::Idle,
        link: Idx::NONE,
        via_link: Idx::NONE,
        next_rmb: Idx::NONE,
        left: 0,
        peer_left: None,
        rounds: 0,
        asked_on: Idx::NONE,
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

    /// Whether the peer may count on the new link: as client once this side's reply
    /// is decided, as server once ADD LINK is out.
    pub(crate) const fn is_announced(&self) -> bool {
        !matches!(
            self.stage,
            AddingStage::Idle | AddingStage::Creating | AddingStage::Joining
        )
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.stage, self.link, self.via_link, self.next_rmb).hash(hasher);
        (self.left, self.peer_left, self.rounds, self.unwanted).hash(hasher);
        self.asked_on.hash(hasher);
        until(self.deadline, now).hash(hasher);
    }
}

impl Groups<'_> {
    pub(crate) fn addition(&self, group: GroupIdx) -> Addition {
        self.data
            .groups
            .at(group)
            .map_or(Addition::IDLE, |g| g.addition)
    }

    pub(super) fn set_addition(&mut self, group: GroupIdx, addition: Addition) {
        if let Some(g) = self.data.groups.at_mut(group) {
            g.addition = addition;
        }
        self.arm_group(group);
    }

    /// The next stage, which has this time.
    fn set_adding_stage(&mut self, group: GroupIdx, stage: AddingStage, wait: Duration) {
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

    /// The next stage of the server, which sends a request on this link.
    fn request_for_addition(
        &mut self,
        group: GroupIdx,
        stage: AddingStage,
        link: LinkIdx,
        message: &LlcMessage<'_>,
    ) {
        let addition = self.addition(group);
        self.set_addition(group, Addition { stage, ..addition });
        self.request(link, message);
    }

    /// A queue pair or a buffer of a group changed: the addition may go on.
    pub(crate) fn on_addition_progress(&mut self, group: GroupIdx) {
        let addition = self.addition(group);
        let Some(link) = self.link(addition.link) else {
            return;
        };
        let (state, usable) = (link.state, link.is_usable());
        let position = link.position;
        match addition.stage {
            AddingStage::Creating
                if state >= super::super::QpState::Init
                    && (!self.is_v2(group) || self.all_registered(group, position)) =>
            {
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

    /// Whether LLC of a group has the form of version 2.
    pub(crate) fn is_v2(&self, group: GroupIdx) -> bool {
        self.data.groups.at(group).is_some_and(|g| g.terms.is_v2())
    }

    /// Whether every buffer of a group can be used on a link.
    fn all_registered(&mut self, group: GroupIdx, position: u8) -> bool {
        let Some(list) = self.data.groups.at(group).map(|g| g.buffers) else {
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
}
