//! The server: confirms the first link, offers a second one.

use crate::id::{GroupIdx, LinkIdx};
use crate::link_group::Groups;
use crate::wire::llc::ConfirmLink;
use crate::wire::types::DiagnosisCode;

use super::super::super::Fallback;
use super::Formation;

impl Groups<'_> {
    /// The Confirm is there: bring the queue pair up, then confirm the link.
    //= RENDEZVOUS-020
    pub(crate) fn start_confirm_link(&mut self, group: GroupIdx) {
        let timeouts = self.data.core.config.timeouts;
        //= V2-181
        let not_before = self.now().after(timeouts.confirm_link_delay);
        self.set_formation(
            group,
            Formation::Connecting { not_before },
            Some(timeouts.control_command),
        );
        self.on_formation_progress(group);
    }

    /// A link of a group that is being formed reached a new state.
    pub(crate) fn on_formation_progress(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        let first = g.first_link();
        let usable = self
            .link(first)
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
            _ => {}
        }
    }

    //= RENDEZVOUS-021
    //= RENDEZVOUS-023
    //= LLC-013
    //= LLC-014
    fn send_confirm_link(&mut self, group: GroupIdx, link: LinkIdx) {
        let number = self.next_link_number(group);
        if let Some(l) = self.data.links.at_mut(link) {
            l.number = number;
        }
        self.set_formation(group, Formation::AwaitingConfirmLinkReply, None);
        if let Some(message) = self.confirm_link(link, false) {
            self.request(link, &message);
        }
    }

    //= LLC-015
    //= LLC-016
    pub(crate) fn on_confirm_link_reply(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        reply: &ConfirmLink,
    ) {
        if self.addition(group).link == link {
            self.on_added_confirm_link_reply(group, link, reply);
            return;
        }
        if self.formation(group) != Some(Formation::AwaitingConfirmLinkReply) {
            // An answer that comes after its time is dropped (AMB-38).
            return;
        }
        if !self.names_link(link, reply) {
            self.fail_formation(group, Fallback::Decline(DiagnosisCode::INTERNAL));
            return;
        }
        self.confirm_group(group, reply);
        self.keep_peer_user_id(link, reply);
        self.activate_link(link);
        self.confirm_founders_rmb(group);
        self.try_second_link(group);
    }

    /// Offers a second link, if there is anything to offer.
    //= RENDEZVOUS-026
    fn try_second_link(&mut self, group: GroupIdx) {
        self.set_formation(group, Formation::AddingSecond, None);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.add_schedule.due = true;
        }
        self.start_flow(group);
        self.conclude_formation(group);
    }
}
