//! The server: confirms the first link, offers a second one.

use crate::engine::Engine;
use crate::id::NONE;
use crate::wire::llc::{AddLink, ConfirmLink, DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::{DeleteLinkReason, DiagnosisCode, LinkNumber};

use super::{FIRST_LINK, Formation, SECOND_LINK};

impl Engine<'_> {
    /// The Confirm is there: bring the queue pair up, then confirm the link.
    //= RENDEZVOUS-020
    pub(crate) fn start_confirm_link(&mut self, group: u32) {
        let timeouts = self.core.config.timeouts;
        let not_before = self.now().after(timeouts.confirm_link_delay);
        self.set_formation(
            group,
            Formation::Connecting { not_before },
            Some(timeouts.control_command),
        );
        self.on_formation_progress(group);
    }

    /// A link of a group that is being formed reached a new state.
    pub(crate) fn on_formation_progress(&mut self, group: u32) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        let (first, second) = (g.link, g.second_link);
        let usable = self
            .links
            .at(first)
            .is_some_and(super::super::super::Link::is_usable);
        let now = self.now();
        match self.formation(group) {
            Some(Formation::Connecting { not_before }) if usable => {
                if not_before <= now {
                    self.send_confirm_link(group, first);
                } else {
                    self.set_formation(
                        group,
                        Formation::Connecting { not_before },
                        Some(not_before.since(now)),
                    );
                }
            }
            Some(Formation::Activating) if usable => self.answer_confirm_link(group, first),
            Some(Formation::CreatingSecond) => {
                let created = self
                    .links
                    .at(second)
                    .is_some_and(|l| l.state >= super::super::super::QpState::Init);
                if created {
                    self.send_add_link(group, first, second);
                }
            }
            _ => {}
        }
    }

    //= RENDEZVOUS-021
    //= RENDEZVOUS-023
    //= LLC-013
    //= LLC-014
    fn send_confirm_link(&mut self, group: u32, link: u32) {
        if let Some(l) = self.links.at_mut(link) {
            l.number = FIRST_LINK;
        }
        self.set_formation(group, Formation::AwaitingConfirmLinkReply, None);
        if let Some(message) = self.confirm_link(link, false) {
            self.request(link, &message);
        }
    }

    //= LLC-015
    //= LLC-016
    pub(crate) fn on_confirm_link_reply(&mut self, link: u32, group: u32, reply: &ConfirmLink) {
        if self.formation(group) != Some(Formation::AwaitingConfirmLinkReply) {
            // An answer that comes after its time is dropped (AMB-38).
            return;
        }
        if !self.names_peer(link, reply)
            || self.links.at(link).map(|l| l.number) != Some(reply.link)
        {
            self.fail_formation(group, Some(DiagnosisCode::INTERNAL));
            return;
        }
        self.settle_group(group, reply);
        self.try_second_link(group);
    }

    /// Offers a second link. With one RNIC it is the same one again, which a
    /// client with one RNIC rejects (RENDEZVOUS-027).
    //= RENDEZVOUS-026
    //= RENDEZVOUS-027
    fn try_second_link(&mut self, group: u32) {
        let first = self.groups.at(group).map_or(NONE, |g| g.link);
        let Some(path) = self.links.at(first).map(|l| l.path) else {
            return;
        };
        let Some(second) = self.new_link(group, 1, path) else {
            self.group_formed(group);
            return;
        };
        if let Some(l) = self.links.at_mut(second) {
            l.number = SECOND_LINK;
        }
        if let Some(g) = self.groups.at_mut(group) {
            g.second_link = second;
        }
        let wait = self.core.config.timeouts.control_command;
        self.set_formation(group, Formation::CreatingSecond, Some(wait));
        self.poke_link(second);
    }

    //= LLC-019
    fn send_add_link(&mut self, group: u32, first: u32, second: u32) {
        let Some(l) = self.links.at(second) else {
            return;
        };
        let message = LlcMessage::AddLink(AddLink {
            reply: false,
            rejection: None,
            mac: l.path.mac,
            gid: l.path.gid,
            qpn: l.qpn,
            link: l.number,
            mtu: l.path.mtu,
            psn: l.psn,
        });
        self.set_formation(group, Formation::AwaitingAddLinkReply, None);
        self.request(first, &message);
        // The rendezvous passed its point of no return (CLC-060).
        //= CLC-060
        if let Some(g) = self.groups.at_mut(group) {
            g.decline = None;
        }
    }

    pub(crate) fn on_add_link_reply(&mut self, link: u32, group: u32, reply: &AddLink) {
        if self.formation(group) != Some(Formation::AwaitingAddLinkReply)
            || reply.link != SECOND_LINK
        {
            return;
        }
        if reply.rejection.is_some() {
            //= RENDEZVOUS-031
            //= LLC-027
            //= LINK-048
            self.group_formed(group);
            return;
        }
        // The client has another RNIC and took the offer. One link is all this
        // group gets: the second is undone, and data waits for that (RENDEZVOUS-030).
        //= RENDEZVOUS-029
        //= RENDEZVOUS-030
        let message = LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ORDERLY,
            link: SECOND_LINK,
            reason: DeleteLinkReason::LOST_PATH,
        });
        self.set_formation(group, Formation::DeletingSecond, None);
        self.request(link, &message);
    }

    /// The queue pair to offer could not be had: the group stays with one link.
    pub(crate) fn on_second_link_refused(&mut self, group: u32) {
        if self.formation(group) == Some(Formation::CreatingSecond) {
            self.group_formed(group);
        }
    }

    pub(crate) fn on_second_link_deleted(&mut self, group: u32, link: LinkNumber) {
        if self.formation(group) == Some(Formation::DeletingSecond) && link == SECOND_LINK {
            self.group_formed(group);
        }
    }
}
