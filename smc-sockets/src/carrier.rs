//! Outcome of the negotiation of a connection: SMC or TCP, and the reason for TCP.

mod cause;

use std::fmt;

use smc_proto::event::FallbackReason;
use smc_proto::version::{SmcVersion, Terms};
use smc_proto::wire::types::DiagnosisCode;

pub use cause::{Cause, Limit, OptionMissing};

/// Protocol that transfers the data of a connection. Decided before the program gets the
/// connection, and never changed afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Carrier {
    /// SMC, with the negotiated version and technology.
    Smc(Terms),
    /// TCP, with the reason.
    Tcp(WhyTcp),
}

/// Reason why a connection uses TCP: the diagnosis codes of both sides, and the cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WhyTcp {
    reason: FallbackReason,
    cause: Cause,
}

/// End of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This process's end.
    Here,
    /// The peer's end.
    Peer,
}

impl Carrier {
    /// TCP for a cause that this side found before the negotiation.
    pub(crate) const fn tcp(cause: Cause) -> Self {
        Self::Tcp(WhyTcp::here(cause))
    }

    /// TCP as the outcome of the negotiation. `known`: the cause, where this side knows more than
    /// the code; ignored if the peer declined.
    pub(crate) fn fallen_back(reason: FallbackReason, known: Option<Cause>) -> Self {
        // The peer's cause is known by its code alone.
        let cause = match (known, reason.peer_diagnosis) {
            (Some(cause), None) => cause,
            _ => Cause::Negotiation,
        };
        Self::Tcp(WhyTcp { reason, cause })
    }

    /// Whether SMC carries the connection.
    #[must_use]
    pub const fn is_smc(&self) -> bool {
        matches!(self, Self::Smc(_))
    }

    /// Reason for TCP; `None` for a connection over SMC.
    #[must_use]
    pub const fn why_tcp(&self) -> Option<&WhyTcp> {
        match self {
            Self::Tcp(why) => Some(why),
            Self::Smc(_) => None,
        }
    }
}

impl WhyTcp {
    /// Reason of a cause that this side found before the negotiation.
    pub(crate) const fn here(cause: Cause) -> Self {
        let reason = FallbackReason::new(cause.code());
        Self { reason, cause }
    }

    /// The diagnosis codes of both sides.
    #[must_use]
    pub const fn reason(&self) -> FallbackReason {
        self.reason
    }

    /// The codes as `smcss` prints them: this side's, and the peer's if it declined.
    #[must_use]
    pub fn smcss(&self) -> String {
        let own = format!("0x{:08x}", self.reason.code.0);
        match self.reason.peer_diagnosis {
            Some(peer) => format!("{own}/0x{:08x}", peer.0),
            None => own,
        }
    }

    /// What made the connection use TCP.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// The side that decided for TCP.
    #[must_use]
    pub fn decided_by(&self) -> Side {
        match self.cause.side() {
            Some(side) => side,
            None if self.reason.peer_diagnosis.is_some() => Side::Peer,
            None => match self.reason.code {
                DiagnosisCode::PEER_DECLINED | DiagnosisCode::PEER_NO_SMC => Side::Peer,
                _ => Side::Here,
            },
        }
    }

    /// One sentence: the reason of the side that decided it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let own = self.cause.sentence();
        own.unwrap_or_else(|| self.deciding_code().sentence().to_owned())
    }

    /// What an operator can do so that such connections use SMC.
    #[must_use]
    pub fn remedy(&self) -> String {
        let own = self.cause.remedy();
        own.unwrap_or_else(|| self.deciding_code().remedy().to_owned())
    }

    /// The more specific code: that of the peer, if there is one.
    fn deciding_code(&self) -> DiagnosisCode {
        self.reason.peer_diagnosis.unwrap_or(self.reason.code)
    }
}

/// Writes one line: `SMC-D v2.1`, or `TCP: ` with the codes and the reason in a sentence.
impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Smc(terms) => {
                write!(f, "{} {}", terms.technology, terms.version)?;
                match terms.version {
                    SmcVersion::V1 => Ok(()),
                    SmcVersion::V2 => write!(f, ".{}", terms.release.number()),
                }
            }
            Self::Tcp(why) => write!(f, "TCP: {why}"),
        }
    }
}

/// Writes the codes with their names, and the reason in a sentence.
impl fmt::Display for WhyTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.reason, self.sentence())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "this side",
            Self::Peer => "the peer",
        })
    }
}

#[cfg(test)]
mod tests;
