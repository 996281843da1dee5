//! `smcx ss`: connections of programs with smc-sockets, and those of the kernel's SMC.

mod json;
pub mod kernel;
mod ours;
pub mod row;

use std::io::Write;
use std::thread;
use std::time::Duration;

use smc_view::state;

use crate::cli::SsArguments;
use crate::output::Failure;
use row::{Columns, Mode, Row};

/// Shows the connections, once or again and again.
///
/// # Errors
/// `/proc` cannot be read, the kernel refuses the list of its sockets, or the output cannot be
/// written.
pub fn run(
    arguments: &SsArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    loop {
        let missing = show(arguments, stdout)?;
        stdout.flush()?;
        let Some(seconds) = arguments.watch else {
            return missing.map_or(Ok(()), Err);
        };
        if let Some(missing) = missing {
            // A closed error stream keeps nothing from being shown.
            let _ = writeln!(stderr, "smcx: {missing}");
        }
        thread::sleep(Duration::from_secs(seconds));
        if !arguments.json {
            writeln!(stdout)?;
        }
    }
}

/// Shows the connections; returns what is missing of those of the kernel.
fn show(arguments: &SsArguments, stdout: &mut dyn Write) -> Result<Option<Failure>, Failure> {
    let (of_kernel, outcome) = kernel::rows();
    let missing = outcome.err().and_then(|refusal| refusal.of("sockets"));
    let rows = ours::rows()?.chain(of_kernel);
    let rows = rows.filter(|row| is_wanted(arguments, row));
    if arguments.json {
        for row in rows {
            writeln!(stdout, "{}", json::of(&row))?;
        }
        return Ok(missing);
    }
    let columns = Columns {
        details: arguments.details,
        smcd: arguments.smcd,
        smcr: arguments.smcr,
        wide: arguments.wide,
    };
    let header = columns.header();
    let space = if header.ends_with(' ') { "" } else { " " };
    writeln!(stdout, "{header}{space}Process")?;
    for row in rows {
        writeln!(stdout, "{}{}", columns.line(&row), row.process())?;
        if arguments.explain
            && let Some((why, remedy)) = row.why()
        {
            writeln!(stdout, "    why: {why}\n    what to do: {remedy}")?;
        }
    }
    crate::processes::write_unlisted(stdout)?;
    Ok(missing)
}

fn is_wanted(arguments: &SsArguments, row: &Row) -> bool {
    let is_listener = row.state == state::LISTEN;
    if arguments.listening {
        return is_listener;
    }
    let is_hidden = is_listener || row.state == state::INIT;
    (arguments.all || !is_hidden)
        && (!arguments.smcd || row.mode == Mode::SmcD)
        && (!arguments.smcr || row.mode == Mode::SmcR)
}
