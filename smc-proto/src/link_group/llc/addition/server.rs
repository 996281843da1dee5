//! The server's part: offer, bind, confirm.

use super::message::other_end;
use super::{AddLinkSchedule, AddingStage, Addition};
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::link_group::{LinkState, QpGoal, Role};
use crate::wire::llc::{AddLink, ConfirmLink, Entries, LlcMessage, RequestAddLink};
use crate::wire::types::Mac;

impl Groups<'_> {
    /// Tries to add a link if one is wanted and there is a port for it. Without a
    /// port to spare the port of the only link is offered again, which a client
    /// with two RNICs takes (RENDEZVOUS-027).
    //= RENDEZVOUS-027
    //= LINK-022
    //= LINK-024
    //= LINK-037
    //= LINK-040
    pub(in super::super) fn start_addition(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        g.add_schedule = AddLinkSchedule {
            due: false,
            retry: None,
            yielded: 0,
            hinted: false,
            ..g.add_schedule
        };
        if g.role == Role::Client || !g.addition.is_idle() || !self.has_room_for_link(group) {
            return;
        }
        let via_link = self.link_for_llc(group, Idx::NONE);
        let only = self.select_links(group, |link| link.is_active()).count() < 2;
        //= LINK-005
        let path = self
            .spare_port(group, None)
            .or_else(|| self.link(via_link).filter(|_| only).map(|link| link.path));
        let Some(path) = path else { return };
        let number = self.next_link_number(group);
        let Some(link) = self.new_link(group, path) else {
            self.schedule_retry(group);
            return;
        };
        let before = self.data.link_before(link);
        if let Some(l) = self.data.links.at_mut(link) {
            l.number = number;
            l.link_state = LinkState::Offered;
        }
        self.data.trace_link_changes(link, before);
        let deadline = Some(
            self.now()
                .after(self.data.core.config.timeouts.control_command),
        );
        self.set_addition(
            group,
            Addition {
                stage: AddingStage::Creating,
                link,
                via_link,
                deadline,
                ..Addition::IDLE
            },
        );
        self.data.schedule_link(link);
    }

    //= LLC-019
    //= LINK-026
    //= LINK-039
    pub(super) fn send_add_link(&mut self, group: GroupIdx) {
        let addition = self.addition(group);
        let Some(message) = self.own_end(addition.link, false) else {
            return;
        };
        let stage = AddingStage::AwaitingReply;
        if self.is_v2(group) {
            self.set_addition(group, Addition { stage, ..addition });
            self.await_posting(group);
            self.send_large(group, false);
        } else {
            self.request_for_addition(
                group,
                stage,
                addition.via_link,
                &LlcMessage::AddLink(message),
            );
        }
        // The rendezvous passed its point of no return (CLC-060).
        //= CLC-060
        if let Some(g) = self.data.groups.at_mut(group) {
            g.decline = None;
        }
    }

    //= LLC-026
    //= LLC-028
    //= LLC-029
    //= LLC-031
    //= V2-185
    pub(in super::super) fn on_add_link_reply(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        reply: &AddLink<'_>,
    ) {
        let addition = self.addition(group);
        let number = self.link(addition.link).map(|l| l.number);
        if addition.stage != AddingStage::AwaitingReply
            || link != addition.via_link
            || number != Some(reply.link)
        {
            // Comes after its time, or answers nothing (AMB-38).
            return;
        }
        if reply.rejection.is_some() {
            //= RENDEZVOUS-031
            //= LLC-027
            //= LINK-048
            self.abandon_addition(group, false);
            // With nothing else to offer, asking again is pointless until a port
            // comes up, here or, as its ADD LINK would say, at the client.
            if self.spare_port(group, None).is_none()
                && let Some(g) = self.data.groups.at_mut(group)
            {
                g.add_schedule.retry = None;
                self.arm_group(group);
            }
            return;
        }
        let Some(path) = self.link(addition.link).map(|l| l.path) else {
            return;
        };
        let (gid, mac) = (reply.gid, reply.mac);
        let asymmetric = self.is_asymmetric(group, &path, gid, mac);
        if self.is_parallel(group, &path, Some((gid, mac)))
            || !self.has_room_for(group, asymmetric)
            || reply.mtu.octets().is_none()
        {
            self.abandon_addition(group, true);
            return;
        }
        let before = self.data.link_before(addition.link);
        //= RENDEZVOUS-029
        if let Some(l) = self.data.links.at_mut(addition.link) {
            l.bind(other_end(reply), reply.mtu);
            l.asymmetric = asymmetric;
            l.link_state = LinkState::Adding;
            l.goal = QpGoal::Rts;
        }
        self.data.trace_link_changes(addition.link, before);
        self.hash_link(addition.link);
        if let Some(extension) = &reply.extension {
            self.learn_pairs(group, extension.rtokens.iter());
        }
        let wait = self.data.core.config.timeouts.control_command;
        self.set_adding_stage(group, AddingStage::Registering, wait);
        self.data.schedule_link(addition.link);
        self.schedule_group_buffers(group);
        self.on_addition_progress(group);
    }

    /// The client asks for a link. It is blocked until it is answered: by the offer, or
    /// by an answer that there will be none now.
    //= V2-188
    pub(in super::super) fn on_request_add_link(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        request: &RequestAddLink<'_>,
    ) {
        if !self.is_server(group) {
            return;
        }
        if let Some(gid) = request.gids.iter().next() {
            self.on_add_link_hint(group, (gid, Mac::default()));
        }
        let addition = self.addition(group);
        match addition.stage {
            AddingStage::Creating => self.set_addition(
                group,
                Addition {
                    asked_on: link,
                    ..addition
                },
            ),
            AddingStage::AwaitingReply => {}
            _ => self.refuse_link(link),
        }
    }

    /// There will be no link for the client now.
    pub(super) fn refuse_link(&mut self, link: LinkIdx) {
        let answer = LlcMessage::RequestAddLink(RequestAddLink {
            reply: true,
            rejected: true,
            gids: Entries::default(),
        });
        self.reply(link, &answer);
    }

    /// All RMBs are announced: the new link itself is tested.
    //= LLC-018
    //= LLC-013
    pub(super) fn send_added_confirm_link(&mut self, group: GroupIdx) {
        let link = self.addition(group).link;
        let Some(message) = self.confirm_link(link, false) else {
            return;
        };
        let stage = AddingStage::AwaitingConfirmLinkReply;
        self.request_for_addition(group, stage, link, &message);
    }

    /// The reply on the new link. Limits and eye catchers were decided with the
    /// first link (LINK-017).
    //= LINK-017
    //= LLC-009
    //= LLC-016
    pub(in super::super) fn on_added_confirm_link_reply(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        reply: &ConfirmLink,
    ) {
        if self.addition(group).stage != AddingStage::AwaitingConfirmLinkReply {
            return;
        }
        if self.names_link(link, reply) {
            self.keep_peer_user_id(link, reply);
            self.finish_addition(group);
        } else {
            //= LLC-077
            self.abandon_addition(group, true);
        }
    }
}
