//! LLC: the conversation of a group's two ends about its links and buffers.
//!
//! A peer runs at most one configuration exchange of its own at a time
//! (LLCSER-002): [`Formation`] until the first link is confirmed, then [`Flow`] or,
//! as server, an [`Addition`]. A client takes part in an addition beside its own
//! flow, which the server refuses meanwhile. What the peer starts is answered at
//! once. Replies wait in a short queue per link; a peer that fills it loses the
//! link.

mod addition;
mod delete_group;
mod delete_link;
mod flow;
mod form;
mod formation;
mod large;
mod overdue;
mod removal;
mod rkeys;

pub(crate) use addition::{AddLinkSchedule, Addition};
pub(crate) use flow::Flow;
pub(crate) use formation::Formation;

use super::link::FreeFlowing;
use super::{Fallback, Role, SendKind};
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::stats::count;
use crate::trace::{self, TraceEvent};
use crate::wire::llc::{LLC_LENGTH, LlcMessage};
use crate::wire::types::DeleteLinkReason;

impl Groups<'_> {
    /// A SEND that is not a CDC message.
    pub(crate) fn on_llc(&mut self, link: LinkIdx, bytes: &[u8]) {
        let group = self.link(link).map_or(Idx::NONE, |l| l.group);
        let is_v2 = self.data.groups.at(group).is_some_and(|g| g.terms.is_v2());
        let (message, form) = match form::read(bytes, is_v2) {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.trace_link(link, || ignored(bytes));
                return;
            }
            Err(_) => {
                self.trace_link(link, || TraceEvent::LlcMalformed {
                    message: bytes.first().copied().unwrap_or(0),
                    length: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
                });
                //= LLC-079
                self.violation(link);
                return;
            }
        };
        count(&mut self.data.core.statistics.llc_received);
        self.trace_link(link, || trace::llc_received(bytes));
        if self.data.groups.at(group).is_none_or(|g| g.is_ending()) {
            self.trace_link(link, || ignored(bytes));
            return;
        }
        // A link that was given up says nothing any more, except that all is over.
        //= LLC-078
        let dead = self
            .link(link)
            .and_then(|l| l.link_state.removal())
            .is_some_and(|removal| !removal.graceful);
        if dead && !message.deletes_all() {
            self.trace_link(link, || ignored(bytes));
            return;
        }
        match message {
            LlcMessage::ConfirmLink(m) if m.reply => self.on_confirm_link_reply(group, link, &m),
            LlcMessage::ConfirmLink(m) => self.on_confirm_link(group, link, &m),
            LlcMessage::AddLink(m) if m.reply => self.on_add_link_reply(group, link, &m),
            LlcMessage::AddLink(m) => self.on_add_link(group, link, &m),
            LlcMessage::AddLinkContinuation(m) => self.on_continuation(group, link, &m),
            LlcMessage::DeleteLink(m) if m.reply => self.on_delete_link_reply(group, &m),
            LlcMessage::DeleteLink(m) => self.on_delete_link(group, link, &m),
            LlcMessage::RequestAddLink(m) if m.reply => {}
            LlcMessage::RequestAddLink(m) => self.on_request_add_link(group, link, &m),
            LlcMessage::ConfirmRkey(m) if m.reply => self.on_confirm_rkey_reply(group, link, &m),
            LlcMessage::ConfirmRkey(m) => self.on_confirm_rkey(group, link, m),
            LlcMessage::ConfirmRkeyContinuation(m) if m.reply => {
                self.on_confirm_rkey_continuation_reply(group, link, &m);
            }
            LlcMessage::ConfirmRkeyContinuation(m) => {
                self.on_confirm_rkey_continuation(group, link, m);
            }
            LlcMessage::TestLink(m) if m.reply => self.on_test_link_reply(link, &m),
            LlcMessage::TestLink(m) => self.on_test_link(link, m),
            LlcMessage::DeleteRkey(m) if m.reply => self.on_delete_rkey_reply(group, &m, form),
            LlcMessage::DeleteRkey(m) => self.on_delete_rkey(group, link, &m, form),
        }
    }

    /// The peer broke the protocol on a link: the link is down (LLC-079).
    pub(crate) fn violation(&mut self, link: LinkIdx) {
        count(&mut self.data.core.statistics.violations);
        self.trace_link(link, || TraceEvent::Violation);
        self.fail_link(
            link,
            DeleteLinkReason::PROTOCOL_VIOLATION,
            CloseReason::PeerMisbehaved,
            Fallback::Keep,
        );
    }

    /// A link whose peer does not answer is down (RFC 7609 C.7.1).
    pub(crate) fn lose_link(&mut self, link: LinkIdx) {
        self.fail_link(
            link,
            DeleteLinkReason::LOST_PATH,
            CloseReason::LinksLost,
            Fallback::Keep,
        );
    }

    /// Queues a reply on the link its request came on.
    //= LLC-011
    pub(crate) fn reply(&mut self, link: LinkIdx, message: &LlcMessage<'_>) {
        let Some(bytes) = self.encode(link, message) else {
            return;
        };
        let queued = self
            .data
            .links
            .at_mut(link)
            .is_some_and(|l| l.replies.push(bytes).is_some());
        if queued {
            self.data.schedule_link(link);
        } else {
            // More requests than a peer that waits for replies can have out.
            self.violation(link);
        }
    }

    /// Sets the request of the group's exchange.
    pub(crate) fn request(&mut self, link: LinkIdx, message: &LlcMessage<'_>) {
        let Some(bytes) = self.encode(link, message) else {
            return;
        };
        let Some(l) = self.data.links.at_mut(link) else {
            return;
        };
        l.request = Some(bytes);
        let group = l.group;
        self.await_posting(group);
        self.data.schedule_link(link);
    }

    /// A request has some time to be posted; then the wait for the answer begins
    /// (TIMER-001).
    fn await_posting(&mut self, group: GroupIdx) {
        let wait = self.now().after(self.data.core.config.timeouts.send_slot);
        self.set_exchange_deadline(group, wait);
    }

    /// The next LLC message of a link: replies, then the keepalive, then what a
    /// client may say at any time, then the request.
    pub(crate) fn next_llc(&mut self, link: LinkIdx) -> Option<([u8; LLC_LENGTH], SendKind)> {
        let l = self.data.links.at_mut(link)?;
        if let Some((_, reply)) = l.replies.pop() {
            return Some((reply, SendKind::Llc));
        }
        if let Some(test) = self.next_test_link(link) {
            return Some((test, SendKind::Llc));
        }
        if let Some(message) = self.next_free_flowing(link) {
            return Some((message, SendKind::Llc));
        }
        let request = self.data.links.at_mut(link)?.request.take()?;
        self.on_request_posted(link);
        Some((request, SendKind::Request))
    }

    //= LLCSER-001
    fn next_free_flowing(&mut self, link: LinkIdx) -> Option<[u8; LLC_LENGTH]> {
        let l = self.data.links.at_mut(link)?;
        let group = l.group;
        if l.free_flowing.contains(FreeFlowing::DELETE_LINK) {
            l.free_flowing.remove(FreeFlowing::DELETE_LINK);
            if let Some(message) = self.next_delete_request(group, link) {
                return self.encode(link, &message);
            }
        }
        let l = self.data.links.at_mut(link)?;
        if l.free_flowing.contains(FreeFlowing::ADD_LINK) {
            l.free_flowing.remove(FreeFlowing::ADD_LINK);
            return self.add_link_hint(group, link);
        }
        None
    }

    /// The wait for the answer starts when the request is posted (TIMER-001).
    //= TIMER-001
    fn on_request_posted(&mut self, link: LinkIdx) {
        let group = self.link(link).map_or(Idx::NONE, |l| l.group);
        let now = self.now();
        let timeouts = self.data.core.config.timeouts;
        let Some(g) = self.data.groups.at_mut(group) else {
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
    pub(crate) fn on_request_sent(&mut self, link: LinkIdx) {
        let group = self.link(link).map_or(Idx::NONE, |l| l.group);
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        //= LINK-032
        //= LLC-057
        // An older request may complete while DELETE LINK still waits.
        let waits = self.link(link).is_none_or(|l| {
            l.request.is_some() || l.in_flight.iter().any(|kind| kind == SendKind::Request)
        });
        match g.flow {
            Flow::DeleteGroup { all: true, .. } if g.role == Role::Server && !waits => {
                self.finish_group_deletion(group);
            }
            // The client has answered already.
            Flow::Farewell { .. } if !waits => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            _ => {}
        }
    }
}

/// The event of a message that has no effect.
fn ignored(bytes: &[u8]) -> TraceEvent {
    let message = bytes.first().copied().unwrap_or(0);
    TraceEvent::LlcIgnored { message }
}
