//! First contact over LLC: the first link is confirmed, then the server tries
//! to add a second one, as it adds any other.
//!
//! ```text
//!  client                                        server
//!    AwaitingConfirmLink                           Connecting (RTR, RTS)
//!        ◄───────────── CONFIRM LINK ───────────────  AwaitingConfirmLinkReply
//!    Activating (RTS)
//!        ────────────── CONFIRM LINK reply ────────►  AddingSecond
//!    AwaitingAddLink
//!        ◄───────────── ADD LINK ───────────────────
//!    AddingSecond
//!        ◄────── see addition.rs, or rejection ────►
//!      active                                        active
//! ```

mod client;
mod server;

use super::super::{Fallback, GroupNotified, GroupState};
use crate::config::{OnSilence, Timeouts};
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::time::{Duration, Instant};
use crate::trace::{GroupStep, TraceEvent};
use crate::version::{SmcVersion, Terms};
use crate::wire::llc::{ConfirmLink, ConfirmLinkFlags, LlcMessage};
use crate::wire::types::DiagnosisCode;

/// Progress of a first contact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Formation {
    /// Queue pair, buffers, Accept and Confirm.
    Preparing,
    /// Server: the queue pair moves to RTS; CONFIRM LINK not before this time.
    Connecting { not_before: Instant },
    /// Server: CONFIRM LINK is out.
    AwaitingConfirmLinkReply,
    /// Client: Confirm is out.
    AwaitingConfirmLink,
    /// Client: the queue pair moves to RTS, then CONFIRM LINK is answered.
    Activating,
    /// Client: CONFIRM LINK was answered.
    AwaitingAddLink,
    /// The second link is being added, or given up again.
    AddingSecond,
}

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

