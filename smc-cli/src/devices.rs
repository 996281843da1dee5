//! `smcx devices`: what of this machine could carry SMC, and why not.

mod facts;
pub mod kernel;
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
        // Without SMC in the kernel there are none of its.
        let of_kernel = kernel::devices().ok();
        match arguments.json {
            true => {
                let mut object = table::object(&devices, &arguments.sysfs, &groups);
                if let (Some(of_kernel), Some(map)) = (&of_kernel, object.as_object_mut()) {
                    map.insert("kernel".into(), kernel::object(of_kernel));
                }
                writeln!(stdout, "{object}")?;
            }
            false => {
                table::write(&devices, &arguments.sysfs, &groups, stdout)?;
                kernel::write(of_kernel.as_deref().unwrap_or_default(), stdout)?;
            }
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
