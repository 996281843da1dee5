//! DELETE LINK as it arrives.

use super::super::link_state::{DeletionProgress, LinkState};
use super::super::{Fallback, GroupState, Role};
use super::Flow;
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::DeleteLinkReason;

impl Groups<'_> {
    pub(super) fn on_delete_link(&mut self, group: GroupIdx, link: LinkIdx, request: &DeleteLink) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        let all = request.flags.contains(DeleteLinkFlags::ALL);
        match (g.role, all) {
            // The client's last message.
            (Role::Server, _) if matches!(g.flow, Flow::Farewell { .. }) => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            // Its answer is here before the completion of what it answers.
            (Role::Server, true) if self.has_sent_farewell(group) => {
                let via_link = g.flow.via_link();
                self.set_group_flow(group, Flow::Farewell { via_link });
            }
            // The client asks for what is in flight: its request crossed ours, or
            // it repeats itself, which must not put off the end (reliability H17).
            //= LLCSER-020
            (Role::Server, _) if g.flow.ends_group() => {}
            //= LINK-033
            //= LLC-057
            //= LLCSER-011
            (Role::Client, true) => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            //= LINK-035
            //= V2-193
            (Role::Server, true) => self.delete_group(group),
            (Role::Client, false) => self.on_server_delete_link(group, link, request),
            (Role::Server, false) => self.on_client_delete_link(group, link, request),
        }
    }

    /// The server deletes a link. The client cannot refuse (LLC-047).
    //= LLC-047
    //= LLC-048
    //= LLC-055
    //= LLC-078
    //= LLCSER-019
    fn on_server_delete_link(&mut self, group: GroupIdx, link: LinkIdx, request: &DeleteLink) {
        let addition = self.addition(group);
        let added = self.link(addition.link).map(|l| l.number);
        if added == Some(request.link) {
            // The server gave up on the link it was adding.
            self.answer_delete_link(link, request, DeleteLinkReason::LOST_PATH);
            self.abandon_addition(group, false);
            return;
        }
        let target = self.link_by_number(group, request.link);
        let Some(link_state) = self.link(target).map(|l| l.link_state) else {
            let first = self
                .data
                .groups
                .at(group)
                .map_or(Idx::NONE, |g| g.first_link());
            if self.link(first).is_some_and(|l| l.number == request.link)
                && matches!(
                    self.data.groups.at(group).map(|g| g.state),
                    Some(GroupState::Forming(_))
                )
            {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
                return;
            }
            self.answer_delete_link(link, request, DeleteLinkReason::UNKNOWN_LINK);
            return;
        };
        let last = self.link_for_llc(group, target).is_none();
        match link_state {
            LinkState::Leaving(removal) if removal.graceful => {
                self.leave_gracefully(link, target, request);
            }
            LinkState::Leaving(_) => {
                self.answer_delete_link(link, request, request.reason);
                self.complete_removal(target);
            }
            // The last link: its end is the end of the group (AMB-42).
            _ if last && self.data.groups.at(group).is_some_and(|g| !g.is_active()) => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            _ if last => self.answer_last_delete_link(group, link, request),
            _ => {
                // The reply may be on the very link, which therefore works.
                self.begin_removal(target, request.reason, true);
                self.leave_gracefully(link, target, request);
            }
        }
    }

    /// The client answers when its data on the link is completed, so that the
    /// server, which closes the link on the answer, cuts nothing off.
    //= LLC-047
    //= LLC-048
    fn leave_gracefully(&mut self, link: LinkIdx, target: LinkIdx, request: &DeleteLink) {
        if !request.flags.contains(DeleteLinkFlags::ORDERLY) {
            self.answer_delete_link(link, request, request.reason);
            self.complete_removal(target);
            if target != link {
                self.close_link(target);
            }
            return;
        }
        if let Some(l) = self.data.links.at_mut(target)
            && let LinkState::Leaving(removal) = &mut l.link_state
        {
            removal.reason = request.reason;
            removal.progress = DeletionProgress::ReplyDue { via_link: link };
        }
        self.drain_link(target);
        self.close_if_drained(target);
    }

    /// Client: sends the reply to the server's DELETE LINK for `target`, on the link that brought
    /// it, and removes `target`.
    pub(crate) fn reply_when_drained(&mut self, target: LinkIdx, via_link: LinkIdx) {
        let Some(l) = self.link(target) else {
            return;
        };
        let (number, removal) = (l.number, l.link_state.removal());
        let reply = LlcMessage::DeleteLink(DeleteLink {
            reply: true,
            flags: DeleteLinkFlags::ORDERLY,
            link: number,
            reason: removal.map_or(DeleteLinkReason::PROGRAM, |d| d.reason),
        });
        self.reply(via_link, &reply);
        self.complete_removal(target);
    }

    /// The client asks for the end of a link.
    //= LLC-051
    //= LLC-052
    //= LLC-053
    //= LLC-056
    //= LLCSER-009
    //= LLCSER-014
    //= LLCSER-018
    //= LLCSER-020
    fn on_client_delete_link(&mut self, group: GroupIdx, link: LinkIdx, request: &DeleteLink) {
        let addition = self.addition(group);
        if self
            .link(addition.link)
            .is_some_and(|l| l.number == request.link)
        {
            // A link that failed for the client does not get any further: that is
            // the end of the exchange.
            if !request.flags.contains(DeleteLinkFlags::ORDERLY) {
                self.lose_addition(group);
                return;
            }
            // Else its own exchange ends first (LLCSER-009).
            self.set_addition(
                group,
                super::Addition {
                    unwanted: true,
                    ..addition
                },
            );
            return;
        }
        let target = self.link_by_number(group, request.link);
        let Some(link_state) = self.link(target).map(|l| l.link_state) else {
            let first = self
                .data
                .groups
                .at(group)
                .map_or(Idx::NONE, |g| g.first_link());
            if self.link(first).is_some_and(|l| l.number == request.link) {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
                return;
            }
            //= LLC-055
            //= LLC-056
            self.answer_delete_link(link, request, DeleteLinkReason::UNKNOWN_LINK);
            return;
        };
        if let LinkState::Leaving(removal) = link_state {
            // Being cleaned up already; but it does not work any more.
            //= LLC-053
            if removal.graceful && !request.flags.contains(DeleteLinkFlags::ORDERLY) {
                self.close_link(target);
            }
            return;
        }
        if self.link_for_llc(group, target).is_none() {
            self.delete_last_link(group, target, request);
            return;
        }
        //= LLC-053
        if request.flags.contains(DeleteLinkFlags::ORDERLY) {
            self.retire_link(target, request.reason);
        } else {
            self.begin_removal(target, request.reason, false);
        }
    }

    pub(super) fn answer_delete_link(
        &mut self,
        link: LinkIdx,
        request: &DeleteLink,
        reason: DeleteLinkReason,
    ) {
        let reply = LlcMessage::DeleteLink(DeleteLink {
            reply: true,
            flags: request.flags,
            link: request.link,
            reason,
        });
        self.reply(link, &reply);
    }

    pub(super) fn on_delete_link_reply(&mut self, group: GroupIdx, reply: &DeleteLink) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        match g.flow {
            //= LLC-046
            Flow::DeleteGroup { .. } | Flow::Farewell { .. } => {
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
            //= LLC-046
            Flow::DeleteLink { link, .. }
                if self
                    .data
                    .links
                    .at(link)
                    .is_some_and(|l| l.number == reply.link) =>
            {
                self.conclude_deletion(group, link);
            }
            _ if g.role == Role::Client => self.on_unknown_link(group, reply),
            _ => {}
        }
    }

    /// The server answers a request itself only if it has no such link any more.
    //= LLC-056
    fn on_unknown_link(&mut self, group: GroupIdx, reply: &DeleteLink) {
        let link = self.link_by_number(group, reply.link);
        let removal = self.link(link).and_then(|l| l.link_state.removal());
        if removal.is_some_and(|d| d.progress.is_requested()) {
            self.drain_link(link);
            self.conclude_deletion(group, link);
        }
    }

    /// The application wants a link gone: the server deletes it, the client asks
    /// for that.
    pub(crate) fn delete_link(&mut self, link: LinkIdx) {
        let Some(l) = self.link(link) else {
            return;
        };
        let group = l.group;
        if !l.is_active() || self.data.groups.at(group).is_none_or(|g| !g.is_active()) {
            return;
        }
        if self.link_for_llc(group, link).is_none() {
            self.delete_group(group);
        } else {
            //= FAILOVER-022
            self.retire_link(link, DeleteLinkReason::OPERATOR);
        }
    }
}
