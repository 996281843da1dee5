//! What carries a connection, and why.

mod cause;

use std::fmt;

use smc_proto::event::FallbackReason;
use smc_proto::version::{SmcVersion, Terms};
use smc_proto::wire::types::DiagnosisCode;

pub use cause::{Cause, Limit, OptionMissing};

/// What carries the bytes of a connection; decided before it is handed out, and for
/// good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Carrier {
    /// SMC, on these terms.
    Smc(Terms),
    /// TCP, for this reason.
    Tcp(WhyTcp),
}

/// Why TCP carries a connection: the codes, and what led to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WhyTcp {
    reason: FallbackReason,
    cause: Cause,
}

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Decided by this side.
    Here,
    /// The other one.
    Peer,
}

impl Carrier {
    /// TCP for a reason that this side found before anything was negotiated.
    pub(crate) const fn tcp(cause: Cause) -> Self {
        Self::Tcp(WhyTcp::here(cause))
    }

    /// TCP because negotiation came to it; what this side knows beyond the codes.
    pub(crate) fn fallen_back(reason: FallbackReason, known: Option<Cause>) -> Self {
        // What the peer declined for is its own matter.
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

    /// Why it is TCP, if it is.
    #[must_use]
    pub const fn why_tcp(&self) -> Option<&WhyTcp> {
        match self {
            Self::Tcp(why) => Some(why),
            Self::Smc(_) => None,
        }
    }
}

impl WhyTcp {
    /// What this side found before anything was negotiated.
    pub(crate) const fn here(cause: Cause) -> Self {
        let reason = FallbackReason {
            code: cause.code(),
            peer_diagnosis: None,
        };
        Self { reason, cause }
    }

    /// The codes of both sides.
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

    /// What led to it.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// Which side decided it.
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

    /// What to do about it.
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

/// One line: `SMC-D v2.1`, or `TCP: ` with the code and a sentence that says what the
/// side that declined ran into.
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

/// The codes with their names, and the sentence.
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
