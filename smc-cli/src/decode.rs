//! `smcx decode`: the SMC messages of a capture.

mod clc;
mod llc;
mod record;

use std::io::{self, Write};
use std::path::Path;

use smc_transport_sim::capture::CaptureError;
use smc_transport_sim::capture::follow::{self, Item};
use smc_transport_sim::capture::reader::CaptureReader;

use crate::cli::DecodeArguments;
use crate::output::{Failure, plain, reason};

pub use record::{message, record, type_name};

/// Decodes a capture to `stdout`.
///
/// # Errors
/// [`Failure`] if the capture cannot be read to its end, if a message was
/// malformed, or if the output cannot be written.
pub fn run(
    arguments: &DecodeArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let name = arguments.file.display().to_string();
    let problem = |error: CaptureError| Failure::Problem(format!("{name}: {}", sentence(&error)));
    let reader = open(&arguments.file).map_err(problem)?;
    let mut items = follow::items(reader);
    let mut found = 0_u64;
    let mut malformed = 0_u64;
    while let Some(item) = items.next() {
        let item = item.map_err(problem)?;
        found += 1;
        malformed += u64::from(item.content.is_malformed());
        if item.retransmission && !arguments.retransmissions {
            continue;
        }
        let start = items.start().unwrap_or(item.time);
        show(arguments, &item, start, stdout)?;
    }
    stdout.flush()?;
    if found == 0 {
        let frames = items.frames();
        let _ = writeln!(stderr, "smcx: {name}: no SMC in {frames} frames");
    }
    match malformed {
        0 => Ok(()),
        1 => Err(Failure::Problem(format!("{name}: 1 malformed message"))),
        count => Err(Failure::Problem(format!(
            "{name}: {count} malformed messages"
        ))),
    }
}

pub(crate) fn open(path: &Path) -> Result<CaptureReader<'static>, CaptureError> {
    if path.as_os_str() == "-" {
        CaptureReader::new(io::stdin())
    } else {
        CaptureReader::open(path)
    }
}

pub(crate) fn sentence(error: &CaptureError) -> String {
    match error {
        CaptureError::Io(error) => format!("cannot be read: {}", reason(error)),
        error => error.to_string(),
    }
}

fn show(
    arguments: &DecodeArguments,
    item: &Item,
    start: u64,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    if arguments.json {
        let record = record(item, start);
        let line = serde_json::to_string(&record)
            .map_err(|error| Failure::Output(io::Error::other(error)))?;
        writeln!(stdout, "{line}")?;
        return Ok(());
    }
    line(item, start, stdout)?;
    if arguments.verbose {
        for (name, value) in record::details(item).0 {
            writeln!(stdout, "        {name}: {}", plain(&value))?;
        }
    }
    Ok(())
}

/// One line: frame, time, sender and receiver, protocol, message.
fn line(item: &Item, start: u64, stdout: &mut dyn Write) -> io::Result<()> {
    let micros = record::since(item.time, start) / 1_000;
    write!(
        stdout,
        "{:>6} {:>6}.{:06} {:<52} {:<10} {}",
        item.frame,
        micros / 1_000_000,
        micros % 1_000_000,
        item.path.to_string(),
        item.content.protocol(),
        item.content,
    )?;
    if record::crc_valid(item) == Some(false) {
        write!(stdout, " [wrong invariant CRC]")?;
    }
    if item.retransmission {
        write!(stdout, " [retransmission]")?;
    }
    writeln!(stdout)
}
