//! One run, with its messages and its frames.

use std::fs::File;
use std::io::{BufWriter, Write};

use smc_capture::writer::CaptureWriter;
use smc_transport_sim::chaos;

use super::Findings;
use crate::cli::SimArguments;
use crate::demo::unwritable;
use crate::output::Failure;

/// Messages that are shown, the latest ones; no run has more.
const MESSAGES: usize = 1 << 20;

/// Runs a seed. With JSON its messages are returned, otherwise shown.
pub(super) fn run(
    seed: u64,
    arguments: &SimArguments,
    stdout: &mut dyn Write,
) -> Result<(Findings, Option<Vec<String>>), Failure> {
    let name = arguments
        .pcap
        .as_ref()
        .map(|path| path.display().to_string());
    let name = name.unwrap_or_default();
    let failed = |error| unwritable(&name, &error);
    let capture = match &arguments.pcap {
        None => None,
        Some(path) => {
            let file = File::create(path).map_err(|error| failed(error.into()))?;
            Some(CaptureWriter::new(BufWriter::new(file)).map_err(failed)?)
        }
    };
    let messages = if arguments.trace { MESSAGES } else { 0 };
    let (_, ladder) = chaos::replay(seed, messages, capture).map_err(failed)?;
    // A second run of the seed, which is the same, so that a seed fails here as it does
    // among others.
    let mut findings = Findings::default();
    findings.run(seed, arguments.judges());
    let mut messages_shown = None;
    if arguments.json {
        messages_shown = arguments.trace.then(|| ladder.messages());
    } else if arguments.trace {
        writeln!(stdout, "{ladder}")?;
    }
    Ok((findings, messages_shown))
}
