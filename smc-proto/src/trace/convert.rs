//! States and messages of the engine, as fields name them.

use super::{
    BufferStep, Flags, GroupStep, LinkStep, LlcKind, QpStep, RendezvousStep, Side, TcpAction,
    TimerKind, TraceEvent,
};
use crate::command::TcpCommand;
use crate::connection_record::End;
use crate::link_group::{Control, GroupState, LinkState, QpState, Role};
use crate::rendezvous::State;
use crate::time::Instant;
use crate::version::SmcVersion;
use crate::wire::clc::{ClcKind, ClcMessage};
use crate::wire::llc::kind;
use crate::wire::types::{DeleteLinkReason, DiagnosisCode, LinkNumber};

impl From<Role> for Side {
    fn from(role: Role) -> Self {
        match role {
            Role::Client => Self::Client,
            Role::Server => Self::Server,
        }
    }
}

impl From<State> for RendezvousStep {
    fn from(state: State) -> Self {
        match state {
            State::Proposing => Self::Proposing,
            State::AwaitingAccept => Self::AwaitingAccept,
            State::Preparing => Self::Preparing,
            State::Confirming => Self::Confirming,
            State::AwaitingProposal => Self::AwaitingProposal,
            State::Proposed => Self::Proposed,
            State::Queued => Self::Queued,
            State::Accepting => Self::Accepting,
            State::AwaitingConfirm => Self::AwaitingConfirm,
            State::Forming => Self::Forming,
            State::Declining { .. } => Self::Declining,
        }
    }
}

impl From<TcpCommand> for TcpAction {
    fn from(command: TcpCommand) -> Self {
        match command {
            TcpCommand::HandOver {
                watch_for_decline: false,
            } => Self::HandOver,
            TcpCommand::HandOver {
                watch_for_decline: true,
            } => Self::HandOverWatched,
            TcpCommand::Close => Self::Close,
            TcpCommand::Reset => Self::Reset,
        }
    }
}

impl From<GroupState> for GroupStep {
    fn from(state: GroupState) -> Self {
        match state {
            GroupState::Forming(_) => Self::Forming,
            GroupState::Active => Self::Active,
            GroupState::Ending(_) => Self::Ending,
        }
    }
}

impl From<LinkState> for LinkStep {
    fn from(state: LinkState) -> Self {
        match state {
            LinkState::Offered => Self::Offered,
            LinkState::Adding => Self::Adding,
            LinkState::Active => Self::Active,
            LinkState::Leaving(_) => Self::Removing,
        }
    }
}

impl From<QpState> for QpStep {
    fn from(state: QpState) -> Self {
        match state {
            QpState::Absent => Self::Absent,
            QpState::Init => Self::Init,
            QpState::Rtr => Self::Rtr,
            QpState::Rts => Self::Rts,
            QpState::Drained => Self::Drained,
        }
    }
}

impl From<Control> for BufferStep {
    fn from(control: Control) -> Self {
        match control {
            Control::Alloc => Self::Allocate,
            Control::Register(_) | Control::Attach => Self::Register,
            Control::Clear(_) => Self::Clear,
            Control::Deregister(_) | Control::Detach => Self::Deregister,
            Control::Free => Self::Free,
        }
    }
}

impl From<End> for TraceEvent {
    fn from(end: End) -> Self {
        match end {
            End::FellBack(why) => Self::FellBack {
                code: why.code,
                peer_code: why.peer_diagnosis,
            },
            End::Closed(reason) => Self::ConnClosed { reason },
        }
    }
}

/// The event of a deadline that is set or cleared.
pub(crate) fn deadline(timer: TimerKind, deadline: Option<Instant>) -> TraceEvent {
    match deadline {
        Some(at) => TraceEvent::TimerArmed { timer, at },
        None => TraceEvent::TimerStopped { timer },
    }
}

/// Kind, version and length of a CLC message in these octets, and the code of a Decline.
fn clc(octets: &[u8], message: &ClcMessage) -> (ClcKind, u8, u16, Option<DiagnosisCode>) {
    let version = octets.get(7).map_or(0, |octet| octet >> 4);
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX);
    let code = match message {
        ClcMessage::Decline(decline) => Some(decline.diagnosis),
        _ => None,
    };
    (message.kind(), version, length, code)
}

#[cold]
pub(crate) fn clc_sent(octets: &[u8], sent: &ClcMessage) -> TraceEvent {
    let (message, version, length, code) = clc(octets, sent);
    TraceEvent::ClcSent {
        message,
        version,
        length,
        code,
    }
}

#[cold]
pub(crate) fn clc_received(octets: &[u8], received: &ClcMessage) -> TraceEvent {
    let (message, version, length, code) = clc(octets, received);
    TraceEvent::ClcReceived {
        message,
        version,
        length,
        code,
    }
}

/// What an LLC message says of itself, whatever its form.
struct Llc {
    message: LlcKind,
    reply: bool,
    version: SmcVersion,
    flags: Flags,
    link: Option<LinkNumber>,
    reason: Option<DeleteLinkReason>,
}

impl Llc {
    fn of(octets: &[u8]) -> Self {
        let octet = |at: usize| octets.get(at).copied().unwrap_or(0);
        let (version, plain) = match octet(0) >> 5 {
            1 => (SmcVersion::V2, octet(0) & 0x1f),
            _ => (SmcVersion::V1, octet(0)),
        };
        let message = match plain {
            kind::CONFIRM_LINK => LlcKind::ConfirmLink,
            kind::ADD_LINK => LlcKind::AddLink,
            kind::ADD_LINK_CONTINUATION => LlcKind::AddLinkContinuation,
            kind::DELETE_LINK => LlcKind::DeleteLink,
            0x05 => LlcKind::RequestAddLink,
            kind::CONFIRM_RKEY => LlcKind::ConfirmRkey,
            kind::TEST_LINK => LlcKind::TestLink,
            kind::CONFIRM_RKEY_CONTINUATION => LlcKind::ConfirmRkeyContinuation,
            kind::DELETE_RKEY => LlcKind::DeleteRkey,
            _ => LlcKind::Other,
        };
        let deletes = message == LlcKind::DeleteLink;
        let reason = u32::from_be_bytes([octet(5), octet(6), octet(7), octet(8)]);
        Self {
            message,
            reply: octet(3) & 0x80 != 0,
            version,
            flags: Flags(octet(3)),
            link: deletes.then(|| LinkNumber(octet(4))),
            reason: deletes.then_some(DeleteLinkReason(reason)),
        }
    }
}

#[cold]
pub(crate) fn llc_sent(octets: &[u8]) -> TraceEvent {
    let Llc {
        message,
        reply,
        version,
        flags,
        link,
        reason,
    } = Llc::of(octets);
    TraceEvent::LlcSent {
        message,
        reply,
        version,
        flags,
        link,
        reason,
    }
}

#[cold]
pub(crate) fn llc_received(octets: &[u8]) -> TraceEvent {
    let Llc {
        message,
        reply,
        version,
        flags,
        link,
        reason,
    } = Llc::of(octets);
    TraceEvent::LlcReceived {
        message,
        reply,
        version,
        flags,
        link,
        reason,
    }
}
