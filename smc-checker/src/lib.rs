//! A judge of SMC conversations: follows a capture and reports what in it breaks
//! RFC 7609, or the statements of `docs/smc-v2.md` and `docs/smc-d.md`.
//!
//! The checker reads messages with the parsers of `smc-proto` and knows nothing of the
//! engine's decisions: what it holds against a message is only what other messages
//! of the capture contained. Where a capture begins in the middle or lost frames, rules
//! that would need those pass, and [`Report::unjudged`] counts it. Memory stays
//! bounded whatever the capture holds.
//!
//! ```
//! # fn main() -> Result<(), smc_capture::CaptureError> {
//! # let mut bytes = Vec::new();
//! # smc_capture::writer::CaptureWriter::new(&mut bytes)?;
//! let report = smc_checker::check(bytes.as_slice())?;
//! assert!(report.is_clean(), "{:?}", report.findings);
//! # Ok(())
//! # }
//! ```
//!
//! The rules are in `rules`, one file for each chapter, each rule a row of a table
//! with a function of its own; what they may read is in `state`.

mod checker;
mod deviation;
mod known;
mod live;
mod order;
mod report;
mod rule;
mod rules;
mod state;
mod view;

use std::io::Read;

use smc_capture::CaptureError;
use smc_capture::reader::CaptureReader;

pub use checker::Checker;
pub use deviation::{DEVIATIONS, Deviation, Whose};
pub use live::Live;
pub use report::{Finding, Report, Seen};
pub use rule::{Chapter, Rule};
pub use rules::all as rules;

/// Judges a capture: pcap or pcapng, gzip or not.
///
/// # Errors
/// [`CaptureError`] if it cannot be read to its end.
pub fn check(capture: impl Read) -> Result<Report, CaptureError> {
    check_frames(CaptureReader::new(capture)?)
}

/// Judges the frames of a capture.
///
/// # Errors
/// [`CaptureError`] if it cannot be read to its end.
pub fn check_frames(capture: CaptureReader<'_>) -> Result<Report, CaptureError> {
    let mut checker = Checker::default();
    for frame in capture {
        checker.push(&frame?);
    }
    Ok(checker.finish())
}
