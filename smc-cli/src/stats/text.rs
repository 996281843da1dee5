//! The statistics as `smcr stats` and `smcd stats` show them.

use std::cmp::Reverse;
use std::io::{self, Write};

use smc_view::{Side, Statistics, Traffic};

/// Most reasons of TCP that are shown of a side.
const REASONS: usize = 3;

/// Names of reasons as `smcr stats` has them; any other one is `[unknown]`.
const NAMES: [(u32, &str); 26] = [
    (0x0101_0000, "MEMORY"),
    (0x0201_0000, "TIMEOUT_CL"),
    (0x0202_0000, "TIMEOUT_AL"),
    (0x0300_0000, "CNF_ERR"),
    (0x0301_0000, "PEER_NO_SMC"),
    (0x0302_0000, "IPSEC"),
    (0x0303_0000, "NOSMCDEV"),
    (0x0303_0001, "NOSMCDDEV"),
    (0x0303_0002, "NOSMCRDEV"),
    (0x0303_0003, "NOISM2SUPP"),
    (0x0303_0004, "NOV2EXT"),
    (0x0303_0005, "NOV2DEXT"),
    (0x0303_0006, "NOSEID"),
    (0x0303_0007, "NOSMCD2DEV"),
    (0x0304_0000, "MODEUNSUPP"),
    (0x0305_0000, "RMBE_EC"),
    (0x0306_0000, "OPTUNSUPP"),
    (0x0307_0000, "DIFFPREFIX"),
    (0x0308_0000, "GETVLANERR"),
    (0x0309_0000, "ISMVLANERR"),
    (0x030a_0000, "NOACTLINK"),
    (0x030b_0000, "NOSRVLINK"),
    (0x030c_0000, "VERSMISMAT"),
    (0x030d_0000, "MAX_DMB"),
    (0x0400_0000, "SYNCERR"),
    (0x0500_0000, "PEERDECL"),
];

/// The name of a reason.
pub(super) fn reason(code: u32) -> &'static str {
    let named = NAMES.iter().find(|(of, _)| *of == code);
    named.map_or("[unknown]", |(_, name)| name)
}

/// Connections of a technology that were the client, and the server, by version.
pub(super) fn connections(of: &Traffic) -> [[u64; 2]; 2] {
    ["CLNT", "SRV"]
        .map(|side| ["V1", "V2"].map(|version| of.get(&format!("SMC_{side}_{version}_SUCC_CNT"))))
}

/// Writes both technologies; `details` has client and server apart, and rarer counters.
pub(super) fn write(sums: &Statistics, details: bool, out: &mut dyn Write) -> io::Result<()> {
    technology("SMC-D", &sums.smc_d, sums, details, out)?;
    writeln!(out)?;
    technology("SMC-R", &sums.smc_r, sums, details, out)
}

fn sum(values: [u64; 2]) -> u64 {
    let [one, other] = values;
    one.saturating_add(other)
}

