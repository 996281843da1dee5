//! `smcx devices`: what of this machine could carry SMC, and why not.

mod facts;
mod report;
mod table;

use std::io::Write;

use crate::cli::DevicesArguments;
use crate::output::Failure;
use crate::policy;
pub use facts::Devices;

/// Runs the command.
///
/// # Errors
/// Messages for the user. A lack of devices is none.
pub fn run(arguments: &DevicesArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let policy = policy::load(&arguments.policy)?;
    let devices = Devices::of(&arguments.sysfs, &policy)
        .map_err(|error| Failure::Problem(format!("devices: {error}")))?;
    if arguments.details {
        let groups = crate::links::all()?;
        match arguments.json {
            true => {
                let object = table::object(&devices, &arguments.sysfs, &groups);
                writeln!(stdout, "{object}")?;
            }
            false => table::write(&devices, &arguments.sysfs, &groups, stdout)?,
        }
        return Ok(());
    }
    if arguments.json {
        let line =
            serde_json::to_string(&devices).map_err(|error| Failure::Output(error.into()))?;
        writeln!(stdout, "{line}")?;
        return Ok(());
    }
    report::text(&devices, stdout)?;
    Ok(())
}
