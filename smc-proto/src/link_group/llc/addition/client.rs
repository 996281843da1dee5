//! The client's part: choose a port, bind, answer.

use super::message::{other_end, port_only};
use super::{AddingStage, Addition};
use crate::id::{GroupIdx, LinkIdx};
use crate::link_group::Groups;
use crate::link_group::{Formation, GroupState, QpGoal, Role};
use crate::path::LocalPath;
use crate::wire::llc::{AddLink, ConfirmLink, Entries, LLC_LENGTH, LlcMessage, RequestAddLink};
use crate::wire::types::{AddLinkRejectReason, Gid, LinkNumber, Mac};

impl Groups<'_> {
    /// ADD LINK: the server's offer, or a client's hint.
    pub(in super::super) fn on_add_link(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        request: &AddLink<'_>,
    ) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        if g.role == Role::Server {
            self.on_add_link_hint(group, (request.gid, request.mac));
            return;
        }
        let addition = g.addition;
        let state = g.state;
        if !addition.is_idle() {
            // The same offer again changes nothing (reliability D5); another one
            // while the first is open contradicts it.
            let same = self
                .link(addition.link)
                .is_some_and(|l| l.number == request.link);
            if !same {
                self.violation(link);
            }
            return;
        }
        match state {
            //= LLCSER-008
            GroupState::Active => {}
            GroupState::Forming(Formation::AwaitingAddLink) => {
                self.set_formation(group, Formation::AddingSecond, None);
            }
            _ => {
                self.violation(link);
                return;
            }
        }
        match self.choose_port(group, request) {
            Ok(path) => self.join_link(group, link, path, request),
            Err(reason) => {
                self.send_negative_add_link(link, request.link, reason);
                self.conclude_formation(group);
            }
        }
    }

    /// Server: the client has a port to spare. During an addition that changes nothing,
    /// unless it may have been sent after the client's last reply, which comes on
    /// another link; during another exchange it waits for its end.
    //= LINK-042
    //= LINK-043
    //= LINK-044
    //= LLCSER-007
    //= LLCSER-013
    //= LLCSER-016
    //= LLCSER-021
    pub(super) fn on_add_link_hint(&mut self, group: GroupIdx, port: (Gid, Mac)) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if let Some(smcr) = g.smcr_mut() {
            smcr.other_port = Some(port);
        }
        if g.addition.stage == AddingStage::AwaitingConfirmLinkReply {
            g.add_schedule.hinted = true;
            return;
        }
        let welcome = g.is_active() && g.addition.is_idle();
        if welcome && self.has_room_for_link(group) {
            if let Some(g) = self.data.groups.at_mut(group) {
                g.add_schedule.failures = 0;
            }
            self.try_for_link(group);
        }
    }

    /// The port for the client's end, by table 6.3 of section 3.5.1.6.1.
    //= LLC-020
    //= LLC-021
    //= LLC-022
    //= LLC-024
    //= LLC-025
    //= LLC-031
    fn choose_port(
        &self,
        group: GroupIdx,
        request: &AddLink<'_>,
    ) -> Result<LocalPath, AddLinkRejectReason> {
        let (gid, mac) = (request.gid, request.mac);
        if request.mtu.octets().is_none() {
            return Err(AddLinkRejectReason::INVALID_MTU);
        }
        // Neither an offer of our own port nor a number that is in use, or none at
        // all, leads anywhere (reliability H16).
        let ours = self.data.core.ports.all().any(|port| port.gid == gid);
        let taken = request.link.0 == 0
            || self
                .select_links(group, |l| l.number == request.link)
                .next()
                .is_some();
        let same_rnic = self
            .select_links(group, |l| l.is_active() && !l.asymmetric)
            .any(|(_, l)| l.leads_to(gid, mac));
        let spare = self.spare_port(group, Some((gid, mac)));
        let path = match (same_rnic, spare) {
            _ if ours || taken => None,
            (_, Some(path)) => Some(path),
            (false, None) => self.shared_port(group, (gid, mac)),
            (true, None) => None,
        };
        path.filter(|path| {
            let asymmetric = self.is_asymmetric(group, path, gid, mac);
            self.has_room_for(group, asymmetric)
        })
        .ok_or(AddLinkRejectReason::NO_ALTERNATE_PATH)
    }

    fn join_link(
        &mut self,
        group: GroupIdx,
        via_link: LinkIdx,
        path: LocalPath,
        request: &AddLink<'_>,
    ) {
        let asymmetric = self.is_asymmetric(group, &path, request.gid, request.mac);
        let Some(link) = self.new_link(group, path) else {
            self.send_negative_add_link(
                via_link,
                request.link,
                AddLinkRejectReason::NO_ALTERNATE_PATH,
            );
            self.conclude_formation(group);
            return;
        };
        if let Some(l) = self.data.links.at_mut(link) {
            l.number = request.link;
            l.asymmetric = asymmetric;
            l.goal = QpGoal::Rtr;
            l.bind(other_end(request), request.mtu);
            if let Some(extension) = &request.extension {
                l.direct = extension.direct;
            }
        }
        self.hash_link(link);
        let deadline = Some(
            self.now()
                .after(self.data.core.config.timeouts.control_command),
        );
        self.set_addition(
            group,
            Addition {
                stage: AddingStage::Joining,
                link,
                via_link,
                deadline,
                ..Addition::IDLE
            },
        );
        //= V2-185
        if let Some(extension) = &request.extension {
            self.learn_pairs(group, extension.rtokens.iter());
        }
        self.data.schedule_link(link);
    }

    /// Everything on this side is ready: the offer is taken.
    //= LLC-023
    //= RENDEZVOUS-028
    pub(super) fn accept_add_link(&mut self, group: GroupIdx) {
        let addition = self.addition(group);
        let Some(reply) = self.own_end(addition.link, true) else {
            return;
        };
        let timeouts = self.data.core.config.timeouts;
        if self.is_v2(group) {
            self.set_adding_stage(group, AddingStage::AwaitingConfirmLink, timeouts.added_link);
            self.send_large(group, true);
            return;
        }
        let wait = timeouts.llc_reply;
        self.set_adding_stage(group, AddingStage::AwaitingContinuation, wait);
        //= RENDEZVOUS-034
        self.count_own_rmbs(group);
        self.reply(addition.via_link, &LlcMessage::AddLink(reply));
    }

    /// The offer that was to be taken cannot be.
    pub(super) fn reject_add_link(&mut self, group: GroupIdx, reason: AddLinkRejectReason) {
        let addition = self.addition(group);
        let Some(number) = self.link(addition.link).map(|l| l.number) else {
            return;
        };
        self.send_negative_add_link(addition.via_link, number, reason);
    }

    //= LLC-020
    //= CLC-061
    //= RENDEZVOUS-031
    fn send_negative_add_link(
        &mut self,
        via_link: LinkIdx,
        number: LinkNumber,
        reason: AddLinkRejectReason,
    ) {
        let Some(path) = self.link(via_link).map(|l| l.path) else {
            return;
        };
        self.reply(via_link, &port_only(&path, number, Some(reason)));
    }

    /// CONFIRM LINK on the new link.
    //= LLC-017
    pub(in super::super) fn on_added_confirm_link(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        request: &ConfirmLink,
    ) {
        let addition = self.addition(group);
        let due = match addition.stage {
            AddingStage::AwaitingConfirmLink => true,
            // Linux counts connections instead of RMBs, and may stop sooner.
            AddingStage::AwaitingContinuation => addition.left == 0,
            _ => false,
        };
        if !due {
            return;
        }
        if !self.names_link(link, request) {
            //= LLC-077
            self.abandon_addition(group, true);
            return;
        }
        self.keep_peer_user_id(link, request);
        if let Some(l) = self.data.links.at_mut(link) {
            l.goal = QpGoal::Rts;
        }
        let wait = self.data.core.config.timeouts.control_command;
        self.set_adding_stage(group, AddingStage::Activating, wait);
        self.data.schedule_link(link);
        self.on_addition_progress(group);
    }

    pub(super) fn answer_added_confirm_link(&mut self, group: GroupIdx) {
        let link = self.addition(group).link;
        if let Some(message) = self.confirm_link(link, true) {
            self.reply(link, &message);
        }
        // The reply goes first on this queue pair, whatever follows.
        self.finish_addition(group);
    }

    /// The announcement of a port to spare: the port and nothing else in ADD LINK (AMB-23),
    /// its GID in REQUEST ADD LINK. Servers read one GID only, and one keeps the
    /// message at 44 bytes.
    //= LLC-030
    //= V2-158
    pub(in super::super) fn add_link_hint(
        &self,
        group: GroupIdx,
        link: LinkIdx,
    ) -> Option<[u8; LLC_LENGTH]> {
        let path = self.spare_port(group, None)?;
        let message = if self.is_v2(group) {
            LlcMessage::RequestAddLink(RequestAddLink {
                reply: false,
                rejected: false,
                gids: Entries::inline([path.gid]),
            })
        } else {
            port_only(&path, LinkNumber(0), None)
        };
        self.encode(link, &message)
    }
}
