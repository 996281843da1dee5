//! The processes that publish what they do.

use smc_view::Found;

use crate::output::Failure;

/// The processes that this one may look into, one after the other.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn all() -> Result<impl Iterator<Item = Found>, Failure> {
    smc_view::processes()
        .map_err(|error| Failure::Problem(format!("processes cannot be listed: {error}")))
}
