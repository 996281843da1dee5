//! What is shown of a test, as iperf3 shows it.

use std::net::SocketAddr;
use std::time::Duration;

use super::super::stream::Stream;
use super::histogram::Times;
use super::protocol::{Counted, Direction, Limit, Part, Request};
use super::work::Sample;
use crate::output::size;

/// How often lines are shown; `None` for never.
pub(super) fn interval(seconds: f64) -> Option<Duration> {
    (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
}

/// Name of the other end, and what is measured.
pub(super) fn connected(peer: SocketAddr, request: &Request) -> Vec<String> {
    let what = match request.direction {
        Direction::Forward => "from the client to the server",
        Direction::Reverse => "from the server to the client",
        Direction::Both => "in each direction",
        Direction::RoundTrip => "there and back",
    };
    let streams = match request.streams {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    };
    let until = match request.limit {
        Limit::Milliseconds(time) => format!("{} s", Duration::from_millis(time).as_secs_f64()),
        Limit::Octets(octets) => size(octets),
    };
    let length = size(request.length.into());
    vec![format!(
        "Connected to {peer}: {streams} {what}, {length} at a time, {until}"
    )]
}

/// What carries each stream, and why it is TCP.
pub(super) fn carried(streams: &[Stream]) -> Vec<String> {
    let lines = streams.iter().enumerate().map(|(at, stream)| {
        let here = stream.local();
        let here = here.map_or_else(|_| "-".to_owned(), |here| here.to_string());
        let (peer, carrier) = (stream.peer(), stream.carrier());
        format!("[{:>3}] {here} with {peer}: {carrier}", at + 1)
    });
    lines.collect()
}

const fn role(part: Part) -> &'static str {
    match part {
        Part::Send => "TX",
        Part::Receive => "RX",
        Part::Ask | Part::Echo => "",
    }
}

/// Whether streams of both directions need a column that names them.
fn has_roles(parts: &[Part]) -> bool {
    parts.contains(&Part::Send) && parts.contains(&Part::Receive)
}

fn name(at: usize, part: Part, parts: &[Part]) -> String {
    match has_roles(parts) {
        true => format!("[{:>3}][{}]", at + 1, role(part)),
        false => format!("[{:>3}]", at + 1),
    }
}

fn sum_name(part: Part, parts: &[Part]) -> String {
    match has_roles(parts) {
        true => format!("[SUM][{}]", role(part)),
        false => "[SUM]".to_owned(),
    }
}

/// The names of the columns.
pub(super) fn header(parts: &[Part]) -> Vec<String> {
    let id = if has_roles(parts) {
        "[ ID]    "
    } else {
        "[ ID]"
    };
    let rest = match parts.contains(&Part::Ask) {
        true => "Round trips         p50        p99",
        false => "Transfer     Bitrate",
    };
    vec![format!("{id}  Interval           {rest}")]
}

/// The kinds of streams that are summed up.
const KINDS: [Part; 4] = [Part::Send, Part::Receive, Part::Ask, Part::Echo];

/// The lines of an interval: of each stream one, and of several their sum.
pub(super) fn interval_lines(parts: &[Part], before: &Sample, now: &Sample) -> Vec<String> {
    let (from, to) = (before.at, now.at);
    let octets: Vec<u64> = now
        .octets
        .iter()
        .zip(&before.octets)
        .map(|(now, before)| now.saturating_sub(*before))
        .collect();
    let times: Vec<Times> = now
        .times
        .iter()
        .zip(&before.times)
        .map(|(now, before)| now.since(before))
        .collect();
    let mut lines = Vec::new();
    let all = parts.iter().zip(&octets).zip(&times).enumerate();
    for (at, ((part, octets), times)) in all {
        let what = match part {
            Part::Ask => trips(times),
            _ => rate(*octets, to.saturating_sub(from)),
        };
        lines.push(line(&name(at, *part, parts), from, to, &what));
    }
    for kind in KINDS {
        let of = |at: &usize| parts.get(*at) == Some(&kind);
        let members: Vec<usize> = (0..parts.len()).filter(of).collect();
        if members.len() < 2 {
            continue;
        }
        let what = match kind {
            Part::Ask => {
                let times = members.iter().filter_map(|at| times.get(*at).cloned());
                trips(&Times::of_all(times))
            }
            _ => {
                let octets = members.iter().filter_map(|at| octets.get(*at));
                rate(octets.sum(), to.saturating_sub(from))
            }
        };
        lines.push(line(&sum_name(kind, parts), from, to, &what));
    }
    lines
}

