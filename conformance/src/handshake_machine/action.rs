//! What may happen to two hosts and what is between them.

use std::fmt;

use smc_proto::endpoint::TcpEvent;

/// Something that may happen. Side 0 is the client, 1 the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// What a side sent first of all that TCP still carries arrives.
    Arrive(u8),
    /// Of what a side sent first of all that TCP still carries, only this many bytes arrive.
    ArrivePart(u8, u16),
    /// The oldest message of a side arrives over its link, or its signal over ISM; or it
    /// proves undeliverable.
    Receive(u8),
    /// The next deadline of a side passes.
    Deadline(u8),
    /// The command that a device of a side kept waiting is carried out, or refused.
    Answer(u8, bool),
    /// The link fails at both ends, with all that is in flight.
    FailLink,
    /// The device of a side reports that, because it had work in flight.
    ReportFailure(u8),
    /// The device of a side reports that although it had no work: its port is down.
    PortDown(u8),
    /// TCP fails, with all that it carries.
    BreakTcp,
    /// TCP reports that to a side.
    ReportBreak(u8, TcpEvent),
    /// TCP reports to the peer of a side that this sends no more.
    Fin(u8),
    /// An application closes.
    Close(u8),
    /// The application of a side aborts.
    Abort(u8),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |side: &u8| ["the client", "the server"][usize::from(*side)];
        match self {
            Self::Arrive(side) => write!(f, "what {} sent over TCP arrives", name(side)),
            Self::ArrivePart(side, bytes) => {
                write!(f, "{bytes} octets of what {} sent arrive", name(side))
            }
            Self::Receive(side) => write!(f, "a message of {} reaches its peer", name(side)),
            Self::Deadline(side) => write!(f, "the next deadline of {} passes", name(side)),
            Self::Answer(side, true) => write!(f, "the device of {} is done", name(side)),
            Self::Answer(side, false) => write!(f, "the device of {} refuses", name(side)),
            Self::FailLink => f.write_str("the link fails"),
            Self::ReportFailure(side) => {
                write!(f, "{} is notified that the link failed", name(side))
            }
            Self::PortDown(side) => write!(f, "{} sees its link gone", name(side)),
            Self::BreakTcp => f.write_str("TCP fails"),
            Self::ReportBreak(side, event) => write!(f, "{} is notified of {event:?}", name(side)),
            Self::Fin(side) => write!(f, "TCP reports that {} sends no more", name(side)),
            Self::Close(side) => write!(f, "the application of {} closes", name(side)),
            Self::Abort(side) => write!(f, "the application of {} aborts", name(side)),
        }
    }
}
