//! Events as lines of text.

use std::fmt::Write as _;
use std::io::{self, Write};

use smc_proto::trace::Kind;
use smc_view::trace::Unread;

use super::Happened;

/// Writes an event: seconds since the trace began, process and stack, object, addresses, kind with
/// its fields.
pub(super) fn event(
    of: &Happened,
    origin: u64,
    verbose: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let entry = &of.entry;
    let ends = of.tuple().unwrap_or_else(|| "-".to_owned());
    write!(
        out,
        "{} {}/{} {} {ends} {}",
        seconds(of.at, origin),
        of.process,
        of.stack,
        entry.subject,
        entry.event
    )?;
    if verbose {
        write!(out, "  # {}", entry.event.kind().meaning())?;
    }
    writeln!(out)
}

/// Writes how many events were not read.
pub(super) fn unread(unread: Unread, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", unread_words(unread))
}

/// What was not read, in words.
pub(super) fn unread_words(unread: Unread) -> String {
    let Unread { lost, unknown, .. } = unread;
    match (lost, unknown) {
        (lost, 0) => format!("... {lost} events lost: written faster than they were read"),
        (0, unknown) => format!("... {unknown} events of unknown kinds"),
        (lost, unknown) => format!("... {lost} events lost, {unknown} of unknown kinds"),
    }
}

/// Seconds with six digits behind the point.
fn seconds(at: u64, origin: u64) -> String {
    let (sign, time) = match at.checked_sub(origin) {
        Some(since) => ("", since),
        // The clock was set back, or the process lies.
        None => ("-", origin - at),
    };
    let (whole, rest) = (time / 1_000_000_000, time % 1_000_000_000 / 1000);
    format!("{:>11}", format!("{sign}{whole}.{rest:06}"))
}

/// Writes all kinds with their fields.
pub(super) fn kinds(out: &mut dyn Write) -> io::Result<()> {
    for kind in Kind::ALL {
        let mut line = format!("{:<24} {}", kind.full_name(), kind.meaning());
        for field in kind.fields() {
            let _ = write!(line, "\n    {:<20} {}", field.name, field.meaning);
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn times_are_in_seconds_since_the_beginning() {
        assert_eq!(seconds(1_500_000_999, 500_000_000).trim(), "1.000000");
        assert_eq!(seconds(0, 1_001_000).trim(), "-0.001001");
        assert_eq!(seconds(u64::MAX, 0).trim(), "18446744073.709551");
    }
}
