//! What `smcx stats` counts of a server of ours, compared with a capture of its conversations.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::super::Trouble;
use super::super::captured::captured;
use super::super::pair::Pair;
use super::{LIMIT, OVER_SMC, ended, run, session};
use crate::orders::{Family, Order, Role, SMCX};

/// Connections, and bytes to the server and from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    connections: u64,
    received: u64,
    sent: u64,
}

/// Holds conversations between a kernel's client and our server, and compares the counts.
pub(super) fn compare(
    pair: &mut Pair,
    capture: &Path,
    shown: &mut String,
) -> Result<Result<String, String>, Trouble> {
    let other = capture.with_extension("server.pcap");
    pair.start_captures(capture, &other)?;
    let port = pair.next_port();
    let of = |role| session(role, Family::Smc, port, OVER_SMC);
    let (client, server) = (
        Order::Hold(of(Role::Client)),
        Order::HoldOurs(of(Role::Server)),
    );
    if let Some(held) = pair.begin(&client, &server, LIMIT)? {
        return Ok(Err(format!("{held:?}")));
    }
    // The connections are idle then, and in the capture.
    let counted = settled(pair, shown)?;
    pair.stop_captures()?;
    if let Err(difference) = ended(pair, 1)? {
        return Ok(Err(difference));
    }
    let captured = captured(capture)?;
    let captured = Counts {
        connections: captured.confirms,
        received: captured.sent,
        sent: captured.received,
    };
    Ok(match counted {
        counted if counted != captured || counted == Counts::default() => Err(format!(
            "smcx stats: {counted:?}, the capture: {captured:?}"
        )),
        Counts {
            connections,
            received,
            sent,
        } => Ok(format!(
            "smcx stats and a capture count alike {connections} connections, {received} bytes \
             received and {sent} sent"
        )),
    })
}

/// The counts, when all connections are there and nothing changes any more.
fn settled(pair: &mut Pair, shown: &mut String) -> Result<Counts, Trouble> {
    let end = Instant::now() + LIMIT;
    let mut before = Counts::default();
    loop {
        let lines = run(
            &mut pair.server,
            &[SMCX, "stats", "--json", "--absolute"],
            shown,
        )?;
        let counts = parse(&lines.join("\n"));
        let all = counts.connections == u64::from(OVER_SMC) && counts.sent > 0;
        if (all && counts == before) || Instant::now() > end {
            return Ok(counts);
        }
        before = counts;
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn parse(json: &str) -> Counts {
    let object: Value = serde_json::from_str(json).unwrap_or_default();
    let of = |key: &str| object["SMCR"][key].as_u64().unwrap_or_default();
    Counts {
        connections: of("SMC_SRV_V2_SUCC_CNT"),
        received: of("SMC_RX_BYTES"),
        sent: of("SMC_TX_BYTES"),
    }
}
