//! `smcx perf` over SMC-R: its server in one guest and its client in the other one, each of them with
//! sockets of this project or of the kernel's AF_SMC.
//!
//! ```text
//!   client's guest                                 server's guest
//!   smcx perf --client  ── four streams       ──►  smcx perf --server
//!                       ◄─ two each way       ─►   (one for each test)
//!                       ◄─ messages and back  ─►
//! ```
//!
//! The tests succeed over TCP as well. That SMC-R carried their streams is taken from the carriers that
//! each end of ours reports, in its JSON or in its lines, from the fallbacks that a kernel counts, and
//! from the capture, which has a CLC Confirm for each connection over SMC-R and no Decline. A client of
//! ours makes the control connection of a test over TCP, one with the kernel's sockets over SMC-R.

use serde_json::Value;

use super::direction::End;
use super::pair::SERVER;
use super::side::{self, Compared, Side, Stage};
use crate::orders::{Counts, POLICY, SMCX};
use crate::scenarios::reason::PEER_WITHOUT_SMC;

/// What a test measures.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The client sends so many bytes.
    Forward(u64),
    /// Both send so many bytes.
    Both(u64),
    /// Messages go there and back for so many seconds.
    RoundTrips(u64),
}

/// The tests, and how many streams each has in a direction.
const TESTS: [(Kind, u64); 3] = [
    (Kind::Forward(4 << 20), 4),
    (Kind::Both(2 << 20), 2),
    (Kind::RoundTrips(3), 2),
];
/// What carries a stream of ours.
const CARRIER: &str = "SMC-R v2.1";

impl Kind {
    fn arguments(self) -> Vec<String> {
        let words = match self {
            Self::Forward(bytes) => format!("-n {bytes}"),
            Self::Both(bytes) => format!("-n {bytes} --bidir"),
            Self::RoundTrips(seconds) => format!("-t {seconds} --round-trip"),
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// All streams, if a direction has so many.
    fn streams(self, of_direction: u64) -> u64 {
        match self {
            Self::Both(_) => 2 * of_direction,
            Self::Forward(_) | Self::RoundTrips(_) => of_direction,
        }
    }
}

/// What a test measured.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Figure {
    /// The figure as a sentence has it.
    text: String,
    /// Bytes to the server and from it, at least.
    bytes: [u64; 2],
}

/// Bytes that all tests sent to the server and from it, at least.
fn least(figures: &[Figure]) -> [u64; 2] {
    let bytes = figures.iter().map(|figure| figure.bytes);
    bytes.fold([0, 0], |[to, from], [more_to, more_from]| {
        [to + more_to, from + more_from]
    })
}

/// Runs the tests, and compares.
pub(super) fn compare(stage: Stage<'_>) -> Compared<String> {
    let direction = stage.direction;
    let ports = TESTS.map(|_| stage.pair.next_port().to_string());
    let over = |end| match end {
        End::Ours => &[][..],
        End::Kernel => side::over(end),
    };
    let measured = stage.run_captured(over, |server, client| measure(server, client, &ports));
    let (figures, captured) = match measured? {
        Ok(measured) => measured,
        Err(difference) => return Ok(Err(difference)),
    };
    let streams: u64 = TESTS.iter().map(|(kind, of)| kind.streams(*of)).sum();
    // Control connections.
    let others = match direction.client {
        End::Ours => 0,
        End::Kernel => TESTS.len() as u64,
    };
    let texts: Vec<_> = figures.iter().map(|figure| &*figure.text).collect();
    let judged = captured.judge(streams + others, least(&figures));
    Ok(judged.map(|()| {
        format!(
            "{}; {streams} streams, each with a Confirm; {} and {} bytes written by RDMA",
            texts.join("; "),
            captured.sent,
            captured.received
        )
    }))
}

/// Runs each test with a server of its own: a figure of each.
fn measure<'a>(
    server: &mut Side<'a>,
    client: &mut Side<'a>,
    ports: &[String],
) -> Compared<Vec<Figure>> {
    let before = [server.counts()?, client.counts()?];
    let address = SERVER.to_string();
    let mut figures = Vec::new();
    for ((kind, streams), port) in TESTS.into_iter().zip(ports) {
        let serves = command(server.end, port, &["--server", "-1", "-B", &address]);
        server.begin(&serves, [None; 2])?;
        if let Err(difference) = server.until("Server listening on")? {
            return Ok(Err(format!("{kind:?}: server: {difference}")));
        }
        let parallel = streams.to_string();
        let mut words = vec!["--client", &address, "-P", &parallel, "-J"];
        let arguments = kind.arguments();
        words.extend(arguments.iter().map(String::as_str));
        let object = match client.run(&command(client.end, port, &words), [None; 2])? {
            Ok(lines) => object(&lines),
            Err(difference) => return Ok(Err(format!("{kind:?}: client: {difference}"))),
        };
        let printed = match server.ended()? {
            Ok(lines) => lines,
            Err(difference) => return Ok(Err(format!("{kind:?}: server: {difference}"))),
        };
        let streams = kind.streams(streams);
        let judged = object.and_then(|object| {
            if client.end == End::Ours {
                carried_by_json(&object, streams)?;
            }
            if server.end == End::Ours {
                carried_by_lines(&printed, streams)?;
            }
            figure(&object, kind)
        });
        match judged {
            Ok(figure) => figures.push(figure),
            Err(difference) => return Ok(Err(format!("{kind:?}: {difference}"))),
        }
    }
    // A kernel's server has the control connections of a client of ours over TCP.
    let controls = match (client.end, server.end) {
        (End::Ours, End::Kernel) => ports.len() as u64,
        _ => 0,
    };
    let expected = [controls, 0];
    for ((side, before), expected) in [server, client].into_iter().zip(before).zip(expected) {
        let after = side.counts()?;
        if side.end == End::Kernel
            && let Err(difference) = fell_back(&before, &after, expected)
        {
            return Ok(Err(difference));
        }
    }
    Ok(Ok(figures))
}

