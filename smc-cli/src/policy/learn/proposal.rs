//! The proposal as a policy file, with its reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use smc_proto::wire::types::DiagnosisCode;

use super::seen::{End, Tally, Threshold};
use crate::output::size;

/// Most entries of a list; a longer one is left out.
const ENTRIES: usize = 256;
/// Most lines of reasons.
const REASONS: usize = 100;
/// Peers of one subnet, from which on it takes their place.
const SUBNET: usize = 8;

/// Codes without a handshake before them: an attempt costs nothing.
const FREE: [DiagnosisCode; 3] = [
    DiagnosisCode::PEER_NO_SMC,
    DiagnosisCode::CONFIGURATION,
    DiagnosisCode::MEMORY,
];

/// The proposal; `None` if there is nothing to propose.
#[must_use]
pub fn of(ends: &BTreeMap<End, Tally>, threshold: Threshold) -> Option<String> {
    let listen = ports(ends, true);
    let connect = ports(ends, false);
    let pays = |end: &End| match end.is_server {
        true => listen.contains(&end.port),
        false => connect.contains(&end.port),
    };
    let paying = ends.iter().filter(|(end, at)| pays(end) && at.paying > 0);
    let permit: BTreeSet<IpAddr> = paying.map(|(end, _)| end.peer).collect();
    let carried: BTreeSet<IpAddr> = ends
        .iter()
        .filter(|(_, at)| at.paying + at.idle > 0)
        .map(|(end, _)| end.peer)
        .collect();
    let exclude: BTreeSet<IpAddr> = ends
        .iter()
        .filter(|(end, at)| !carried.contains(&end.peer) && at.tcp.keys().any(|of| costs(*of)))
        .map(|(end, _)| end.peer)
        .collect();
    if permit.is_empty() && exclude.is_empty() {
        return None;
    }
    let mut text = String::new();
    let connections = |of: fn(&Tally) -> u64| ends.values().map(of).fold(0, u64::saturating_add);
    let smc = connections(|at| at.paying.saturating_add(at.idle));
    let tcp = connections(|at| at.tcp.values().copied().fold(0, u64::saturating_add));
    let _ = write!(
        text,
        "# A policy that smcx policy learn proposes. Nothing is changed by it: read it, try it with\n\
         # smcx policy check, and put it where docs/policy.md says.\n\
         #\n\
         # Seen: {smc} connections over SMC, {tcp} that were TCP. SMC pays for a connection that\n\
         # carried {} or had {} calls; a port has at least half of such.\n",
        size(threshold.bytes),
        threshold.calls
    );
    list("listen-ports", "of listeners", ranges(&listen), &mut text);
    list("connect-ports", "of servers", ranges(&connect), &mut text);
    list("permit", "peers", subnets(&permit), &mut text);
    let excluded = addresses(&exclude);
    list("exclude", "peers without success", excluded, &mut text);
    text += "\n# What was seen:\n";
    for (at, (end, tally)) in ends.iter().enumerate() {
        if at == REASONS {
            let _ = writeln!(text, "# and {} more", ends.len() - REASONS);
            break;
        }
        reason(end, tally, &mut text);
    }
    Some(text)
}

fn costs(code: DiagnosisCode) -> bool {
    !FREE.contains(&code)
}

/// Ports of servers of whose connections over SMC at least half pay.
fn ports(ends: &BTreeMap<End, Tally>, is_server: bool) -> BTreeSet<u16> {
    let mut all: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (end, tally) in ends.iter().filter(|(end, _)| end.is_server == is_server) {
        let (paying, idle) = all.entry(end.port).or_default();
        *paying = paying.saturating_add(tally.paying);
        *idle = idle.saturating_add(tally.idle);
    }
    let pays = all
        .into_iter()
        .filter(|(_, (paying, idle))| *paying > 0 && paying >= idle);
    pays.map(|(port, _)| port).collect()
}

/// Ports as the entries of a policy: numbers, and ranges as text.
fn ranges(ports: &BTreeSet<u16>) -> Vec<String> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for port in ports {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*port) => *last = *port,
            _ => ranges.push((*port, *port)),
        }
    }
    let ranges = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("\"{first}-{last}\""),
    });
    ranges.collect()
}

fn addresses(all: &BTreeSet<IpAddr>) -> Vec<String> {
    all.iter().map(|at| format!("\"{at}\"")).collect()
}

/// Addresses, or the subnet of many that are in one: of 24 bits, or of 64 bits of IPv6.
fn subnets(all: &BTreeSet<IpAddr>) -> Vec<String> {
    let mut by_subnet: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for at in all {
        by_subnet.entry(subnet(*at)).or_default().insert(*at);
    }
    let entries = by_subnet
        .iter()
        .flat_map(|(subnet, members)| match members.len() >= SUBNET {
            true => vec![format!("\"{subnet}\"")],
            false => addresses(members),
        });
    entries.collect()
}

fn subnet(of: IpAddr) -> String {
    match of {
        IpAddr::V4(at) => {
            let [a, b, c, _] = at.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(at) => {
            let network = at.to_bits() & (u128::MAX << 64);
            format!("{}/64", std::net::Ipv6Addr::from_bits(network))
        }
    }
}

/// A key, unless nothing was learnt of it.
fn list(key: &str, what: &str, entries: Vec<String>, text: &mut String) {
    text.push('\n');
    let _ = match entries.len() {
        0 => writeln!(
            text,
            "# {key} ({what}): nothing was learnt, so as by default."
        ),
        1..=ENTRIES => writeln!(text, "{key} = [{}]", entries.join(", ")),
        many => writeln!(
            text,
            "# {key} ({what}): {many} entries are too many for a policy, so as by default."
        ),
    };
}

fn reason(end: &End, tally: &Tally, text: &mut String) {
    let (peer, port) = (end.peer, end.port);
    let _ = match end.is_server {
        true => write!(text, "# {peer} to port {port} here: "),
        false => write!(text, "# from here to port {port} of {peer}: "),
    };
    let mut parts = Vec::new();
    let over_smc = tally.paying.saturating_add(tally.idle);
    if over_smc > 0 {
        let (paying, bytes) = (tally.paying, size(tally.bytes));
        parts.push(format!(
            "{over_smc} over SMC, {paying} of them paid, {bytes}"
        ));
    }
    for (code, count) in tally.tcp.iter().take(REASONS) {
        let name = code.name();
        parts.push(format!("{count} TCP (0x{:08x} {name})", code.0));
    }
    let _ = writeln!(text, "{}", parts.join("; "));
}
