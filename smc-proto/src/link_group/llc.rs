//! LLC: the conversation of a group's two ends about its links and buffers.
//!
//! A peer runs at most one configuration exchange of its own at a time
//! (LLCSER-002): while the group is formed that is [`Formation`], later it is
//! [`Flow`]. What the peer starts is answered at once. Replies wait in a short
//! queue per link; a peer that fills it loses the link.

mod delete_link;
mod formation;
mod rkeys;

pub(crate) use formation::Formation;

use super::SendKind;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::stats::count;
use crate::wire::llc::{LLC_LENGTH, LlcMessage, LlcParseError};

/// The exchange this side runs on a formed group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Flow {
    Idle,
    /// CONFIRM RKEY for this RMB.
    ConfirmRkey {
        buffer: u32,
        attempts: u8,
    },
    /// The peer refused CONFIRM RKEY for now; it is repeated at the deadline.
    RetryConfirmRkey {
        buffer: u32,
        attempts: u8,
    },
    /// DELETE RKEY for this RMB.
    DeleteRkey {
        buffer: u32,
    },
    /// DELETE LINK of the last link or of all; the group ends with the answer.
    DeleteGroup {
        all: bool,
    },
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
        match message {
            LlcMessage::ConfirmLink(m) if m.reply => self.on_confirm_link_reply(link, group, &m),
            LlcMessage::ConfirmLink(m) => self.on_confirm_link(link, group, &m),
            LlcMessage::AddLink(m) if m.reply => self.on_add_link_reply(link, group, &m),
            LlcMessage::AddLink(m) => self.on_add_link(link, group, &m),
            // Only a second link in the making has continuations; none is here.
            LlcMessage::AddLinkContinuation(m) if m.reply => {}
            LlcMessage::AddLinkContinuation(_) => self.violation(link),
            LlcMessage::DeleteLink(m) if m.reply => self.on_delete_link_reply(group, &m),
            LlcMessage::DeleteLink(m) => self.on_delete_link(link, group, &m),
            LlcMessage::ConfirmRkey(m) if m.reply => self.on_confirm_rkey_reply(group, &m),
            LlcMessage::ConfirmRkey(m) => self.on_confirm_rkey(link, group, m),
            LlcMessage::ConfirmRkeyContinuation(m) if m.reply => {}
            LlcMessage::ConfirmRkeyContinuation(m) => self.on_confirm_rkey_continuation(link, m),
            LlcMessage::TestLink(m) if m.reply => self.on_test_link_reply(link, &m),
            LlcMessage::TestLink(m) => self.on_test_link(link, m),
            LlcMessage::DeleteRkey(m) if m.reply => self.on_delete_rkey_reply(group, &m),
            LlcMessage::DeleteRkey(m) => self.on_delete_rkey(link, group, m),
        }
    }

    /// The peer broke the protocol on a link: the link is down (LLC-079).
    pub(crate) fn violation(&mut self, link: u32) {
        count(&mut self.core.statistics.violations);
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        self.end_group(group, CloseReason::PeerMisbehaved, None);
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
        if let Some(g) = self.groups.at_mut(group) {
            g.flow_deadline = Some(wait);
        }
        self.arm_group(group);
        self.poke_link(link);
    }

    /// The next LLC message of a link: replies, then the keepalive, then the request.
    pub(crate) fn next_llc(&mut self, link: u32) -> Option<([u8; LLC_LENGTH], SendKind)> {
        let l = self.links.at_mut(link)?;
        if let Some((_, reply)) = l.replies.pop() {
            return Some((reply, SendKind::Llc));
        }
        if let Some(test) = self.next_test_link(link) {
            return Some((test, SendKind::Llc));
        }
        let request = self.links.at_mut(link)?.request.take()?;
        self.on_request_posted(link);
        Some((request, SendKind::Request))
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
            super::GroupState::Forming(formation) => formation.reply_wait(&timeouts),
            _ => timeouts.llc_reply,
        };
        g.flow_deadline = Some(now.after(wait));
        self.arm_group(group);
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
        if g.flow == (Flow::DeleteGroup { all: true }) && g.role == super::Role::Server && !waits {
            self.end_group(group, CloseReason::LinksLost, None);
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

    /// Starts the next exchange that is wanted, if none is running.
    //= LLCSER-003
    pub(crate) fn start_flow(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if !g.is_active() || g.flow != Flow::Idle {
            return;
        }
        if let Some(buffer) = g.agreements.pop_front(&mut self.buffers) {
            self.start_rkey_flow(group, buffer);
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
        self.arm_group(group);
    }

    fn on_flow_timeout(&mut self, group: u32) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        match (g.state, g.flow) {
            (super::GroupState::Forming(formation), _) => {
                self.on_formation_timeout(group, formation);
            }
            (super::GroupState::Active, Flow::RetryConfirmRkey { buffer, attempts }) => {
                self.send_confirm_rkey(group, buffer, attempts);
            }
            //= TIMER-003
            //= TIMER-024
            //= TIMER-025
            //= TIMER-026
            //= TIMER-027
            //= TIMER-028
            (super::GroupState::Active, flow) if flow != Flow::Idle => {
                self.end_group(group, CloseReason::LinksLost, None);
            }
            _ => {}
        }
    }
}
