//! The processes that publish what they do.

use std::io::{self, Write};

use smc_view::Found;

use crate::output::Failure;
use crate::ss::row::process_name;

/// Processes of another version that are named; that there are further ones is said without their names.
const NAMED: usize = 16;

/// The processes that this one may look into, one after the other.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn all() -> Result<impl Iterator<Item = Found>, Failure> {
    smc_view::processes()
        .map_err(|error| Failure::Problem(format!("processes cannot be listed: {error}")))
}

/// Names the processes whose views this version cannot read, if there are any: what they do is not
/// in a list.
pub(crate) fn write_unreadable(out: &mut dyn Write) -> io::Result<()> {
    let mut unreadable = smc_view::unreadable().into_iter().flatten();
    for (process, program) in unreadable.by_ref().take(NAMED) {
        writeln!(
            out,
            "{} is not listed: it publishes as another version of smcx does; use that version, or \
             restart the program",
            process_name(process, &program)
        )?;
    }
    // Looking for one further process is enough: hostile users have many.
    if unreadable.next().is_some() {
        writeln!(out, "further processes like these are not named")?;
    }
    Ok(())
}