fn line(name: &str, from: Duration, to: Duration, what: &str) -> String {
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    format!("{name} {from:>6.2}-{to:<6.2} sec  {what}")
}

fn trips(times: &Times) -> String {
    let (count, p50, p99) = (times.count(), times.share(500), times.share(990));
    format!("{count:>11} {:>7} us {:>7} us", micros(p50), micros(p99))
}

/// Nanoseconds as microseconds with what matters behind the point.
fn micros(nanoseconds: u64) -> String {
    let micros = nanoseconds as f64 / 1e3;
    match nanoseconds {
        ..=99_999 => format!("{micros:.2}"),
        _ => format!("{micros:.0}"),
    }
}

fn rate(octets: u64, time: Duration) -> String {
    format!("{:>12}  {}", transfer(octets), bitrate(octets, time))
}

fn transfer(octets: u64) -> String {
    let octets = octets as f64;
    let units = [("GBytes", 30), ("MBytes", 20), ("KBytes", 10)];
    let fitting = units
        .into_iter()
        .map(|(unit, shift)| (unit, octets / f64::from(1_u32 << shift)))
        .find(|(_, amount)| *amount >= 1.0);
    match fitting {
        Some((unit, amount)) => format!("{} {unit}", three(amount)),
        None => format!("{octets} Bytes"),
    }
}

fn bitrate(octets: u64, time: Duration) -> String {
    let bits = bits_per_second(octets, time);
    let units = [("Gbits", 1e9), ("Mbits", 1e6), ("Kbits", 1e3)];
    let fitting = units
        .into_iter()
        .map(|(unit, of)| (unit, bits / of))
        .find(|(_, amount)| *amount >= 1.0);
    match fitting {
        Some((unit, amount)) => format!("{} {unit}/sec", three(amount)),
        None => format!("{bits:.0} bits/sec"),
    }
}

