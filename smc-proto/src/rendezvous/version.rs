//! Which technology and version a connection gets: pure functions over what the
//! client proposed, what this side is configured for, and its paths.

mod client;
mod server;
#[cfg(test)]
mod tests;

#[cfg(feature = "smc-d")]
pub(crate) use client::confirm_terms;
pub(crate) use client::{accepted, offer};
pub(crate) use server::{Choice, choose, confirmed};

use crate::config::{Config, LEAST_CONNECTIONS};
use crate::wire::types::DiagnosisCode;

/// The limits of a group at release 1, as the lower of both sides' or as an Accept
/// has them.
//= V2-103
//= V2-132
fn judge_limits(connections: u8, links: u8) -> Result<(), DiagnosisCode> {
    if connections < LEAST_CONNECTIONS {
        return Err(DiagnosisCode::MAX_CONNECTIONS);
    }
    if links < 1 {
        return Err(DiagnosisCode::MAX_LINKS);
    }
    Ok(())
}

/// Whether this side can be found by an EID.
fn has_eids(config: &Config) -> bool {
    !config.v2.ueids.as_slice().is_empty()
}