/// The command of an end.
fn command<'a>(end: End, port: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    let transport: &[&str] = match end {
        End::Ours => &["--transport", "verbs", "--policy", POLICY],
        // Its sockets are AF_SMC.
        End::Kernel => &["--transport", "tcp"],
    };
    [&[SMCX, "perf", "-p", port], words, transport].concat()
}

/// The JSON object that the client printed.
fn object(lines: &[String]) -> Result<Value, String> {
    let objects = lines.iter().filter(|line| line.starts_with('{'));
    let mut objects = objects.filter_map(|line| serde_json::from_str(line).ok());
    objects.next().ok_or_else(|| format!("no JSON: {lines:?}"))
}

/// Whether SMC-R carried all streams, by the client's JSON.
fn carried_by_json(object: &Value, streams: u64) -> Result<(), String> {
    let connected = object.pointer("/start/connected").and_then(Value::as_array);
    let connected = connected.map_or(&[][..], Vec::as_slice);
    let carriers: Vec<_> = connected.iter().map(|of| &of["carrier"]).collect();
    match carriers.len() as u64 == streams && carriers.iter().all(|of| **of == CARRIER) {
        true => Ok(()),
        false => Err(format!(
            "client: {streams} streams, carried by {carriers:?}"
        )),
    }
}

/// Whether SMC-R carried all streams, by the server's lines: `[  1] ADDRESS with ADDRESS: CARRIER`.
fn carried_by_lines(lines: &[String], streams: u64) -> Result<(), String> {
    let lines = lines
        .iter()
        .filter(|line| line.contains("] ") && line.contains(" with "));
    let carriers: Vec<_> = lines.filter_map(|line| line.split(": ").nth(1)).collect();
    match carriers.len() as u64 == streams && carriers.iter().all(|of| *of == CARRIER) {
        true => Ok(()),
        false => Err(format!(
            "server: {streams} streams, carried by {carriers:?}"
        )),
    }
}

/// What a test measured. All bytes have to have arrived.
fn figure(object: &Value, kind: Kind) -> Result<Figure, String> {
    let number = |path: &str| {
        let number = object.pointer(path).and_then(Value::as_f64);
        number.ok_or_else(|| format!("no {path}: {}", object["end"]))
    };
    let rate = |suffix: &str, bytes: u64| {
        for sum in ["sum_sent", "sum_received"] {
            let counted = number(&format!("/end/{sum}{suffix}/bytes"))?;
            if counted != bytes as f64 {
                return Err(format!("{sum}{suffix}: {counted} bytes of {bytes}"));
            }
        }
        let rate = number(&format!("/end/sum_received{suffix}/bits_per_second"))?;
        Ok(rate / 1e6)
    };
    let (text, bytes) = match kind {
        Kind::Forward(bytes) => (format!("{:.1} Mbit/s", rate("", bytes)?), [bytes, 0]),
        Kind::Both(bytes) => {
            let (there, back) = (rate("", bytes)?, rate("_bidir_reverse", bytes)?);
            let text = format!("{there:.1} and back {back:.1} Mbit/s");
            (text, [bytes, bytes])
        }
        Kind::RoundTrips(_) => {
            let median = number("/end/round_trips/p50_ns")?;
            let whole = |path: &str| {
                let number = object.pointer(path).and_then(Value::as_u64);
                number.ok_or_else(|| format!("no {path}: {object}"))
            };
            let count = whole("/end/round_trips/count")?;
            let length = whole("/start/test_start/blksize")?;
            let bytes = count.saturating_mul(length);
            if bytes == 0 {
                return Err("no message came back".to_owned());
            }
            let sent = whole("/end/sum_sent/bytes")?;
            if sent < bytes {
                return Err(format!("{sent} bytes in {count} messages of {length}"));
            }
            let text = format!("{count} messages there and back, in {:.1} ms", median / 1e6);
            (text, [bytes, bytes])
        }
    };
    Ok(Figure { text, bytes })
}

