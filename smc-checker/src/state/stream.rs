//! TCP connections that speak CLC.

use smc_proto::wire::clc::{AcceptConfirm, Decline, Proposal, SmcdAcceptConfirm};

use super::connection::ConnectionNumber;
use super::group::GroupNumber;
use super::side::{Pair, Side};

/// An Accept or Confirm of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    SmcR(Box<AcceptConfirm>),
    SmcD(Box<SmcdAcceptConfirm>),
}

impl Answer {
    pub(crate) const fn first_contact(&self) -> bool {
        match self {
            Self::SmcR(m) => m.first_contact,
            Self::SmcD(m) => m.first_contact,
        }
    }
}

/// What was seen of a TCP connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// SMC options in SYN and SYN-ACK.
    pub(crate) options: Pair<bool>,
    pub(crate) proposal: Option<Box<Proposal>>,
    pub(crate) accept: Option<Answer>,
    pub(crate) confirm: Option<Answer>,
    pub(crate) declines: Pair<Option<Decline>>,
    pub(crate) group: Option<GroupNumber>,
    pub(crate) connection: Option<ConnectionNumber>,
    /// Whether something in it could not be read.
    pub(crate) broken: bool,
}

impl Stream {
    /// Whether both SYNs had the option, as far as the capture shows.
    pub(crate) fn has_options(&self) -> bool {
        Side::BOTH.iter().all(|side| *self.options.of(*side))
    }

    pub(crate) fn is_declined(&self) -> bool {
        Side::BOTH.iter().any(|s| self.declines.of(*s).is_some())
    }

    /// Whether the connection is carried by SMC.
    pub(crate) fn is_carried(&self) -> bool {
        self.accept.is_some() && self.confirm.is_some() && !self.is_declined()
    }
}
