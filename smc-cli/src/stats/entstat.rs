//! The statistics in the fields of AIX' `entstat`, for those who know its device `smc_r0`.
//!
//! Fields and their order are those that IBM's reference of `entstat` has for every device, and a
//! field that a device does not count is 0, as there. What AIX prints behind them for `smc_r0` by
//! `-d` has not been published: those fields are this project's.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use smc_view::{Side, Statistics, Traffic};

use super::text::{connections, reason};

/// Columns of the transmit statistics.
const LEFT: usize = 46;

/// Transmit statistics with the receive statistics beside them. A counter of SMC is behind a
/// name, by the part of its key behind `SMC_`.
const GENERIC: [(Field, Field); 6] = [
    (("Packets", "TX_CNT"), ("Packets", "RX_CNT")),
    (("Bytes", "TX_BYTES"), ("Bytes", "RX_BYTES")),
    (("Interrupts", ""), ("Interrupts", "")),
    (("Transmit Errors", ""), ("Receive Errors", "")),
    (("Packets Dropped", ""), ("Packets Dropped", "")),
    (
        ("S/W Transmit Queue Overflow", "INT_TX_BUF_FULL_PEER_CNT"),
        // Nothing is dropped where a buffer is full.
        ("No Resource Errors", ""),
    ),
];

/// What `-d` adds of each direction, likewise.
const BUFFERS: [(Field, Field); 5] = [
    (
        ("Buffers Allocated", "INT_TX_BUF_ALLOC_CNT"),
        ("Buffers Allocated", "INT_RX_BUF_ALLOC_CNT"),
    ),
    (
        ("Buffers Reused", "INT_TX_BUF_REUSE_CNT"),
        ("Buffers Reused", "INT_RX_BUF_REUSE_CNT"),
    ),
    (
        ("Buffer Bytes in Use", "TX_RMB_USAGE"),
        ("Buffer Bytes in Use", "RX_RMB_USAGE"),
    ),
    (
        ("Buffer Full", "INT_TX_BUF_FULL_CNT"),
        ("Buffer Full", "INT_RX_BUF_FULL_CNT"),
    ),
    (
        ("Buffer Too Small", "INT_TX_BUF_SIZE_SM_CNT"),
        ("Buffer Too Small", "INT_RX_BUF_SIZE_SM_CNT"),
    ),
];

type Field = (&'static str, &'static str);

/// Writes a device for each technology. `since` is when the figures begin, in nanoseconds since
/// 1970, if there is a process; `details` adds what only SMC has.
pub(super) fn write(
    sums: &Statistics,
    since: Option<u64>,
    details: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let now = super::nanoseconds(SystemTime::now());
    let elapsed = Duration::from_nanos(since.map_or(0, |since| now.saturating_sub(since)));
    device(
        "SMC-R",
        "smc_r0",
        &sums.smc_r,
        sums,
        (elapsed, details),
        out,
    )?;
    device(
        "SMC-D",
        "smc_d0",
        &sums.smc_d,
        sums,
        (elapsed, details),
        out,
    )
}

fn device(
    technology: &str,
    name: &str,
    of: &Traffic,
    sums: &Statistics,
    (elapsed, details): (Duration, bool),
    out: &mut dyn Write,
) -> io::Result<()> {
    let seconds = elapsed.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    writeln!(out, "{}", "-".repeat(61))?;
    writeln!(out, "{technology} STATISTICS ({name}) :")?;
    writeln!(
        out,
        "Device Type: {technology} of the programs of this machine"
    )?;
    writeln!(out, "Hardware Address: n/a")?;
    writeln!(
        out,
        "Elapsed Time: {days} days {hours} hours {minutes} minutes {seconds} seconds"
    )?;
    writeln!(out)?;
    beside(out, "Transmit Statistics:", "Receive Statistics:")?;
    beside(out, &"-".repeat(20), &"-".repeat(19))?;
    fields(&GENERIC, of, out)?;
    if !details {
        return writeln!(out);
    }
    writeln!(out, "\n{technology} Specific Statistics:")?;
    writeln!(out, "{}", "-".repeat(26))?;
    fields(&BUFFERS, of, out)?;
    let [client, server] = connections(of);
    for (side, versions) in [("Client", client), ("Server", server)] {
        for (version, count) in versions.into_iter().enumerate() {
            let version = version + 1;
            writeln!(out, "Connections as {side}, Version {version}: {count}")?;
        }
    }
    for (what, counts) in [
        ("Connections over TCP", sums.tcp),
        ("Handshake Errors", sums.handshake_errors),
    ] {
        let [client, server] = counts;
        writeln!(out, "{what} as Client: {client}")?;
        writeln!(out, "{what} as Server: {server}")?;
    }
    for of in &sums.fallbacks {
        let side = match of.side {
            Side::Client => "Client",
            Side::Server => "Server",
        };
        let (code, name, count) = (of.code, reason(of.code), of.count);
        writeln!(out, "TCP as {side} by 0x{code:08x} {name}: {count}")?;
    }
    if technology == "SMC-R" {
        writeln!(
            out,
            "Connections Moved to Another Link: {}",
            sums.link_moves
        )?;
    }
    writeln!(out)
}