fn technology(
    name: &str,
    of: &Traffic,
    sums: &Statistics,
    details: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let get = |key: &str| of.get(key);
    let [client, server] = connections(of);
    let sides = [sum(client), sum(server)];
    let (errors, tcp) = (sum(sums.handshake_errors), sum(sums.tcp));
    let carried = sum(sides);
    let total = carried.saturating_add(errors).saturating_add(tcp);
    let requests = get("SMC_TX_CNT").saturating_add(get("SMC_RX_CNT"));
    let average = requests as f64 / carried.max(1) as f64;
    let apart = |[client, server]: [u64; 2]| match details {
        true => format!(" (client {client}, server {server})"),
        false => String::new(),
    };
    writeln!(out, "{name} Connections Summary")?;
    row(out, "Total connections handled", total, "")?;
    row(out, "SMC connections", carried, &apart(sides))?;
    if details {
        let versions = client.iter().zip(server);
        for (version, (client, server)) in versions.enumerate() {
            let version = format!("  v{}", version + 1);
            row(out, &version, client.saturating_add(server), "")?;
        }
    }
    row(
        out,
        "Handshake errors",
        errors,
        &apart(sums.handshake_errors),
    )?;
    writeln!(out, "  Avg requests per SMC conn  {average:>14.1}")?;
    row(out, "TCP fallback", tcp, &apart(sums.tcp))?;
    if details {
        reasons(sums, out)?;
    }
    for direction in ["RX", "TX"] {
        let bytes = get(&format!("SMC_{direction}_BYTES"));
        let requests = get(&format!("SMC_{direction}_CNT"));
        let usage = get(&format!("SMC_{direction}_RMB_USAGE"));
        let buffers = |what: &str| get(&format!("SMC_INT_{direction}_BUF_{what}_CNT"));
        writeln!(out, "\n{direction} Stats")?;
        writeln!(
            out,
            "  Data transmitted (Bytes) {bytes:>14} ({})",
            short(bytes)
        )?;
        row(out, "Total requests", requests, "")?;
        let usage_short = format!(" ({})", short(usage));
        row(out, "Buffer usage (Bytes)", usage, &usage_short)?;
        let rows: &[(&str, &str)] = match direction {
            "RX" => &[("Buffer full", "FULL")],
            _ => &[
                ("Buffer full", "FULL"),
                ("Buffer full (remote)", "FULL_PEER"),
                ("Buffer too small", "SIZE_SM"),
                ("Buffer too small (remote)", "SIZE_SM_PEER"),
            ],
        };
        for (name, key) in rows {
            let count = buffers(key);
            let percent = 100.0 * count as f64 / requests.max(1) as f64;
            row(out, name, count, &format!(" ({percent:.2}%)"))?;
        }
        if details {
            row(out, "Buffer downgrades", buffers("DGRADE"), "")?;
            row(out, "Buffer reuses", buffers("REUSE"), "")?;
        }
        writeln!(
            out,
            "            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB"
        )?;
        sizes("Bufs", of, &format!("SMC_INT_{direction}_BUF"), out)?;
        sizes("Reqs", of, &format!("SMC_USR_{direction}_BUF"), out)?;
    }
    let special = [
        ("cork", "CORK"),
        ("nodelay", "NDLY"),
        ("sendpage", "SENDPAGE"),
        ("splice", "SPLICE"),
        ("urgent data", "URG_DATA"),
    ];
    let special = special.map(|(name, key)| (name, get(&format!("SMC_{key}_CNT"))));
    let all = special.iter().map(|(_, count)| *count);
    writeln!(out, "\nExtras")?;
    let all = all.fold(0, u64::saturating_add);
    row(out, "Special socket calls", all, "")?;
    if details {
        for (name, count) in special {
            row(out, &format!("  {name}"), count, "")?;
        }
    }
    Ok(())
}

fn row(out: &mut dyn Write, name: &str, value: u64, behind: &str) -> io::Result<()> {
    writeln!(out, "  {name:<27}{value:>12}{behind}")
}

/// The commonest reasons of TCP of each side, as many as `smcr stats` has.
fn reasons(sums: &Statistics, out: &mut dyn Write) -> io::Result<()> {
    for (side, name) in [(Side::Server, "Server"), (Side::Client, "Client")] {
        let of_side = sums.fallbacks.iter().filter(|of| of.side == side);
        let mut counted: Vec<_> = of_side.map(|of| (of.count, of.code)).collect();
        counted.sort_unstable_by_key(|&(count, code)| (Reverse(count), code));
        if !counted.is_empty() {
            writeln!(out, "    {name}")?;
        }
        for (count, code) in counted.into_iter().take(REASONS) {
            writeln!(out, "     {:<12}            {count:>12}", reason(code))?;
        }
    }
    Ok(())
}

/// Counts by sizes; the last two have a column together.
fn sizes(name: &str, of: &Traffic, keys: &str, out: &mut dyn Write) -> io::Result<()> {
    let columns = ["8K", "16K", "32K", "64K", "128K", "256K", "512K"];
    write!(out, "  {name}   ")?;
    for column in columns {
        write!(out, "{:>6}  ", short(of.get(&format!("{keys}_{column}"))))?;
    }
    let [large, larger] = ["1024K", "G_1024K"].map(|column| of.get(&format!("{keys}_{column}")));
    writeln!(out, "{:>6}", short(large.saturating_add(larger)))
}

