//! What an engine can ask for, and how it is refused.

use std::fmt;

use smc_proto::storage::Table;
use smc_proto::time::Duration;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_sim::fault::{FaultAction, Operation};

/// Something of which there may be no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resource {
    /// A slot of a table of the engine.
    Slot(Table),
    /// A queue pair.
    QueuePair,
    /// Whatever it takes to connect a queue pair to its peer.
    Connect,
    /// Let a queue pair send.
    Activate,
    /// Memory of an RMB or a send buffer.
    Buffer,
    /// A registration of memory with an RNIC.
    Registration,
    /// An element cleared for its next connection.
    Element,
    /// A DMB.
    Dmb,
    /// A mapping of a peer's DMB.
    Attachment,
    /// A DMB cleared for its next connection.
    ClearedDmb,
    /// Room in the send queues after a SEND.
    SendRoom,
    /// Room for the SEND that announces a WRITE, after that WRITE.
    WriteRoom,
    /// Room for commands after a command.
    CommandRoom,
    /// Receives of the host that sends.
    Receives,
    /// Room for events after an event.
    EventRoom,
}

/// A request that is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// For what.
    pub resource: Resource,
    /// Whose; `None` for both hosts', in the order in which they are made.
    pub host: Option<u8>,
    /// Number of the request, counted from 1.
    pub number: u64,
    /// Whether all that follow it are refused, too.
    pub lasting: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, number) = (self.resource, self.number);
        let whose = match self.host {
            None => "",
            Some(0) => "anna's ",
            Some(_) => "bert's ",
        };
        match self.lasting {
            false => write!(f, "{whose}{resource}, only {number}"),
            true => write!(f, "{whose}{resource}, from {number} on"),
        }
    }
}

/// For so long a queue has no room: longer than a round trip, shorter than any wait.
const FULL: Duration = Duration::from_micros(200);
/// For so long a host has no receives: the sender tries again several times.
const WITHHELD: Duration = Duration::from_millis(3);

impl Resource {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Slot(Table::Connections),
        Self::Slot(Table::Handshakes),
        Self::Slot(Table::Groups),
        Self::Slot(Table::Links),
        Self::Slot(Table::Buffers),
        Self::Slot(Table::RemoteRmbs),
        Self::QueuePair,
        Self::Connect,
        Self::Activate,
        Self::Buffer,
        Self::Registration,
        Self::Element,
        Self::Dmb,
        Self::Attachment,
        Self::ClearedDmb,
        Self::SendRoom,
        Self::WriteRoom,
        Self::CommandRoom,
        Self::Receives,
        Self::EventRoom,
    ];

    /// Short name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slot(Table::Connections) => "connection",
            Self::Slot(Table::Handshakes) => "handshake",
            Self::Slot(Table::Groups) => "group",
            Self::Slot(Table::Links) => "link",
            Self::Slot(Table::Buffers) => "buffer slot",
            Self::Slot(Table::RemoteRmbs) => "remote RMB",
            Self::QueuePair => "QP",
            Self::Connect => "connect QP",
            Self::Activate => "activate QP",
            Self::Buffer => "memory",
            Self::Registration => "registration",
            Self::Element => "clear RMBE",
            Self::Dmb => "DMB",
            Self::Attachment => "attach DMB",
            Self::ClearedDmb => "clear DMB",
            Self::SendRoom => "after SEND",
            Self::WriteRoom => "after WRITE",
            Self::CommandRoom => "after command",
            Self::Receives => "receives",
            Self::EventRoom => "after event",
        }
    }

    /// Name in at most eight letters, for the heads of columns.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::Slot(Table::Connections) => "conn",
            Self::Slot(Table::Handshakes) => "hs",
            Self::Slot(Table::Groups) => "group",
            Self::Slot(Table::Links) => "link",
            Self::Slot(Table::Buffers) => "buf",
            Self::Slot(Table::RemoteRmbs) => "rRMB",
            Self::QueuePair => "QP",
            Self::Connect => "RTR",
            Self::Activate => "RTS",
            Self::Buffer => "mem",
            Self::Registration => "reg",
            Self::Element => "RMBE",
            Self::Dmb => "DMB",
            Self::Attachment => "att",
            Self::ClearedDmb => "clr",
            Self::SendRoom => "SEND",
            Self::WriteRoom => "WRITE",
            Self::CommandRoom => "cmd",
            Self::Receives => "recv",
            Self::EventRoom => "event",
        }
    }

    /// What is refused and by which fault, once or from then on; `None` for what is no
    /// matter of a device.
    pub(super) const fn fault(self, lasting: bool) -> Option<(Operation, FaultAction)> {
        let busy = FaultAction::Busy(FULL);
        let refuse = FaultAction::Refuse;
        Some(match self {
            Self::Slot(_) | Self::EventRoom => return None,
            Self::QueuePair => (Operation::CreateQueuePair, refuse),
            Self::Connect => (Operation::ConnectQueuePair, refuse),
            Self::Activate => (Operation::ActivateQueuePair, refuse),
            Self::Buffer => (Operation::AllocateBuffer, refuse),
            Self::Registration => (Operation::RegisterBuffer, refuse),
            Self::Element => (Operation::ClearElement, refuse),
            Self::Dmb => (Operation::RegisterDmb, refuse),
            Self::Attachment => (Operation::AttachDmb, refuse),
            Self::ClearedDmb => (Operation::ClearDmb, refuse),
            Self::SendRoom => (Operation::Send, busy),
            Self::WriteRoom => (Operation::Write, busy),
            Self::CommandRoom => (Operation::AnyControl, busy),
            // Taken away again and again, they would never be there.
            Self::Receives if lasting => {
                let (receives, time) = (1, WITHHELD);
                (Operation::Send, FaultAction::FewReceives { receives, time })
            }
            Self::Receives => (Operation::Send, FaultAction::WithholdReceives(WITHHELD)),
        })
    }

    /// Diagnosis codes of a side that cannot go on without it, if it may not do without.
    const fn codes(self) -> &'static [DiagnosisCode] {
        match self {
            Self::Slot(Table::RemoteRmbs) => {
                // The second one is sent by the side whose CONFIRM RKEY the peer refused.
                &[DiagnosisCode::RTOKEN, DiagnosisCode::REGISTER_BUFFER]
            }
            Self::Slot(_) | Self::Buffer | Self::Attachment => &[DiagnosisCode::MEMORY],
            Self::QueuePair | Self::Connect | Self::Activate => &[DiagnosisCode::LINK_READY],
            Self::Registration => &[DiagnosisCode::REGISTER_BUFFER],
            Self::Dmb => &[DiagnosisCode::DMB_LIMIT],
            Self::Element
            | Self::ClearedDmb
            | Self::SendRoom
            | Self::WriteRoom
            | Self::CommandRoom
            | Self::Receives
            | Self::EventRoom => &[],
        }
    }

    /// Whether a side may fall back with this code for want of it.
    pub(super) fn explains(self, code: DiagnosisCode) -> bool {
        self.codes().contains(&code)
    }

    /// How long an embedder whose queue of events is full takes none.
    pub(super) const EVENTS_FULL: Duration = FULL;
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
