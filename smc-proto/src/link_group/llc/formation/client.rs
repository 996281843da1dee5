//! The client: answers CONFIRM LINK, then waits for ADD LINK.

use super::super::super::{Fallback, QpGoal, Role};
use crate::id::{ConnIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::wire::llc::ConfirmLink;
use crate::wire::types::DiagnosisCode;

use super::Formation;

impl Groups<'_> {
    /// The Confirm left: CONFIRM LINK must come.
    //= RENDEZVOUS-017
    pub(crate) fn await_confirm_link(&mut self, conn: ConnIdx) {
        let group = self.conn(conn).map_or(Idx::NONE, |record| record.group);
        let timeouts = self.data.core.config.timeouts;
        let wait = timeouts
            .confirm_link_request
            .saturating_add(timeouts.decline);
        //= V2-182
        self.set_formation(group, Formation::AwaitingConfirmLink, Some(wait));
    }

    //= RENDEZVOUS-022
    //= LLC-017
    pub(crate) fn on_confirm_link(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        request: &ConfirmLink,
    ) {
        if self
            .data
            .groups
            .at(group)
            .is_none_or(|g| g.role == Role::Server)
        {
            //= LLC-014
            self.violation(link);
            return;
        }
        if self.addition(group).link == link {
            self.on_added_confirm_link(group, link, request);
            return;
        }
        match self.formation(group) {
            Some(Formation::AwaitingConfirmLink) => {}
            // The same request again changes nothing (reliability D5).
            Some(Formation::Activating | Formation::AwaitingAddLink | Formation::AddingSecond)
            | None
                if self.names_peer(link, request) =>
            {
                return;
            }
            _ => {
                self.violation(link);
                return;
            }
        }
        //= LLC-077
        let limits = self
            .data
            .groups
            .at(group)
            .is_some_and(|g| g.terms.release.has_limits());
        let few = request.max_links < 2 && !limits;
        if !self.names_peer(link, request) || request.link.0 == 0 || few {
            self.fail_formation(group, Fallback::Decline(DiagnosisCode::INTERNAL));
            return;
        }
        self.confirm_group(group, request);
        self.keep_peer_user_id(link, request);
        if let Some(l) = self.data.links.at_mut(link) {
            //= LINK-025
            //= LINK-026
            l.number = request.link;
            l.goal = QpGoal::Rts;
        }
        let wait = self.data.core.config.timeouts.control_command;
        self.set_formation(group, Formation::Activating, Some(wait));
        self.data.schedule_link(link);
    }

    //= RENDEZVOUS-022
    //= RENDEZVOUS-024
    pub(crate) fn answer_confirm_link(&mut self, group: GroupIdx, link: LinkIdx) {
        // With a limit of one link there is nothing to wait for.
        //= V2-183
        let alone = self.data.groups.at(group).is_some_and(|g| g.max_links < 2);
        if alone {
            self.set_formation(group, Formation::AddingSecond, None);
        } else {
            let wait = self.data.core.config.timeouts.add_link_request;
            //= TIMER-002
            self.set_formation(group, Formation::AwaitingAddLink, Some(wait));
        }
        self.activate_link(link);
        self.confirm_founders_rmb(group);
        if let Some(message) = self.confirm_link(link, true) {
            self.reply(link, &message);
        }
        self.conclude_formation(group);
    }
}
