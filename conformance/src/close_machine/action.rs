//! What may happen to two connections and what is between them.

use std::fmt;

/// Something that may happen. Sides are 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// An application writes a byte.
    Write(u8),
    /// The application of a side reads everything.
    Read(u8),
    /// The application of a side shuts its sending direction down.
    ShutdownWrite(u8),
    /// The application of a side closes.
    Close(u8),
    /// The application of a side aborts.
    Abort(u8),
    /// A connection transmits: data and a CDC message leave.
    Transmit(u8),
    /// A message of a side arrives: the oldest one, or another with this place.
    Arrive(u8, u8),
    /// The oldest message of a side that has arrived completes.
    Complete(u8),
    /// The next deadline of a connection passes.
    Deadline(u8),
    /// The link fails. Of each side's messages in flight this many arrive all the same;
    /// and those that had arrived do not complete.
    Fail(u8, u8),
    /// A side is notified of that and moves its connection to another link.
    Move(u8),
    /// The last link fails.
    FailLast,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(side) => write!(f, "{side} writes an octet"),
            Self::Read(side) => write!(f, "{side} reads"),
            Self::ShutdownWrite(side) => write!(f, "{side} shuts its sending direction down"),
            Self::Close(side) => write!(f, "{side} closes"),
            Self::Abort(side) => write!(f, "{side} aborts"),
            Self::Transmit(side) => write!(f, "{side} transmits"),
            Self::Arrive(side, 0) => write!(f, "the oldest message of {side} arrives"),
            Self::Arrive(side, place) => {
                write!(f, "a message of {side} arrives and overtakes {place}")
            }
            Self::Complete(side) => write!(f, "a message of {side} completes"),
            Self::Deadline(side) => write!(f, "the next deadline of {side} passes"),
            Self::Fail(0, 0) => f.write_str("the link fails, with all that is in flight"),
            Self::Fail(first, second) => write!(
                f,
                "the link fails; {first} messages of 0 and {second} of 1 arrive all the same"
            ),
            Self::Move(side) => write!(f, "{side} moves to another link"),
            Self::FailLast => f.write_str("the last link fails"),
        }
    }
}
