//! First contact over LLC: the first link is confirmed, then the server tries
//! to add a second one.
//!
//! ```text
//!  client                                        server
//!    AwaitingConfirmLink                           Connecting (RTR, RTS)
//!        ◄───────────── CONFIRM LINK ───────────────  AwaitingConfirmLinkReply
//!    Activating (RTS)
//!        ────────────── CONFIRM LINK reply ────────►  CreatingSecond
//!    AwaitingAddLink
//!        ◄───────────── ADD LINK ───────────────────  AwaitingAddLinkReply
//!        ────────────── rejection ─────────────────►
//!      active                                        active
//! ```

use super::super::{GroupState, QpGoal, Role, Told};
use crate::config::{OnSilence, Timeouts};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::time::{Duration, Instant};
use crate::wire::llc::{
    AddLink, ConfirmLink, ConfirmLinkFlags, DeleteLink, DeleteLinkFlags, LlcMessage,
};
use crate::wire::types::{AddLinkRejectReason, DeleteLinkReason, DiagnosisCode, LinkNumber, Psn};

/// Where a first contact stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Formation {
    /// Queue pair, buffers, Accept and Confirm.
    Preparing,
    /// Server: the queue pair moves to RTS; CONFIRM LINK not before this time.
    Connecting { not_before: Instant },
    /// Server: CONFIRM LINK is out.
    AwaitingConfirmLinkReply,
    /// Server: the queue pair to offer is being created.
    CreatingSecond,
    /// Server: ADD LINK is out.
    AwaitingAddLinkReply,
    /// Server: the accepted second link is being given up.
    DeletingSecond,
    /// Client: Confirm is out.
    AwaitingConfirmLink,
    /// Client: the queue pair moves to RTS, then CONFIRM LINK is answered.
    Activating,
    /// Client: CONFIRM LINK was answered.
    AwaitingAddLink,
}

/// The number of the first link of a group, and of the one offered after it.
const FIRST_LINK: LinkNumber = LinkNumber(1);
const SECOND_LINK: LinkNumber = LinkNumber(2);

impl Formation {
    /// How long the answer to this state's request may take.
    pub(super) fn reply_wait(self, timeouts: &Timeouts) -> Duration {
        match self {
            // A Decline may come instead, and gets a little longer.
            Self::AwaitingConfirmLinkReply => timeouts.llc_reply.saturating_add(timeouts.decline),
            _ => timeouts.llc_reply,
        }
    }
}

