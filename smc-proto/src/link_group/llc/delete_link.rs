//! DELETE LINK. A group of one link ends with it.

use super::super::{GroupState, Role};
use super::SendKind;
use super::{Flow, Formation};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::{DeleteLinkReason, LinkNumber};

impl Engine<'_> {
    /// Ends a group in order: the server says so and frees its end once that
    /// left, the client asks the server to (LINK-032, LINK-034).
    //= LINK-034
    pub(crate) fn delete_group(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        let link = g.link;
        if !g.is_active() {
            self.end_group(group, CloseReason::LinksLost, None);
            return;
        }
        if g.flow == (Flow::DeleteGroup { all: true }) {
            // It is said already; saying it again would put off the end.
            return;
        }
        g.flow = Flow::DeleteGroup { all: true };
        self.withdraw_group(group);
        let message = LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ALL | DeleteLinkFlags::ORDERLY,
            //= LLC-043
            link: LinkNumber(0),
            reason: DeleteLinkReason::PROGRAM,
        });
        self.request(link, &message);
    }

    pub(super) fn on_delete_link(&mut self, link: u32, group: u32, request: &DeleteLink) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        let all = request.flags.contains(DeleteLinkFlags::ALL);
        // The client asks for what is under way: its request crossed ours, or it
        // repeats itself, which must not put off the end (reliability H17).
        //= LLCSER-020
        if g.role == Role::Server && matches!(g.flow, Flow::DeleteGroup { .. }) {
            return;
        }
        let number = self.links.at(link).map(|l| l.number);
        let second = self.links.at(g.second_link).map(|l| l.number);
        match (g.role, all) {
            // That one is being cleaned up already.
            //= LLC-056
            (Role::Server, false) if second == Some(request.link) => {}
            //= LINK-033
            //= LLC-057
            //= LLCSER-011
            (Role::Client, true) => self.end_group(group, CloseReason::LinksLost, None),
            //= LINK-035
            (Role::Server, true) => self.delete_group(group),
            (_, false) if number != Some(request.link) => {
                //= LLC-055
                //= LLC-056
                self.answer_delete_link(link, request, DeleteLinkReason::UNKNOWN_LINK);
            }
            // The last link: its end is the end of the group (AMB-42).
            (Role::Client, false) if !g.is_active() => {
                self.end_group(group, CloseReason::LinksLost, None);
            }
            (Role::Client, false) if g.flow == (Flow::DeleteGroup { all: false }) => {}
            (Role::Client, false) => {
                //= LLC-047
                //= LLC-048
                self.answer_delete_link(link, request, request.reason);
                if let Some(g) = self.groups.at_mut(group) {
                    g.flow = Flow::DeleteGroup { all: false };
                }
                let wait = self.core.config.timeouts.llc_reply;
                let deadline = self.now().after(wait);
                if let Some(g) = self.groups.at_mut(group) {
                    g.flow_deadline = Some(deadline);
                }
                self.arm_group(group);
            }
            (Role::Server, false) => {
                //= LLC-051
                //= LLC-052
                //= LLC-053
                if matches!(g.state, GroupState::Forming(_)) {
                    self.end_group(group, CloseReason::LinksLost, None);
                    return;
                }
                if let Some(g) = self.groups.at_mut(group) {
                    g.flow = Flow::DeleteGroup { all: false };
                }
                self.withdraw_group(group);
                let own = LlcMessage::DeleteLink(DeleteLink {
                    reply: false,
                    ..*request
                });
                self.request(link, &own);
            }
        }
    }

    fn answer_delete_link(&mut self, link: u32, request: &DeleteLink, reason: DeleteLinkReason) {
        let reply = LlcMessage::DeleteLink(DeleteLink {
            reply: true,
            flags: request.flags,
            link: request.link,
            reason,
        });
        self.reply(link, &reply);
    }

    /// An LLC message that is not the exchange's request left; a client that
    /// answered the deletion of its last link may now free it (LLC-049).
    //= LLC-049
    pub(crate) fn on_llc_sent(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        // The answer to CONFIRM LINK left: no way back to TCP (CLC-059).
        //= CLC-059
        if g.state == GroupState::Forming(Formation::AwaitingAddLink) {
            g.decline = None;
        }
        let answered = g.role == Role::Client && g.flow == Flow::DeleteGroup { all: false };
        let pending = self.links.at(g.link).is_some_and(|l| {
            !l.replies.is_empty() || l.in_flight.iter().any(|kind| kind == SendKind::Llc)
        });
        if answered && !pending {
            self.end_group(group, CloseReason::LinksLost, None);
        }
    }

    pub(super) fn on_delete_link_reply(&mut self, group: u32, reply: &DeleteLink) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        match (g.state, g.flow) {
            (GroupState::Forming(_), _) => self.on_second_link_deleted(group, reply.link),
            //= LLC-046
            (_, Flow::DeleteGroup { .. }) => {
                self.end_group(group, CloseReason::LinksLost, None);
            }
            _ => {}
        }
    }
}