/// Whether a kernel counted so many connections of clients without SMC since, and no other fallback or
/// error.
fn fell_back(before: &Counts, after: &Counts, expected: u64) -> Result<(), String> {
    let without_smc = |counts: &Counts| {
        let all = counts.fallbacks.iter();
        let all = all.filter(|(server, reason, _)| *server && *reason == PEER_WITHOUT_SMC);
        all.map(|(.., count)| u64::from(*count)).sum::<u64>()
    };
    let all = |counts: &Counts| {
        let all = counts.fallbacks.iter();
        all.map(|(.., count)| u64::from(*count)).sum::<u64>()
    };
    let others = |counts: &Counts| all(counts) - without_smc(counts);
    match without_smc(after) == without_smc(before) + expected
        && others(after) == others(before)
        && before.handshake_errors == after.handshake_errors
    {
        true => Ok(()),
        false => Err(format!(
            "the kernel, with {expected} clients without SMC: {before:?}, then {after:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        CARRIER, Counts, Kind, PEER_WITHOUT_SMC, carried_by_json, carried_by_lines, fell_back,
    };
    use super::{Figure, figure, least, object};

    #[test]
    fn each_stream_has_to_be_over_smc_r() {
        let all = |carriers: &[&str]| {
            let connected: Vec<_> = carriers.iter().map(|of| json!({ "carrier": of })).collect();
            json!({ "start": { "connected": connected } })
        };
        assert!(carried_by_json(&all(&[CARRIER, CARRIER]), 2).is_ok());
        for other in [vec![CARRIER], vec![CARRIER, "TCP"], vec![CARRIER; 3]] {
            assert!(carried_by_json(&all(&other), 2).is_err(), "{other:?}");
        }
        let lines = |carriers: [&str; 2]| {
            let lines = carriers.map(|of| format!("[  1] 10.84.0.2:9 with 10.84.0.1:7: {of}"));
            [&["Server listening on 10.84.0.2:9".to_owned()], &lines[..]].concat()
        };
        assert!(carried_by_lines(&lines([CARRIER; 2]), 2).is_ok());
        assert!(carried_by_lines(&lines([CARRIER, "TCP: no option"]), 2).is_err());
        assert!(carried_by_lines(&lines([CARRIER; 2]), 3).is_err());
    }

    #[test]
    fn all_bytes_have_to_be_counted_by_both_ends() {
        let counted = |sent, received| {
            let sum = |bytes| json!({ "bytes": bytes, "bits_per_second": 8e6 });
            let end = json!({ "sum_sent": sum(sent), "sum_received": sum(received) });
            let line = json!({ "end": end }).to_string();
            object(&["a line".to_owned(), line]).and_then(|of| figure(&of, Kind::Forward(5)))
        };
        let expected = Figure {
            text: "8.0 Mbit/s".to_owned(),
            bytes: [5, 0],
        };
        assert_eq!(counted(5, 5), Ok(expected));
        assert!(counted(5, 4).is_err());
        assert!(object(&["a line".to_owned()]).is_err());
    }

    #[test]
    fn each_message_is_to_be_seen_there_and_back() {
        let messages = |count: u64, length: u64, sent: u64| {
            let object = json!({
                "start": { "test_start": { "blksize": length } },
                "end": {
                    "round_trips": { "count": count, "p50_ns": 2e6 },
                    "sum_sent": { "bytes": sent },
                },
            });
            figure(&object, Kind::RoundTrips(1))
        };
        let all = messages(7, 100, 700).unwrap();
        assert_eq!(all.text, "7 messages there and back, in 2.0 ms");
        let forward = Figure {
            text: String::new(),
            bytes: [5, 0],
        };
        assert_eq!(least(&[forward, all]), [705, 700]);
        assert!(messages(0, 100, 0).is_err());
        assert!(messages(7, 0, 700).is_err());
        assert!(messages(7, 100, 600).is_err());
    }

    #[test]
    fn a_kernel_counts_the_clients_without_smc_and_nothing_else() {
        let counts = |fallbacks: &[(bool, u32, u16)]| Counts {
            fallbacks: fallbacks.to_vec(),
            ..Counts::default()
        };
        let before = counts(&[(true, PEER_WITHOUT_SMC, 1)]);
        assert!(fell_back(&before, &counts(&[(true, PEER_WITHOUT_SMC, 4)]), 3).is_ok());
        assert!(fell_back(&before, &counts(&[(true, PEER_WITHOUT_SMC, 4)]), 0).is_err());
        let other = [(true, PEER_WITHOUT_SMC, 4), (false, 0x0303_0000, 1)];
        assert!(fell_back(&before, &counts(&other), 3).is_err());
    }
}
