//! What carried the connections.

use std::fmt;
use std::io::{self, Write};

use smc_run::statistics::Counts;

use crate::output::grouped;

/// Writes a line for each process, and one for each reason why it had TCP connections.
pub(super) fn text(all: &[Counts], to: &mut dyn Write) -> io::Result<()> {
    if all.is_empty() {
        return writeln!(to, "smcx: no TCP connection was made or accepted");
    }
    for counts in all {
        writeln!(to, "smcx: {}: {}", Name(counts), Carried(counts))?;
        for (sentence, count) in &counts.reasons {
            let count = grouped(*count);
            match String::from_utf8_lossy(sentence) {
                none if none.is_empty() => {
                    writeln!(to, "smcx:   {count} over TCP: the reason is not known")?;
                }
                sentence => writeln!(to, "smcx:   {count} over TCP: {}", printable(&sentence))?,
            }
        }
    }
    Ok(())
}

/// The sentence about TCP connections for which the policy permits SMC.
pub(super) fn tcp(count: u64) -> String {
    match count {
        1 => "1 connection was TCP".to_owned(),
        more => format!("{} connections were TCP", grouped(more)),
    }
}

/// Which process it was.
struct Name<'a>(&'a Counts);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.process {
            Some(process) => {
                let name = String::from_utf8_lossy(&self.0.name);
                write!(f, "{} ({process})", printable(&name))
            }
            None => f.write_str("further processes"),
        }
    }
}

/// Connections by carrier.
struct Carried<'a>(&'a Counts);

impl fmt::Display for Carried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0;
        let mut carried = Vec::new();
        for (count, carrier) in [
            (counts.ism, "SMC-D"),
            (counts.verbs, "SMC-R"),
            (counts.tcp_wanted, "TCP"),
            (counts.tcp_forbidden, "TCP by policy"),
        ] {
            if count > 0 {
                carried.push(format!("{} {carrier}", grouped(count)));
            }
        }
        if carried.is_empty() {
            carried.push("no connection".to_owned());
        }
        f.write_str(&carried.join(", "))?;
        if counts.smc() > 0 {
            let (sent, received) = (grouped(counts.sent), grouped(counts.received));
            write!(f, "; {sent} bytes sent and {received} received over SMC")?;
        }
        if counts.refused > 0 {
            write!(f, "; {} refused", Calls(counts.refused))?;
        }
        Ok(())
    }
}

struct Calls(u64);

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = if self.0 == 1 { "call" } else { "calls" };
        write!(f, "{} {calls}", grouped(self.0))
    }
}

/// A text of the program's without what would control a terminal.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().any(char::is_control) {
        return text
            .chars()
            .flat_map(char::escape_default)
            .collect::<String>()
            .into();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(all: &[Counts]) -> String {
        let mut lines = Vec::new();
        text(all, &mut lines).unwrap();
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn each_process_has_its_carriers_and_reasons() {
        let server = Counts {
            process: Some(4711),
            name: b"redis-server".to_vec(),
            ism: 1_051,
            tcp_wanted: 2,
            tcp_forbidden: 1,
            sent: 1_000_000,
            received: 5,
            refused: 1,
            reasons: vec![(b"The peer does not use SMC.".to_vec(), 2), (Vec::new(), 1)],
            ..Counts::default()
        };
        let others = Counts {
            verbs: 1,
            ..Counts::default()
        };
        assert_eq!(
            shown(&[server, others]),
            "smcx: redis-server (4711): 1,051 SMC-D, 2 TCP, 1 TCP by policy; \
             1,000,000 bytes sent and 5 received over SMC; 1 call refused\n\
             smcx:   2 over TCP: The peer does not use SMC.\n\
             smcx:   1 over TCP: the reason is not known\n\
             smcx: further processes: 1 SMC-R; 0 bytes sent and 0 received over SMC\n"
        );
    }

    #[test]
    fn without_connections_the_report_says_so() {
        assert_eq!(shown(&[]), "smcx: no TCP connection was made or accepted\n");
    }

    /// A program chooses its name.
    #[test]
    fn names_do_not_control_the_terminal() {
        let counts = Counts {
            process: Some(1),
            name: b"\x1b[2J\xff".to_vec(),
            refused: 2,
            ..Counts::default()
        };
        assert_eq!(
            shown(&[counts]),
            "smcx: \\u{1b}[2J\\u{fffd} (1): no connection; 2 calls refused\n"
        );
    }
}
