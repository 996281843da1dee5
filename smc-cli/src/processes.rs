//! The processes that publish what they do.

use std::io::{self, Write};

use smc_view::{Found, MAX_DESCRIPTORS, Unlisted, WhyUnlisted};

use crate::output::Failure;
use crate::ss::row::process_name;

/// Processes that are named as not listed; that there are further ones is said without their names.
const NAMED: usize = 16;

/// The processes whose memory this one may read, one after the other.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn all() -> Result<impl Iterator<Item = Found>, Failure> {
    smc_view::processes()
        .map_err(|error| Failure::Problem(format!("processes cannot be listed: {error}")))
}

/// Names the processes that publish as another version does, and those that have too many descriptors
/// to be sure that they do not publish: what they do is not in a list.
pub(crate) fn write_unlisted(out: &mut dyn Write) -> io::Result<()> {
    let mut unlisted = smc_view::unlisted().into_iter().flatten();
    for process in unlisted.by_ref().take(NAMED) {
        writeln!(out, "{}", sentence(&process))?;
    }
    // One further process is enough: hostile users have many.
    if unlisted.next().is_some() {
        writeln!(out, "further processes like these are not named")?;
    }
    Ok(())
}

fn sentence(of: &Unlisted) -> String {
    let name = process_name(of.process, &of.program);
    match of.why {
        WhyUnlisted::Descriptors => format!(
            "{name} is not listed: it has more than {MAX_DESCRIPTORS} descriptors, and the first \
             {MAX_DESCRIPTORS} are no view"
        ),
        _ => format!(
            "{name} is not listed: it publishes as another version of smcx does; use that version, \
             or restart the program"
        ),
    }
}
