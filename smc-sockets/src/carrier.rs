//! What carries a connection, and why.

use std::fmt;

use smc_proto::event::FallbackReason;
use smc_proto::version::{SmcVersion, Terms};
use smc_proto::wire::types::DiagnosisCode;

/// What carries the octets of a connection; decided before it is handed out, and for
/// good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Carrier {
    /// SMC, on these terms.
    Smc(Terms),
    /// TCP, for this reason.
    Tcp(FallbackReason),
}

impl Carrier {
    /// TCP because this side did not try SMC, or the peer does not know it.
    pub(crate) const PLAIN: Self = Self::Tcp(FallbackReason {
        code: DiagnosisCode::PEER_NO_SMC,
        peer_diagnosis: None,
    });

    /// Whether SMC carries the connection.
    #[must_use]
    pub const fn is_smc(&self) -> bool {
        matches!(self, Self::Smc(_))
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
            Self::Tcp(why) => {
                let code = why.peer_diagnosis.unwrap_or(why.code);
                write!(f, "TCP: {why}. {}", code.sentence())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smc_proto::version::Technology;
    use smc_proto::wire::types::Release;

    #[test]
    fn a_carrier_is_told_in_one_line() {
        let mut terms = Terms::of(Technology::SmcD, SmcVersion::V2);
        terms.release = Release::V2_1;
        assert_eq!(Carrier::Smc(terms).to_string(), "SMC-D v2.1");
        let v1 = Terms::of(Technology::SmcR, SmcVersion::V1);
        assert_eq!(Carrier::Smc(v1).to_string(), "SMC-R v1");
        assert_eq!(
            Carrier::PLAIN.to_string(),
            "TCP: 0x03010000 (peer does not speak SMC). The other side offered no SMC at all, \
             or none of a kind that the sender knows."
        );
        let declined = Carrier::Tcp(FallbackReason {
            code: DiagnosisCode::PEER_DECLINED,
            peer_diagnosis: Some(DiagnosisCode::MEMORY),
        });
        assert!(declined.to_string().ends_with("state of a connection."));
    }
}