/// Three digits of a number.
fn three(number: f64) -> String {
    match number {
        ..9.995 => format!("{number:.2}"),
        ..99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Bits a second; 0 of no time.
pub(super) fn bits_per_second(octets: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 {
        octets as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

/// The table at the end: both ends of each stream, and of several their sums.
pub(super) fn closing(
    parts: &[Part],
    here: &[Counted],
    there: Option<&[Counted]>,
    last: &Sample,
) -> Vec<String> {
    let mut lines = vec!["- ".repeat(25).trim_end().to_owned()];
    if parts.contains(&Part::Ask) {
        lines.extend(closing_trips(parts, last));
        return lines;
    }
    lines.extend(header(parts));
    for (at, part) in parts.iter().enumerate() {
        let (ours, theirs) = ends_of(*part);
        let both = [(Some(here), ours), (there, theirs)];
        for (counted, end) in both {
            let Some(of) = counted.and_then(|all| all.get(at)) else {
                continue;
            };
            let what = one_end(of.octets, of.nanoseconds, end, of.error.as_deref());
            let to = Duration::from_nanos(of.nanoseconds);
            lines.push(line(&name(at, *part, parts), Duration::ZERO, to, &what));
        }
    }
    for kind in KINDS {
        let (ours, theirs) = ends_of(kind);
        for (counted, end) in [(Some(here), ours), (there, theirs)] {
            let Some((octets, nanoseconds)) = counted.and_then(|all| sum(kind, parts, all)) else {
                continue;
            };
            let what = one_end(octets, nanoseconds, end, None);
            let to = Duration::from_nanos(nanoseconds);
            lines.push(line(&sum_name(kind, parts), Duration::ZERO, to, &what));
        }
    }
    lines
}

/// Bytes of several streams of a kind together, and the longest time.
fn sum(kind: Part, parts: &[Part], counted: &[Counted]) -> Option<(u64, u64)> {
    let of_kind = parts.iter().zip(counted);
    let of_kind: Vec<&Counted> = of_kind
        .filter(|(part, _)| **part == kind)
        .map(|(_, of)| of)
        .collect();
    let octets = |sum: u64, of: &&Counted| sum.saturating_add(of.octets);
    let longest = of_kind.iter().map(|of| of.nanoseconds).max()?;
    (of_kind.len() > 1).then(|| (of_kind.iter().fold(0, octets), longest))
}

const fn ends_of(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Send => ("sender", "receiver"),
        Part::Receive => ("receiver", "sender"),
        Part::Ask => ("client", "server"),
        Part::Echo => ("server", "client"),
    }
}

fn one_end(octets: u64, nanoseconds: u64, end: &str, error: Option<&str>) -> String {
    let figures = rate(octets, Duration::from_nanos(nanoseconds));
    match error {
        None => format!("{figures:<34} {end}"),
        Some(error) => format!("{figures:<34} {end}: {error}"),
    }
}

fn closing_trips(parts: &[Part], last: &Sample) -> Vec<String> {
    let mut lines = vec![
        "[ ID]  Round trips        min       mean        p50        p90        p99      p99.9        max"
            .to_owned(),
    ];
    let row = |name: &str, times: &Times| {
        let (shortest, longest) = times.ends();
        let mut row = format!("{name} {:>12}", times.count());
        for time in [
            shortest,
            times.mean(),
            times.share(500),
            times.share(900),
            times.share(990),
            times.share(999),
            longest,
        ] {
            row += &format!(" {:>7} us", micros(time));
        }
        row
    };
    for (at, (part, times)) in parts.iter().zip(&last.times).enumerate() {
        lines.push(row(&name(at, *part, parts), times));
    }
    if parts.len() > 1 {
        let all = Times::of_all(last.times.iter().cloned());
        lines.push(row("[SUM]", &all));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_the_units_of_iperf3() {
        assert_eq!(transfer(1_181_116_006), "1.10 GBytes");
        assert_eq!(transfer(200 << 20), "200 MBytes");
        assert_eq!(transfer(15 << 10), "15.0 KBytes");
        assert_eq!(transfer(7), "7 Bytes");
        let second = Duration::from_secs(1);
        assert_eq!(bitrate(1_250_000_000, second), "10.0 Gbits/sec");
        assert_eq!(bitrate(125_000, second), "1.00 Mbits/sec");
        assert_eq!(bitrate(1, second), "8 bits/sec");
        assert_eq!(bitrate(1, Duration::ZERO), "0 bits/sec");
    }

    #[test]
    fn an_interval_shows_what_came_since_the_last_one_and_sums_by_direction() {
        let parts = [Part::Send, Part::Send, Part::Receive];
        let sample = |seconds, octets: [u64; 3]| Sample {
            at: Duration::from_secs(seconds),
            octets: octets.to_vec(),
            times: vec![Times::default(); 3],
        };
        let before = sample(1, [1 << 20, 1 << 20, 0]);
        let now = sample(2, [2 << 20, 3 << 20, 7]);
        let lines = interval_lines(&parts, &before, &now);
        let expected = [
            "[  1][TX]   1.00-2.00   sec   1.00 MBytes  8.39 Mbits/sec",
            "[  2][TX]   1.00-2.00   sec   2.00 MBytes  16.8 Mbits/sec",
            "[  3][RX]   1.00-2.00   sec       7 Bytes  56 bits/sec",
            "[SUM][TX]   1.00-2.00   sec   3.00 MBytes  25.2 Mbits/sec",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_closing_table_has_both_ends_and_says_what_broke() {
        let counted = |octets, error: Option<&str>| Counted {
            octets,
            nanoseconds: 1_000_000_000,
            error: error.map(str::to_owned),
        };
        let here = [counted(1 << 20, None), counted(1 << 20, None)];
        let there = [counted(1 << 20, None), counted(5, Some("reset"))];
        let parts = [Part::Send, Part::Send];
        let lines = closing(&parts, &here, Some(&there), &Sample::default());
        let text = lines.join("\n");
        assert_eq!(text.matches("sender").count(), 3, "{text}");
        assert_eq!(text.matches("receiver").count(), 3, "{text}");
        assert!(text.contains("receiver: reset"), "{text}");
        assert!(text.contains("2.00 MBytes"), "{text}");
    }
}
