//! What rules read: something seen, and what was known before it.

use smc_capture::follow::{RdmaWrite, TcpSign};
use smc_proto::wire::cdc::{Cdc, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;

use crate::known::Known;
use crate::state::connection::{Connection, End};
use crate::state::flow::Flow;
use crate::state::group::Group;
use crate::state::link::{Link, LinkIndex};
use crate::state::message::{Kind, Message};
use crate::state::ring::Ring;
use crate::state::rmb::Rmb;
use crate::state::side::Side;
use crate::state::stream::Stream;

/// A CLC message.
pub(crate) struct ClcView<'a> {
    pub(crate) known: &'a Known,
    pub(crate) stream: &'a Stream,
    pub(crate) from: Side,
    pub(crate) message: &'a ClcMessage,
    pub(crate) bytes: &'a [u8],
    pub(crate) time: u64,
}

/// What happens on a TCP connection besides.
pub(crate) struct TcpView<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) from: Side,
    pub(crate) sign: TcpSign,
}

/// Something on a link.
pub(crate) struct LinkView<'a> {
    pub(crate) group: &'a Group,
    pub(crate) link: &'a Link,
    pub(crate) from: Side,
    pub(crate) what: On<'a>,
    /// The number its packets should have begun with, if that is not so.
    pub(crate) astray: Option<u32>,
    /// The number of its first packet.
    pub(crate) psn: u32,
    pub(crate) time: u64,
}

/// What it is.
pub(crate) enum On<'a> {
    Llc(&'a Message),
    Cdc,
    Write,
}

impl On<'_> {
    /// Whether a server that sends it has its first contact behind it, unless it is
    /// adding a link.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Self::Llc(message) => message.kind() == Kind::ConfirmRkey && !message.is_reply(),
            Self::Cdc | Self::Write => true,
        }
    }
}

/// An LLC message.
pub(crate) struct LlcView<'a> {
    pub(crate) group: &'a Group,
    pub(crate) index: LinkIndex,
    pub(crate) link: &'a Link,
    pub(crate) from: Side,
    pub(crate) message: &'a Message,
    pub(crate) bytes: &'a [u8],
    pub(crate) time: u64,
}

/// An RDMA WRITE.
pub(crate) struct WriteView<'a> {
    pub(crate) group: &'a Group,
    pub(crate) index: LinkIndex,
    pub(crate) link: &'a Link,
    pub(crate) from: Side,
    pub(crate) write: &'a RdmaWrite,
    /// The RMB it goes to, if its key is known.
    pub(crate) rmb: Option<&'a Rmb>,
    /// The connection it is for, and the receiver's end of it.
    pub(crate) target: Option<(&'a Connection, End)>,
    /// Offset in the element.
    pub(crate) offset: Option<u32>,
    pub(crate) ring: Option<Ring>,
    /// Whether messages of the receiver are held back, so that its cursors are not
    /// the ones that the writer knows.
    pub(crate) peer_unclear: bool,
}

/// A CDC message.
pub(crate) struct CdcView<'a> {
    pub(crate) group: &'a Group,
    pub(crate) index: LinkIndex,
    pub(crate) link: &'a Link,
    pub(crate) from: Side,
    pub(crate) cdc: &'a Cdc,
    pub(crate) bytes: &'a [u8],
    pub(crate) connection: Option<&'a Connection>,
    /// The ring that its sender writes into.
    pub(crate) into: Option<Ring>,
    /// The ring that its sender reads.
    pub(crate) own: Option<Ring>,
    pub(crate) peer_unclear: bool,
    pub(crate) time: u64,
}

impl<'a> CdcView<'a> {
    /// The sender's direction.
    pub(crate) fn flow(&self) -> Option<&'a Flow> {
        Some(self.connection?.flows.of(self.from))
    }

    /// The other one.
    pub(crate) fn back(&self) -> Option<&'a Flow> {
        Some(self.connection?.flows.of(self.from.other()))
    }

    pub(crate) fn is_validation(&self) -> bool {
        self.cdc
            .producer_flags
            .contains(ProducerFlags::FAILOVER_VALIDATION)
    }

    /// Whether a link change came directly before it.
    pub(crate) fn follows_move(&self) -> bool {
        self.flow().is_some_and(|flow| flow.moved.is_some())
    }

    /// Whether both cursors are where cursors can be; otherwise a rule of its own reports it.
    pub(crate) fn is_placed(&self) -> bool {
        let placed = self.into.is_none_or(|ring| ring.has(self.cdc.producer));
        placed && self.own.is_none_or(|ring| ring.has(self.cdc.consumer))
    }

    /// The sender's direction and both rings, for messages whose cursors count and
    /// whose predecessors are all known.
    pub(crate) fn judged(&self) -> Option<(&'a Flow, &'a Flow, Ring, Ring)> {
        let (flow, back) = (self.flow()?, self.back()?);
        (!flow.lost && !self.is_validation()).then_some((flow, back, self.into?, self.own?))
    }
}