/// A number in at most six columns.
fn short(value: u64) -> String {
    let mut scaled = value as f64;
    if value < 1000 {
        return value.to_string();
    }
    for letter in ["K", "M", "G", "T", "P"] {
        scaled /= 1000.0;
        // What is rounded to 1000 has the next letter.
        if scaled < 999.95 || letter == "P" {
            let places = match scaled {
                ..9.9995 => 3,
                ..99.995 => 2,
                _ => 1,
            };
            return format!("{scaled:.places$}{letter}");
        }
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use smc_view::{Fallback, KEYS, Side, Statistics, Traffic};

    use super::short;

    /// Each counter of a technology has another value.
    fn traffic(first: u64) -> Traffic {
        let mut traffic = Traffic::default();
        for (at, value) in traffic.0.iter_mut().enumerate() {
            *value = first + at as u64;
        }
        traffic
    }

    fn statistics() -> Statistics {
        let fallback = Fallback::new;
        let mut value = Statistics::default();
        value.smc_d = traffic(100);
        value.tcp = [9, 4];
        value.handshake_errors = [2, 1];
        value.fallbacks = vec![
            fallback(0x0301_0000, Side::Client, 1),
            fallback(0x0101_0000, Side::Client, 2),
            fallback(0x0303_0002, Side::Client, 5),
            fallback(0x0303_0008, Side::Client, 1),
            fallback(0x0300_0000, Side::Server, 3),
            fallback(0x0303_0009, Side::Server, 1),
        ];
        value
    }

    fn shown(details: bool) -> String {
        let mut text = Vec::new();
        super::write(&statistics(), details, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn details_have_the_rows_of_smc_tools() {
        assert_eq!(KEYS[50], "SMC_CLNT_V1_SUCC_CNT");
        let expected = "\
SMC-D Connections Summary
  Total connections handled           622
  SMC connections                     606 (client 301, server 305)
    v1                                302
    v2                                304
  Handshake errors                      3 (client 2, server 1)
  Avg requests per SMC conn             0.5
  TCP fallback                         13 (client 9, server 4)
    Server
     CNF_ERR                            3
     [unknown]                          1
    Client
     NOSMCRDEV                          5
     MEMORY                             2
     PEER_NO_SMC                        1

RX Stats
  Data transmitted (Bytes)            159 (159)
  Total requests                      161
  Buffer usage (Bytes)                163 (163)
  Buffer full                         146 (90.68%)
  Buffer downgrades                   149
  Buffer reuses                       147
            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB
  Bufs      109     110     111     112     113     114     115     233
  Reqs      127     128     129     130     131     132     133     269

TX Stats
  Data transmitted (Bytes)            160 (160)
  Total requests                      162
  Buffer usage (Bytes)                164 (164)
  Buffer full                         139 (85.80%)
  Buffer full (remote)                138 (85.19%)
  Buffer too small                    137 (84.57%)
  Buffer too small (remote)           136 (83.95%)
  Buffer downgrades                   142
  Buffer reuses                       140
            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB
  Bufs      100     101     102     103     104     105     106     215
  Reqs      118     119     120     121     122     123     124     251

Extras
  Special socket calls                780
    cork                              157
    nodelay                           158
    sendpage                          154
    splice                            156
    urgent data                       155

SMC-R Connections Summary
";
        let text = shown(true);
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn without_details_what_only_they_have_is_left_out() {
        let (text, details) = (shown(false), shown(true));
        let mut rest = details.lines();
        for line in text.lines() {
            let found = rest.any(|of| of == line || of.starts_with(&format!("{line} (client ")));
            assert!(found, "{line}: {text}");
        }
        for part in ["client", "v1", "Server", "downgrades", "urgent"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn numbers_fit_their_columns() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.000K"),
            (12_345, "12.35K"),
            (150_007, "150.0K"),
            (999_990, "1.000M"),
            (4_294_967_296, "4.295G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