fn fields(rows: &[(Field, Field)], of: &Traffic, out: &mut dyn Write) -> io::Result<()> {
    let field = |&(name, key): &Field| format!("{name}: {}", of.get(&format!("SMC_{key}")));
    for (left, right) in rows {
        beside(out, &field(left), &field(right))?;
    }
    Ok(())
}

fn beside(out: &mut dyn Write, left: &str, right: &str) -> io::Result<()> {
    writeln!(out, "{left:<LEFT$}{right}")
}

#[cfg(test)]
mod tests {
    use smc_view::{Fallback, KEYS, Side, Statistics};

    fn statistics() -> Statistics {
        let mut sums = Statistics::default();
        let mut set = |key: &str, value| {
            let at = KEYS.iter().position(|at| *at == key).unwrap();
            sums.smc_r.0[at] = value;
        };
        set("SMC_TX_CNT", 1_108_055);
        set("SMC_RX_CNT", 750_811);
        set("SMC_TX_BYTES", 4_909_388_501);
        set("SMC_RX_BYTES", 57_705_832);
        set("SMC_INT_TX_BUF_FULL_PEER_CNT", 3);
        set("SMC_INT_RX_BUF_ALLOC_CNT", 5);
        set("SMC_INT_RX_BUF_REUSE_CNT", 9);
        set("SMC_INT_TX_BUF_FULL_CNT", 10);
        set("SMC_INT_RX_BUF_FULL_CNT", 11);
        set("SMC_CLNT_V2_SUCC_CNT", 8);
        (sums.tcp, sums.handshake_errors, sums.link_moves) = ([6, 7], [1, 2], 4);
        sums.fallbacks = vec![Fallback::new(0x0303_0002, Side::Server, 7)];
        sums
    }

    fn shown(details: bool) -> String {
        let elapsed = std::time::Duration::from_secs(86_400 + 18 * 3600 + 47 * 60 + 34);
        let since = std::time::SystemTime::now() - elapsed;
        let since = Some(super::super::nanoseconds(since));
        let mut text = Vec::new();
        super::write(&statistics(), since, details, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn fields_are_where_entstat_has_them() {
        let text = shown(false);
        let expected = "\
-------------------------------------------------------------
SMC-R STATISTICS (smc_r0) :
Device Type: SMC-R of the programs of this machine
Hardware Address: n/a
Elapsed Time: 1 days 18 hours 47 minutes 34 seconds

Transmit Statistics:                          Receive Statistics:
--------------------                          -------------------
Packets: 1108055                              Packets: 750811
Bytes: 4909388501                             Bytes: 57705832
Interrupts: 0                                 Interrupts: 0
Transmit Errors: 0                            Receive Errors: 0
Packets Dropped: 0                            Packets Dropped: 0
S/W Transmit Queue Overflow: 3                No Resource Errors: 0

-------------------------------------------------------------
SMC-D STATISTICS (smc_d0) :
";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn details_add_what_only_smc_has() {
        let text = shown(true);
        let expected = "\
SMC-R Specific Statistics:
--------------------------
Buffers Allocated: 0                          Buffers Allocated: 5
Buffers Reused: 0                             Buffers Reused: 9
Buffer Bytes in Use: 0                        Buffer Bytes in Use: 0
Buffer Full: 10                               Buffer Full: 11
Buffer Too Small: 0                           Buffer Too Small: 0
Connections as Client, Version 1: 0
Connections as Client, Version 2: 8
Connections as Server, Version 1: 0
Connections as Server, Version 2: 0
Connections over TCP as Client: 6
Connections over TCP as Server: 7
Handshake Errors as Client: 1
Handshake Errors as Server: 2
TCP as Server by 0x03030002 NOSMCRDEV: 7
Connections Moved to Another Link: 4
";
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.matches("Connections Moved").count(), 1, "{text}");
    }

    /// A key that is misspelt would be 0 for ever.
    #[test]
    fn every_key_is_one_that_is_counted() {
        let rows = super::GENERIC.iter().chain(&super::BUFFERS);
        let fields = rows.flat_map(|(left, right)| [left, right]);
        for (name, key) in fields.filter(|(_, key)| !key.is_empty()) {
            assert!(KEYS.contains(&&*format!("SMC_{key}")), "{name}: {key}");
        }
    }
}
