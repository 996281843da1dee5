//! LLC: the conversation of a group's two ends about its links and buffers.
//!
//! A peer runs at most one configuration exchange of its own at a time
//! (LLCSER-002): [`Formation`] until the first link is confirmed, then [`Flow`] or,
//! as server, an [`Addition`]. A client takes part in an addition beside its own
//! flow, which the server refuses meanwhile. What the peer starts is answered at
//! once. Replies wait in a short queue per link; a peer that fills it loses the
//! link.

mod addition;
mod delete_link;
mod departures;
mod formation;
mod rkeys;

pub(crate) use addition::{AddWish, Addition};
pub(crate) use formation::Formation;

use super::link::FreeFlowing;
use super::{Fallback, LinkSet, Role, SendKind};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::stats::count;
use crate::wire::llc::{LLC_LENGTH, LlcMessage, LlcParseError};
use crate::wire::types::DeleteLinkReason;

/// The exchange this side runs on a formed group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Flow {
    Idle,
    /// CONFIRM RKEY for this RMB.
    ConfirmRkey {
        buffer: u32,
        attempts: u8,
        carrier: u32,
        /// Links it is announced for.
        links: LinkSet,
        /// Of these, the ones for CONTINUATIONs.
        left: LinkSet,
    },
    /// The peer refused CONFIRM RKEY for now; it is repeated at the deadline.
    RetryConfirmRkey {
        buffer: u32,
        attempts: u8,
    },
    /// DELETE RKEY for this RMB.
    DeleteRkey {
        buffer: u32,
        carrier: u32,
    },
    /// Server: DELETE LINK for this link.
    DeleteLink {
        link: u32,
        carrier: u32,
    },
    /// DELETE LINK of the last link or of all; the group ends with the answer.
    DeleteGroup {
        all: bool,
        carrier: u32,
    },
}

impl Flow {
    /// The link that carries it.
    const fn carrier(self) -> u32 {
        match self {
            Self::Idle | Self::RetryConfirmRkey { .. } => NONE,
            Self::ConfirmRkey { carrier, .. }
            | Self::DeleteRkey { carrier, .. }
            | Self::DeleteLink { carrier, .. }
            | Self::DeleteGroup { carrier, .. } => carrier,
        }
    }

    /// Whether the group ends with it.
    pub(crate) const fn ends_group(self) -> bool {
        matches!(self, Self::DeleteGroup { .. })
    }
}