impl Engine<'_> {
    fn set_formation(&mut self, group: u32, formation: Formation, wait: Option<Duration>) {
        let deadline = wait.map(|wait| self.now().after(wait));
        if let Some(g) = self.groups.at_mut(group)
            && matches!(g.state, GroupState::Forming(_))
        {
            g.state = GroupState::Forming(formation);
            g.flow_deadline = deadline;
        }
        self.arm_group(group);
    }

    fn formation(&self, group: u32) -> Option<Formation> {
        match self.groups.at(group)?.state {
            GroupState::Forming(formation) => Some(formation),
            _ => None,
        }
    }

    // ---- server ------------------------------------------------------------

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
            .is_some_and(super::super::Link::is_usable);
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
                    .is_some_and(|l| l.state >= super::super::QpState::Init);
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

    fn confirm_link(&self, link: u32, reply: bool) -> Option<LlcMessage> {
        let l = self.links.at(link)?;
        let config = &self.core.config;
        Some(LlcMessage::ConfirmLink(ConfirmLink {
            reply,
            flags: if config.eye_catcher {
                ConfirmLinkFlags::empty()
            } else {
                ConfirmLinkFlags::all()
            },
            mac: l.path.mac,
            gid: l.path.gid,
            qpn: l.qpn,
            link: l.number,
            user_id: l.user_id,
            //= LINK-012
            //= LINK-013
            //= LINK-014
            //= LINK-015
            max_links: if reply {
                self.groups.at(l.group)?.max_links
            } else {
                config.max_links.clamp(2, 8)
            },
        }))
    }

    //= LLC-015
    //= LLC-016
    pub(super) fn on_confirm_link_reply(&mut self, link: u32, group: u32, reply: &ConfirmLink) {
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

    /// Whether CONFIRM LINK describes the peer's end of the link.
    fn names_peer(&self, link: u32, message: &ConfirmLink) -> bool {
        self.links
            .at(link)
            .and_then(|l| l.peer)
            .is_some_and(|peer| {
                peer.mac == message.mac && peer.gid == message.gid && peer.qpn == message.qpn
            })
    }

    /// What CONFIRM LINK settles for the group's life: eye catchers are left out
    /// only if both sides have none (decision 3), and the lower limit of links
    /// holds; a client that names none accepts the server's (AMB-21).
    //= LINK-016
    //= LINK-017
    fn settle_group(&mut self, group: u32, peer: &ConfirmLink) {
        let own = self.core.config.max_links.clamp(2, 8);
        let none = !self.core.config.eye_catcher && peer.announces_no_eye_catcher();
        if let Some(g) = self.groups.at_mut(group) {
            g.ring_base = if none { 0 } else { 4 };
            g.max_links = if peer.max_links == 0 {
                own
            } else {
                own.min(peer.max_links).max(2)
            };
        }
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

    pub(super) fn on_add_link_reply(&mut self, link: u32, group: u32, reply: &AddLink) {
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

    pub(super) fn on_second_link_deleted(&mut self, group: u32, link: LinkNumber) {
        if self.formation(group) == Some(Formation::DeletingSecond) && link == SECOND_LINK {
            self.group_formed(group);
        }
    }

    // ---- client ------------------------------------------------------------

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
    pub(super) fn on_confirm_link(&mut self, link: u32, group: u32, request: &ConfirmLink) {
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
    fn answer_confirm_link(&mut self, group: u32, link: u32) {
        let wait = self.core.config.timeouts.add_link_request;
        self.set_formation(group, Formation::AwaitingAddLink, Some(wait));
        if let Some(message) = self.confirm_link(link, true) {
            self.reply(link, &message);
        }
    }

    /// ADD LINK from the peer. With one link per group there is no alternate path.
    pub(super) fn on_add_link(&mut self, link: u32, group: u32, request: &AddLink) {
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

    // ---- both --------------------------------------------------------------

    /// The attempt at a second link is over: the group carries connections.
    //= RENDEZVOUS-025
    //= RENDEZVOUS-032
    fn group_formed(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        // The reply that would have been the last one may have been one too many
        // for the link, and ended the group.
        if !matches!(g.state, GroupState::Forming(_)) {
            return;
        }
        let founder = core::mem::replace(&mut g.founder, NONE);
        g.state = GroupState::Active;
        g.flow_deadline = None;
        g.decline = None;
        g.told = Told::Rising;
        self.core.groups_up.push_back(&mut self.groups, group);
        self.arm_group(group);
        self.retire_second_link(group);
        self.announce_first_rmbs(group, founder);
        self.arm_keepalive(group);
        self.wake(founder);
        while let Some(handshake) = self.groups.at_mut(group).and_then(|g| g.queued.first()) {
            self.unqueue(handshake);
            self.core.wakes.push_back(&mut self.handshakes, handshake);
        }
        self.start_flow(group);
    }

    fn fail_formation(&mut self, group: u32, decline: Option<DiagnosisCode>) {
        self.end_group(group, CloseReason::RendezvousFailed, decline);
    }

    pub(super) fn on_formation_timeout(&mut self, group: u32, formation: Formation) {
        let (confirm, add) = (
            self.core.config.confirm_link_timeout,
            self.core.config.add_link_timeout,
        );
        match formation {
            Formation::Connecting { not_before } if not_before <= self.now() => {
                let usable = self
                    .groups
                    .at(group)
                    .and_then(|g| self.links.at(g.link))
                    .is_some_and(super::super::Link::is_usable);
                if usable {
                    self.on_formation_progress(group);
                } else {
                    self.fail_formation(group, Some(DiagnosisCode::LINK_READY));
                }
            }
            Formation::Connecting { .. } => self.on_formation_progress(group),
            //= TIMER-008
            //= TIMER-010
            Formation::AwaitingConfirmLinkReply | Formation::AwaitingConfirmLink => {
                let decline = match confirm {
                    OnSilence::Interoperate => Some(DiagnosisCode::TIMEOUT_CONFIRM_LINK),
                    OnSilence::Reset => None,
                };
                self.fail_formation(group, decline);
            }
            //= TIMER-013
            //= TIMER-014
            Formation::AwaitingAddLinkReply | Formation::AwaitingAddLink => match add {
                OnSilence::Interoperate => self.group_formed(group),
                OnSilence::Reset => self.fail_formation(group, None),
            },
            Formation::CreatingSecond => self.group_formed(group),
            Formation::Activating => {
                self.fail_formation(group, Some(DiagnosisCode::LINK_READY));
            }
            Formation::DeletingSecond => self.fail_formation(group, None),
            Formation::Preparing => {}
        }
    }
}
