//! The statistics as `smcr stats` and `smcd stats` show them.

use std::io::{self, Write};

use smc_view::{Statistics, Traffic};

pub(super) fn write(sums: &Statistics, out: &mut dyn Write) -> io::Result<()> {
    technology("SMC-D", &sums.smc_d, sums, out)?;
    writeln!(out)?;
    technology("SMC-R", &sums.smc_r, sums, out)
}

fn technology(name: &str, of: &Traffic, sums: &Statistics, out: &mut dyn Write) -> io::Result<()> {
    let get = |key: &str| of.get(key);
    let connections: u64 = ["CLNT_V1", "CLNT_V2", "SRV_V1", "SRV_V2"]
        .iter()
        .map(|of| get(&format!("SMC_{of}_SUCC_CNT")))
        .fold(0, u64::saturating_add);
    let sum = |values: [u64; 2]| values[0].saturating_add(values[1]);
    let (errors, tcp) = (sum(sums.handshake_errors), sum(sums.tcp));
    let total = connections.saturating_add(errors).saturating_add(tcp);
    let requests = get("SMC_TX_CNT").saturating_add(get("SMC_RX_CNT"));
    let average = requests as f64 / connections.max(1) as f64;
    writeln!(out, "{name} Connections Summary")?;
    writeln!(out, "  Total connections handled  {total:>12}")?;
    writeln!(out, "  SMC connections            {connections:>12}")?;
    writeln!(out, "  Handshake errors           {errors:>12}")?;
    writeln!(out, "  Avg requests per SMC conn  {average:>14.1}")?;
    writeln!(out, "  TCP fallback               {tcp:>12}")?;
    for direction in ["RX", "TX"] {
        let bytes = get(&format!("SMC_{direction}_BYTES"));
        let requests = get(&format!("SMC_{direction}_CNT"));
        let usage = get(&format!("SMC_{direction}_RMB_USAGE"));
        writeln!(out, "\n{direction} Stats")?;
        writeln!(
            out,
            "  Data transmitted (Bytes) {bytes:>14} ({})",
            short(bytes)
        )?;
        writeln!(out, "  Total requests             {requests:>12}")?;
        writeln!(
            out,
            "  Buffer usage (Bytes)       {usage:>12} ({})",
            short(usage)
        )?;
        if direction == "TX" {
            let full = get("SMC_INT_TX_BUF_FULL_PEER_CNT");
            let percent = 100.0 * full as f64 / requests.max(1) as f64;
            writeln!(
                out,
                "  Buffer full (remote)       {full:>12} ({percent:.2}%)"
            )?;
        }
        writeln!(
            out,
            "            8KB    16KB    32KB    64KB   128KB   256KB   512KB  >512KB"
        )?;
        sizes("Bufs", of, &format!("SMC_INT_{direction}_BUF"), out)?;
        sizes("Reqs", of, &format!("SMC_USR_{direction}_BUF"), out)?;
    }
    let special = ["SENDPAGE", "URG_DATA", "SPLICE", "CORK", "NDLY"];
    let special = special.map(|of| get(&format!("SMC_{of}_CNT")));
    let special = special.into_iter().fold(0, u64::saturating_add);
    writeln!(out, "\nExtras")?;
    writeln!(out, "  Special socket calls       {special:>12}")
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
    use super::short;

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