impl Engine<'_> {
    /// A SEND that is not a CDC message.
    pub(crate) fn on_llc(&mut self, link: u32, octets: &[u8]) {
        let message = match LlcMessage::parse(octets) {
            Ok(message) => message,
            //= LLC-005
            Err(LlcParseError::UnknownOptional { .. }) => return,
            Err(_) => {
                //= LLC-004
                //= LLC-007
                //= LLC-079
                self.violation(link);
                return;
            }
        };
        count(&mut self.core.statistics.llc_received);
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        if self.groups.at(group).is_none_or(|g| g.is_ending()) {
            return;
        }
        // A link that was given up says nothing any more, except that all is over.
        //= LLC-078
        let dead = self
            .links
            .at(link)
            .and_then(|l| l.standing.departure())
            .is_some_and(|departure| !departure.orderly);
        if dead && !message.deletes_all() {
            return;
        }
        match message {
            LlcMessage::ConfirmLink(m) if m.reply => self.on_confirm_link_reply(link, group, &m),
            LlcMessage::ConfirmLink(m) => self.on_confirm_link(link, group, &m),
            LlcMessage::AddLink(m) if m.reply => self.on_add_link_reply(link, group, &m),
            LlcMessage::AddLink(m) => self.on_add_link(link, group, &m),
            LlcMessage::AddLinkContinuation(m) => self.on_continuation(link, group, &m),
            LlcMessage::DeleteLink(m) if m.reply => self.on_delete_link_reply(group, &m),
            LlcMessage::DeleteLink(m) => self.on_delete_link(link, group, &m),
            LlcMessage::ConfirmRkey(m) if m.reply => self.on_confirm_rkey_reply(link, group, &m),
            LlcMessage::ConfirmRkey(m) => self.on_confirm_rkey(link, group, m),
            LlcMessage::ConfirmRkeyContinuation(m) if m.reply => {
                self.on_confirm_rkey_continuation_reply(link, group, &m);
            }
            LlcMessage::ConfirmRkeyContinuation(m) => {
                self.on_confirm_rkey_continuation(link, group, m);
            }
            LlcMessage::TestLink(m) if m.reply => self.on_test_link_reply(link, &m),
            LlcMessage::TestLink(m) => self.on_test_link(link, m),
            LlcMessage::DeleteRkey(m) if m.reply => self.on_delete_rkey_reply(group, &m),
            LlcMessage::DeleteRkey(m) => self.on_delete_rkey(link, group, m),
        }
    }

    /// The peer broke the protocol on a link: the link is down (LLC-079).
    pub(crate) fn violation(&mut self, link: u32) {
        count(&mut self.core.statistics.violations);
        self.fail_link(
            link,
            DeleteLinkReason::PROTOCOL_VIOLATION,
            CloseReason::PeerMisbehaved,
            Fallback::Keep,
        );
    }

    /// A link whose peer does not answer is down (RFC 7609 C.7.1).
    pub(crate) fn lose_link(&mut self, link: u32) {
        self.fail_link(
            link,
            DeleteLinkReason::LOST_PATH,
            CloseReason::LinksLost,
            Fallback::Keep,
        );
    }

    /// Queues a reply on the link its request came on.
    //= LLC-011
    pub(crate) fn reply(&mut self, link: u32, message: &LlcMessage) {
        let queued = self
            .links
            .at_mut(link)
            .is_some_and(|l| l.replies.push(message.emit()).is_some());
        if queued {
            self.poke_link(link);
        } else {
            // More requests than a peer that waits for replies can have out.
            self.violation(link);
        }
    }

    /// Sets the request of the group's exchange.
    pub(crate) fn request(&mut self, link: u32, message: &LlcMessage) {
        let wait = self.now().after(self.core.config.timeouts.send_slot);
        let Some(l) = self.links.at_mut(link) else {
            return;
        };
        l.request = Some(message.emit());
        let group = l.group;
        // Until it is posted; then the wait for the answer begins (TIMER-001).
        self.set_exchange_deadline(group, wait);
        self.poke_link(link);
    }

    /// An addition has its own deadline, because a client's flow may go on beside it.
    fn set_exchange_deadline(&mut self, group: u32, deadline: crate::time::Instant) {
        if let Some(g) = self.groups.at_mut(group) {
            if g.role == Role::Server && !g.addition.is_idle() {
                g.addition.deadline = Some(deadline);
            } else {
                g.flow_deadline = Some(deadline);
            }
        }
        self.arm_group(group);
    }

    /// The next LLC message of a link: replies, then the keepalive, then what a
    /// client may say at any time, then the request.
    pub(crate) fn next_llc(&mut self, link: u32) -> Option<([u8; LLC_LENGTH], SendKind)> {
        let l = self.links.at_mut(link)?;
        if let Some((_, reply)) = l.replies.pop() {
            return Some((reply, SendKind::Llc));
        }
        if let Some(test) = self.next_test_link(link) {
            return Some((test, SendKind::Llc));
        }
        if let Some(message) = self.next_free_flowing(link) {
            return Some((message, SendKind::Llc));
        }
        let request = self.links.at_mut(link)?.request.take()?;
        self.on_request_posted(link);
        Some((request, SendKind::Request))
    }

    //= LLCSER-001
    fn next_free_flowing(&mut self, link: u32) -> Option<[u8; LLC_LENGTH]> {
        let l = self.links.at_mut(link)?;
        let group = l.group;
        if l.free_flowing.contains(FreeFlowing::DELETE_LINK) {
            l.free_flowing.remove(FreeFlowing::DELETE_LINK);
            if let Some(message) = self.next_delete_request(group, link) {
                return Some(message.emit());
            }
        }
        let l = self.links.at_mut(link)?;
        if l.free_flowing.contains(FreeFlowing::ADD_LINK) {
            l.free_flowing.remove(FreeFlowing::ADD_LINK);
            return Some(self.add_link_hint(group)?.emit());
        }
        None
    }

    /// The wait for the answer starts when the request is posted (TIMER-001).
    //= TIMER-001
    fn on_request_posted(&mut self, link: u32) {
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        let now = self.now();
        let timeouts = self.core.config.timeouts;
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        let wait = match g.state {
            _ if g.addition.link == link => timeouts.added_link,
            super::GroupState::Forming(formation) => formation.reply_wait(&timeouts),
            _ => timeouts.llc_reply,
        };
        self.set_exchange_deadline(group, now.after(wait));
    }

    /// The adapter confirmed that the request of the exchange left.
    pub(crate) fn on_request_sent(&mut self, link: u32) {
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        let Some(g) = self.groups.at(group) else {
            return;
        };
        //= LINK-032
        //= LLC-057
        // An older request may complete while DELETE LINK still waits.
        let waits = self.links.at(link).is_none_or(|l| {
            l.request.is_some() || l.in_flight.iter().any(|kind| kind == SendKind::Request)
        });
        if matches!(g.flow, Flow::DeleteGroup { all: true, .. }) && g.role == Role::Server && !waits
        {
            self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
        }
    }

    pub(crate) fn arm_group(&mut self, group: u32) {
        let deadline = self
            .groups
            .at(group)
            .and_then(super::LinkGroup::next_deadline);
        self.groups.set_deadline(group, deadline);
    }

    /// The exchange is over; the next one may start.
    //= LLCSER-021
    pub(crate) fn end_flow(&mut self, group: u32) {
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::Idle;
            g.flow_deadline = None;
        }
        self.arm_group(group);
        self.start_flow(group);
    }

    /// Starts the next exchange that is wanted, if none is running: deletions
    /// first, because connections may hang on them, then a further link, then RMBs.
    //= LLCSER-002
    //= LLCSER-003
    //= LLCSER-004
    //= LLCSER-021
    pub(crate) fn start_flow(&mut self, group: u32) {
        let idle = |g: &super::LinkGroup| g.flow == Flow::Idle && g.addition.is_idle();
        if !self.takes_exchanges(group) || !self.groups.at(group).is_some_and(idle) {
            return;
        }
        if self.start_delete_link(group) {
            return;
        }
        if self.groups.at(group).is_some_and(|g| g.add_wish.due) {
            self.start_addition(group);
        }
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if g.is_active()
            && idle(g)
            && let Some(buffer) = g.agreements.pop_front(&mut self.buffers)
        {
            self.start_rkey_flow(group, buffer);
        }
    }

    /// The exchange that a failed link carried goes back to what waits.
    //= LLC-080
    pub(crate) fn restart_flow(&mut self, group: u32, link: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        let flow = g.flow;
        if flow == Flow::Idle || flow.carrier() != link {
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
            _ => {}
        }
    }

    /// A deadline of the group passed.
    pub(crate) fn on_group_timeout(&mut self, group: u32) {
        let now = self.now();
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if g.idle_deadline.is_some_and(|deadline| deadline <= now) {
            g.idle_deadline = None;
            //= LINK-031
            self.delete_group(group);
        }
        let Some(g) = self.groups.at_mut(group) else {
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
        if self.groups.at(group).is_some_and(|g| due(g.add_wish.retry)) {
            self.on_retry(group);
        }
        self.arm_group(group);
    }

    fn on_flow_timeout(&mut self, group: u32) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        match (g.state, g.flow) {
            (_, Flow::DeleteLink { carrier, .. }) => self.lose_link(carrier),
            (super::GroupState::Forming(formation), _) => {
                self.on_formation_timeout(group, formation);
            }
            (super::GroupState::Active, Flow::RetryConfirmRkey { buffer, attempts }) => {
                self.retry_confirm_rkey(group, buffer, attempts);
            }
            //= TIMER-003
            //= TIMER-024
            //= TIMER-025
            //= TIMER-026
            //= TIMER-027
            //= TIMER-028
            (super::GroupState::Active, flow) if flow != Flow::Idle => {
                self.lose_link(flow.carrier());
            }
            _ => {}
        }
    }
}