impl Groups<'_> {
    pub(super) fn set_formation(
        &mut self,
        group: GroupIdx,
        formation: Formation,
        wait: Option<Duration>,
    ) {
        let deadline = wait.map(|wait| self.now().after(wait));
        if let Some(g) = self.data.groups.at_mut(group)
            && matches!(g.state, GroupState::Forming(_))
        {
            g.state = GroupState::Forming(formation);
            g.flow_deadline = deadline;
        }
        self.arm_group(group);
    }

    pub(super) fn formation(&self, group: GroupIdx) -> Option<Formation> {
        match self.data.groups.at(group)?.state {
            GroupState::Forming(formation) => Some(formation),
            _ => None,
        }
    }

    pub(super) fn confirm_link(&self, link: LinkIdx, reply: bool) -> Option<LlcMessage<'static>> {
        let l = self.link(link)?;
        let config = &self.data.core.config;
        let g = self.data.groups.at(l.group)?;
        let limits = g.terms.release.has_limits();
        Some(LlcMessage::ConfirmLink(ConfirmLink {
            reply,
            //= V2-192
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
            //= V2-153
            max_links: if reply || limits {
                g.max_links
            } else {
                self.own_link_limit(&g.terms)
            },
            max_connections: if limits { g.terms.max_connections } else { 0 },
        }))
    }

    /// Whether CONFIRM LINK describes the peer's end of the link.
    pub(super) fn names_peer(&self, link: LinkIdx, message: &ConfirmLink) -> bool {
        self.link(link)
            .and_then(|l| l.peer)
            .is_some_and(|peer| peer.qpn == message.qpn)
            && self
                .link(link)
                .is_some_and(|l| l.leads_to(message.gid, message.mac))
    }

    /// Whether CONFIRM LINK describes the peer's end and the number of the link.
    pub(super) fn names_link(&self, link: LinkIdx, message: &ConfirmLink) -> bool {
        self.names_peer(link, message) && self.link(link).is_some_and(|l| l.number == message.link)
    }

    /// The peer confirms a link.
    pub(super) fn keep_peer_user_id(&mut self, link: LinkIdx, message: &ConfirmLink) {
        if let Some(l) = self.data.links.at_mut(link) {
            l.peer_user_id = message.user_id;
        }
    }

    /// Most links of a group as far as this side is concerned, unless release 1 decided
    /// it.
    fn own_link_limit(&self, terms: &Terms) -> u8 {
        match terms.version {
            SmcVersion::V1 => self.data.core.config.max_links.clamp(2, 8),
            SmcVersion::V2 => 2,
        }
    }

    /// What CONFIRM LINK decides for the group's life: eye catchers are left out
    /// only if both sides have none (decision 3), and the lower limit of links
    /// holds; a client that names none accepts the server's (AMB-21).
    //= LINK-016
    //= LINK-017
    fn confirm_group(&mut self, group: GroupIdx, peer: &ConfirmLink) {
        let Some(terms) = self.data.groups.at(group).map(|g| g.terms) else {
            return;
        };
        let own = self.own_link_limit(&terms);
        let none = !self.data.core.config.eye_catcher && peer.announces_no_eye_catcher();
        if let Some(g) = self.data.groups.at_mut(group) {
            g.ring_base = if none { 0 } else { 4 };
            // Accept and Confirm settled it.
            //= V2-212
            if terms.release.has_limits() {
                return;
            }
            g.max_links = if peer.max_links == 0 {
                own
            } else {
                own.min(peer.max_links).max(2)
            };
        }
    }

    /// The attempt at a second link is over: the group carries connections.
    //= RENDEZVOUS-025
    //= RENDEZVOUS-032
    pub(super) fn group_formed(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        // The reply that would have been the last one may have been one too many
        // for the link, and ended the group.
        if !matches!(g.state, GroupState::Forming(_)) {
            return;
        }
        self.activate_group(group);
        self.announce_links(group);
        self.announce_first_rmbs(group);
        self.start_flow(group);
    }

    /// A group carries connections from here on: connections that waited for that go on.
    pub(crate) fn activate_group(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        let founder = core::mem::replace(&mut g.founder, Idx::NONE);
        g.state = GroupState::Active;
        g.flow_deadline = None;
        g.decline = None;
        g.notified = GroupNotified::Rising;
        self.data
            .core
            .groups_up
            .push_back(&mut self.data.groups, group);
        self.trace_group(group, || TraceEvent::GroupMoved {
            old: GroupStep::Forming,
            new: GroupStep::Active,
            reason: None,
        });
        self.arm_group(group);
        self.data.wake(founder);
        self.wake_queued(group);
    }

    pub(super) fn fail_formation(&mut self, group: GroupIdx, fallback: Fallback) {
        self.end_group(group, CloseReason::RendezvousFailed, fallback);
    }

    pub(super) fn on_formation_timeout(&mut self, group: GroupIdx, formation: Formation) {
        let (confirm, add) = (
            self.data.core.config.confirm_link_timeout,
            self.data.core.config.add_link_timeout,
        );
        match formation {
            Formation::Connecting { not_before } if not_before <= self.now() => {
                let usable = self
                    .data
                    .groups
                    .at(group)
                    .and_then(|g| self.link(g.first_link()))
                    .is_some_and(super::super::Link::is_usable);
                if usable {
                    self.on_formation_progress(group);
                } else {
                    self.fail_formation(group, Fallback::Decline(DiagnosisCode::LINK_READY));
                }
            }
            Formation::Connecting { .. } => self.on_formation_progress(group),
            //= TIMER-008
            //= TIMER-010
            Formation::AwaitingConfirmLinkReply | Formation::AwaitingConfirmLink => {
                let decline = match confirm {
                    OnSilence::Interoperate => {
                        Fallback::Decline(DiagnosisCode::TIMEOUT_CONFIRM_LINK)
                    }
                    OnSilence::Reset => Fallback::Reset,
                };
                self.fail_formation(group, decline);
            }
            //= TIMER-013
            //= TIMER-014
            Formation::AwaitingAddLink => match add {
                OnSilence::Interoperate => self.group_formed(group),
                OnSilence::Reset => self.fail_formation(group, Fallback::Reset),
            },
            Formation::Activating => {
                self.fail_formation(group, Fallback::Decline(DiagnosisCode::LINK_READY));
            }
            // The addition has its own deadline.
            Formation::Preparing | Formation::AddingSecond => {}
        }
    }
}
