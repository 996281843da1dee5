//! The client: answers CONFIRM LINK, then ADD LINK.

use super::super::super::{QpGoal, Role};
use crate::engine::Engine;
use crate::id::NONE;
use crate::wire::llc::{AddLink, ConfirmLink, LlcMessage};
use crate::wire::types::{AddLinkRejectReason, DiagnosisCode, Psn};

use super::Formation;

impl Engine<'_> {
    /// The Confirm left: CONFIRM LINK must come.
    //= RENDEZVOUS-017
    pub(crate) fn await_confirm_link(&mut self, conn: u32) {
        let group = self
            .connections
            .at(conn)
            .map_or(NONE, |record| record.group);
        let timeouts = self.core.config.timeouts;
        let wait = timeouts
            .confirm_link_request
            .saturating_add(timeouts.decline);
        self.set_formation(group, Formation::AwaitingConfirmLink, Some(wait));
    }

    //= RENDEZVOUS-022
    //= LLC-017
    pub(crate) fn on_confirm_link(&mut self, link: u32, group: u32, request: &ConfirmLink) {
        if self.groups.at(group).is_none_or(|g| g.role == Role::Server) {
            //= LLC-014
            self.violation(link);
            return;
        }
        match self.formation(group) {
            Some(Formation::AwaitingConfirmLink) => {}
            // The same request again changes nothing (reliability D5).
            Some(Formation::Activating | Formation::AwaitingAddLink) | None
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
        if !self.names_peer(link, request) || request.link.0 == 0 || request.max_links < 2 {
            self.fail_formation(group, Some(DiagnosisCode::INTERNAL));
            return;
        }
        self.settle_group(group, request);
        if let Some(l) = self.links.at_mut(link) {
            //= LINK-025
            //= LINK-026
            l.number = request.link;
            l.goal = QpGoal::Rts;
        }
        let wait = self.core.config.timeouts.control_command;
        self.set_formation(group, Formation::Activating, Some(wait));
        self.poke_link(link);
    }

    //= RENDEZVOUS-022
    //= RENDEZVOUS-024
    pub(crate) fn answer_confirm_link(&mut self, group: u32, link: u32) {
        let wait = self.core.config.timeouts.add_link_request;
        self.set_formation(group, Formation::AwaitingAddLink, Some(wait));
        if let Some(message) = self.confirm_link(link, true) {
            self.reply(link, &message);
        }
    }

    /// ADD LINK from the peer. With one link per group there is no alternate path.
    pub(crate) fn on_add_link(&mut self, link: u32, group: u32, request: &AddLink) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        if g.role == Role::Server {
            // A client's hint that it has another RNIC: this group is at its
            // limit, and a client waits for no answer.
            //= LINK-044
            //= LINK-045
            return;
        }
        let forming = self.formation(group);
        if !matches!(forming, None | Some(Formation::AwaitingAddLink)) {
            self.violation(link);
            return;
        }
        //= LLC-020
        //= LLC-024
        //= LLC-025
        let reason = if request.mtu.octets().is_none() {
            AddLinkRejectReason::INVALID_MTU
        } else {
            AddLinkRejectReason::NO_ALTERNATE_PATH
        };
        let Some(path) = self.links.at(link).map(|l| l.path) else {
            return;
        };
        let reply = LlcMessage::AddLink(AddLink {
            reply: true,
            rejection: Some(reason),
            mac: path.mac,
            gid: path.gid,
            qpn: crate::wire::types::Qpn::new(0),
            link: request.link,
            mtu: path.mtu,
            psn: Psn::new(0),
        });
        self.reply(link, &reply);
        if forming.is_some() {
            //= CLC-061
            //= RENDEZVOUS-031
            self.group_formed(group);
        }
    }
}
