//! `smcx devices`: what of this machine could carry SMC, and why not.

mod facts;
pub mod kernel;
mod report;
mod table;

use std::io::Write;

use crate::cli::DevicesArguments;
use crate::netlink::Refusal;
use crate::output::Failure;
use crate::policy;
pub use facts::Devices;

/// Runs the command.
///
/// # Errors
/// Messages for the user, that the kernel refuses the list of its devices among them. A lack of
/// devices is none.
pub fn run(arguments: &DevicesArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let policy = policy::load(&arguments.policy)?;
    let devices = Devices::of(&arguments.sysfs, &policy)
        .map_err(|error| Failure::Problem(format!("devices: {error}")))?;
    if arguments.details {
        let groups = crate::links::all()?;
        let (of_kernel, outcome) = kernel::devices();
        let missing = outcome.err().and_then(|refusal| refusal.of("devices"));
        match arguments.json {
            true => {
                let mut object = table::object(&devices, &arguments.sysfs, &groups);
                if outcome != Err(Refusal::Absent)
                    && let Some(map) = object.as_object_mut()
                {
                    map.insert("kernel".into(), kernel::object(&of_kernel));
                }
                writeln!(stdout, "{object}")?;
            }
            false => {
                table::write(&devices, &arguments.sysfs, &groups, stdout)?;
                kernel::write(&of_kernel, stdout)?;
            }
        }
        return missing.map_or(Ok(()), Err);
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
