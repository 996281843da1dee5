//! The queue pair of a link, step by step.
//!
//! ```text
//!   goal:     Init ────────► Rtr ─────────► Rts ───────► Gone
//!   state:  Absent ─Create─► Init ─Connect─► Rtr ─Activate─► Rts
//!                              └────────────┴───ToError────────┴─► Drained ─Destroy─► (slot freed)
//! ```
//!
//! The next command is whatever leads from the state towards the goal; one is
//! in flight at a time.

use super::Link;
use crate::command::RdmaCommand;
use crate::id::LinkId;
use crate::wire::llc::LLC_LENGTH;
use crate::wire::llc::v2::LLC_V2_MAX_LENGTH;

/// What the queue pair is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd)]
pub(crate) enum QpState {
    Absent,
    Init,
    Rtr,
    Rts,
    Drained,
}

/// What the queue pair should become.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd)]
pub(crate) enum QpGoal {
    Init,
    Rtr,
    Rts,
    Gone,
}

impl Link {
    /// The control command that leads towards the goal, if none is in flight.
    #[inline]
    pub(crate) fn next_control(&mut self, link: LinkId) -> Option<RdmaCommand> {
        if self.pending.is_some() || self.is_usable() {
            return None;
        }
        self.next_transition(link)
    }

    /// Bytes of each receive: the longest LLC message.
    //= V2-163
    const fn receive_size(&self) -> u32 {
        if self.is_v2() {
            LLC_V2_MAX_LENGTH as u32
        } else {
            LLC_LENGTH as u32
        }
    }

    fn next_transition(&mut self, link: LinkId) -> Option<RdmaCommand> {
        let (leads_to, command) = match (self.state, self.goal) {
            (QpState::Absent, QpGoal::Gone) => return None,
            (QpState::Absent, _) => {
                let command = RdmaCommand::CreateQp {
                    link,
                    device: self.path.device,
                    port: self.path.port,
                    gid_index: self.path.gid_index,
                    receive_size: self.receive_size(),
                };
                (QpState::Init, command)
            }
            (QpState::Init, QpGoal::Rtr | QpGoal::Rts) => {
                let command = RdmaCommand::ConnectQp {
                    link,
                    peer: self.peer?,
                    mtu: self.mtu,
                    //= V2-231
                    hop_limit: if self.direct { 1 } else { 64 },
                };
                (QpState::Rtr, command)
            }
            (QpState::Rtr, QpGoal::Rts) => {
                let psn = self.psn;
                (QpState::Rts, RdmaCommand::ActivateQp { link, psn })
            }
            (QpState::Init | QpState::Rtr | QpState::Rts, QpGoal::Gone) => {
                (QpState::Drained, RdmaCommand::QpToError { link })
            }
            // Memory regions go before the protection domain they belong to.
            (QpState::Drained, QpGoal::Gone) if self.registrations == 0 => {
                (QpState::Absent, RdmaCommand::DestroyQp { link })
            }
            _ => return None,
        };
        self.pending = Some(leads_to);
        Some(command)
    }

    /// Whether [`Link::next_control`] would give a command.
    #[inline]
    pub(crate) fn wants_control(&self) -> bool {
        self.pending.is_none() && !self.is_usable() && self.wants_transition()
    }

    #[inline(never)]
    fn wants_transition(&self) -> bool {
        match (self.state, self.goal) {
            (QpState::Absent, goal) => goal != QpGoal::Gone,
            (QpState::Init, QpGoal::Rtr | QpGoal::Rts) => self.peer.is_some(),
            (QpState::Rtr, QpGoal::Rts) => true,
            (QpState::Init | QpState::Rtr | QpState::Rts, QpGoal::Gone) => true,
            (QpState::Drained, QpGoal::Gone) => self.registrations == 0,
            _ => false,
        }
    }
}
