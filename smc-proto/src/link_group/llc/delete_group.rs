//! The end of a group in order: DELETE LINK of all links, or of the last one.

use super::super::link_state::{DeletionProgress, LinkState};
use super::super::{Fallback, GroupState, Role, SendKind};
use super::{Flow, Formation};
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::{DeleteLinkReason, LinkNumber};

impl Groups<'_> {
    /// Ends a group in order: the server sends DELETE LINK, and frees its end once that left and
    /// the client has answered, the client asks the server to (LINK-032, LINK-034).
    //= LINK-034
    //= CLOSE-038
    pub(crate) fn delete_group(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        if let Some(ism_peer) = g.ism_peer() {
            self.end_ism_groups_gracefully(group, ism_peer);
            return;
        }
        if matches!(
            g.flow,
            Flow::DeleteGroup { all: true, .. } | Flow::Farewell { .. }
        ) {
            // It is said already; saying it again would put off the end.
            return;
        }
        let via_link = self.link_for_llc(group, Idx::NONE);
        if !g.is_active() || via_link.is_none() {
            self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            return;
        }
        // First of all, so that nothing else starts when the addition is over.
        self.set_group_flow(
            group,
            Flow::DeleteGroup {
                all: true,
                via_link,
            },
        );
        self.abandon_addition(group, false);
        self.withdraw_group(group);
        let message = LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ALL | DeleteLinkFlags::ORDERLY,
            //= LLC-043
            link: LinkNumber(0),
            reason: DeleteLinkReason::PROGRAM,
        });
        self.request(via_link, &message);
    }

    /// Server: ends a group whose DELETE LINK for all links was sent. The end of a group without
    /// connections waits for the client first, which sends that message, too.
    pub(super) fn finish_group_deletion(&mut self, group: GroupIdx) {
        let wait = self.data.core.config.timeouts.group_farewell;
        let until = self.now().after(wait);
        match self.data.groups.at_mut(group) {
            Some(g) if g.members.is_empty() && !wait.is_zero() => {
                let via_link = g.flow.via_link();
                g.flow = Flow::Farewell { via_link };
                g.flow_deadline = Some(until);
                self.arm_group(group);
            }
            _ => self.end_group(group, CloseReason::LinksLost, Fallback::Keep),
        }
    }

    /// Whether the deletion of a group was posted, and its completion may be late.
    pub(super) fn has_sent_farewell(&self, group: GroupIdx) -> bool {
        let flow = self.data.groups.at(group).map(|g| g.flow);
        let Some(Flow::DeleteGroup {
            all: true,
            via_link,
        }) = flow
        else {
            return false;
        };
        self.link(via_link).is_some_and(|l| l.request.is_none())
    }

    pub(super) fn set_group_flow(&mut self, group: GroupIdx, flow: Flow) {
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = flow;
        }
    }

    pub(super) fn answer_last_delete_link(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        request: &DeleteLink,
    ) {
        if self
            .data
            .groups
            .at(group)
            .is_none_or(|g| matches!(g.flow, Flow::DeleteGroup { all: false, .. }))
        {
            return;
        }
        self.answer_delete_link(link, request, request.reason);
        let deadline = self.now().after(self.data.core.config.timeouts.llc_reply);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = Flow::DeleteGroup {
                all: false,
                via_link: link,
            };
            g.flow_deadline = Some(deadline);
        }
        self.arm_group(group);
    }

    pub(super) fn delete_last_link(
        &mut self,
        group: GroupIdx,
        target: LinkIdx,
        request: &DeleteLink,
    ) {
        if self
            .data
            .groups
            .at(group)
            .is_some_and(|g| matches!(g.state, GroupState::Forming(_)))
        {
            self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            return;
        }
        self.set_group_flow(
            group,
            Flow::DeleteGroup {
                all: false,
                via_link: target,
            },
        );
        // A link that is only being added cannot take its place any more.
        self.abandon_addition(group, false);
        self.withdraw_group(group);
        let own = LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            ..*request
        });
        self.request(target, &own);
    }

    /// An LLC message that is not the exchange's request left; a client that
    /// answered the deletion of its last link may now free it (LLC-049).
    //= LLC-049
    pub(crate) fn on_llc_sent(&mut self, group: GroupIdx, link: LinkIdx) {
        self.close_if_drained(link);
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        // The answer to CONFIRM LINK left: no way back to TCP (CLC-059).
        //= CLC-059
        if matches!(
            g.state,
            GroupState::Forming(Formation::AwaitingAddLink | Formation::AddingSecond)
        ) && g.role == Role::Client
        {
            //= CLC-062
            g.decline = None;
        }
        let Flow::DeleteGroup {
            all: false,
            via_link,
        } = g.flow
        else {
            return;
        };
        let answered = g.role == Role::Client;
        let pending = self.link(via_link).is_some_and(|l| {
            !l.replies.is_empty() || l.in_flight.iter().any(|kind| kind == SendKind::Llc)
        });
        if answered && !pending {
            self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
        }
    }

    /// Ends all talk about the links of a group that ends.
    pub(crate) fn conclude_all(&mut self, group: GroupIdx) {
        for index in self.links_of(group) {
            if let Some(l) = self.data.links.at_mut(index) {
                l.link_state =
                    LinkState::failed(DeleteLinkReason::PROGRAM, DeletionProgress::Agreed);
                self.arm_link(index);
            }
        }
    }
}
