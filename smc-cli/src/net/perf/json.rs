//! A test as JSON, with the keys of iperf3 where it has them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::stream::Stream;
use super::client::Ended;
use super::histogram::Times;
use super::protocol::{Counted, Direction, Limit, Part};
use super::report::bits_per_second;
use super::work::Sample;

/// What carries a stream.
pub(super) fn facts(streams: &[Stream]) -> Vec<Value> {
    let all = streams.iter().zip(1_u16..).map(|(stream, number)| {
        let (local, peer) = (stream.local().ok(), stream.peer());
        let why = stream.why_tcp();
        json!({
            "socket": number,
            "local_host": local.map(|at| at.ip().to_string()),
            "local_port": local.map(|at| at.port()),
            "remote_host": peer.ip().to_string(),
            "remote_port": peer.port(),
            "carrier": stream.carrier().split(':').next(),
            "why_tcp": why.map(|(code, sentence)| json!({ "code": code, "sentence": sentence })),
        })
    });
    all.collect()
}

/// The whole test.
pub(super) fn object(server: SocketAddr, ended: &Ended, parts: &[Part], facts: &[Value]) -> Value {
    let request = &ended.request;
    let (duration, bytes) = match request.limit {
        Limit::Milliseconds(time) => (Some(Duration::from_millis(time).as_secs_f64()), None),
        Limit::Octets(octets) => (None, Some(octets)),
    };
    json!({
        "start": {
            "version": concat!("smcx ", env!("CARGO_PKG_VERSION")),
            "connecting_to": { "host": server.ip().to_string(), "port": server.port() },
            "connected": facts,
            "test_start": {
                "num_streams": request.streams,
                "blksize": request.length,
                "duration": duration,
                "bytes": bytes,
                "reverse": u8::from(request.direction == Direction::Reverse),
                "bidir": u8::from(request.direction == Direction::Both),
                "round_trip": u8::from(request.direction == Direction::RoundTrip),
            },
        },
        "intervals": ended.samples.iter().map(|(from, to)| interval(parts, from, to))
            .collect::<Vec<_>>(),
        "end": end(ended, parts, facts),
    })
}

/// Bytes of a time.
fn amount(octets: u64, from: Duration, to: Duration) -> Map<String, Value> {
    let time = to.saturating_sub(from);
    let mut fields = Map::new();
    fields.insert("start".to_owned(), from.as_secs_f64().into());
    fields.insert("end".to_owned(), to.as_secs_f64().into());
    fields.insert("seconds".to_owned(), time.as_secs_f64().into());
    fields.insert("bytes".to_owned(), octets.into());
    let bits = bits_per_second(octets, time);
    fields.insert("bits_per_second".to_owned(), bits.into());
    fields
}

fn of_part(mut fields: Map<String, Value>, part: Part, times: Option<&Times>) -> Value {
    match (part, times) {
        (Part::Ask, Some(times)) => {
            fields.insert("round_trips".to_owned(), shares(times));
        }
        (part, _) => {
            let sends = part == Part::Send;
            fields.insert("sender".to_owned(), sends.into());
        }
    }
    Value::Object(fields)
}

fn shares(times: &Times) -> Value {
    let (shortest, longest) = times.ends();
    json!({
        "count": times.count(),
        "min_ns": shortest,
        "mean_ns": times.mean(),
        "p50_ns": times.share(500),
        "p90_ns": times.share(900),
        "p99_ns": times.share(990),
        "p99_9_ns": times.share(999),
        "max_ns": longest,
    })
}

/// The key of a sum: iperf3 keeps that of the other direction apart.
fn sums(parts: &[Part]) -> Vec<(Part, &'static str)> {
    match (parts.contains(&Part::Send), parts.contains(&Part::Receive)) {
        (true, true) => vec![(Part::Send, "sum"), (Part::Receive, "sum_bidir_reverse")],
        (true, false) => vec![(Part::Send, "sum")],
        (false, true) => vec![(Part::Receive, "sum")],
        (false, false) => vec![(Part::Ask, "sum")],
    }
}

fn interval(parts: &[Part], from: &Sample, to: &Sample) -> Value {
    let octets = |at: usize| {
        let (Some(now), Some(before)) = (to.octets.get(at), from.octets.get(at)) else {
            return 0;
        };
        now.saturating_sub(*before)
    };
    let times = |at: usize| Some(to.times.get(at)?.since(from.times.get(at)?));
    let streams = parts.iter().enumerate().map(|(at, part)| {
        let mut fields = amount(octets(at), from.at, to.at);
        fields.insert("socket".to_owned(), (at + 1).into());
        of_part(fields, *part, times(at).as_ref())
    });
    let streams: Vec<Value> = streams.collect();
    let mut interval = Map::new();
    interval.insert("streams".to_owned(), streams.into());
    for (kind, key) in sums(parts) {
        let members = (0..parts.len()).filter(|at| parts.get(*at) == Some(&kind));
        let all = Times::of_all(members.clone().filter_map(times));
        let fields = amount(members.map(octets).sum(), from.at, to.at);
        interval.insert(key.to_owned(), of_part(fields, kind, Some(&all)));
    }
    Value::Object(interval)
}

fn whole(of: &Counted) -> Map<String, Value> {
    let to = Duration::from_nanos(of.nanoseconds);
    let mut fields = amount(of.octets, Duration::ZERO, to);
    if let Some(error) = &of.error {
        fields.insert("error".to_owned(), error.as_str().into());
    }
    fields
}

fn end(ended: &Ended, parts: &[Part], facts: &[Value]) -> Value {
    let pairs = ended.here.iter().zip(&ended.there);
    let all = pairs.zip(parts).zip(facts).enumerate();
    let streams = all.map(|(at, (((here, there), part), facts))| {
        let mut stream = Map::new();
        let (sender, receiver) = match part {
            Part::Receive => (there, here),
            _ => (here, there),
        };
        stream.insert("socket".to_owned(), (at + 1).into());
        for key in ["carrier", "why_tcp"] {
            stream.insert(key.to_owned(), facts.get(key).cloned().unwrap_or_default());
        }
        stream.insert("sender".to_owned(), whole(sender).into());
        stream.insert("receiver".to_owned(), whole(receiver).into());
        if let (Part::Ask, Some(times)) = (part, ended.last.times.get(at)) {
            stream.insert("round_trips".to_owned(), shares(times));
        }
        Value::Object(stream)
    });
    let streams: Vec<Value> = streams.collect();
    let mut end = Map::new();
    end.insert("streams".to_owned(), streams.into());
    for (kind, key) in sums(parts) {
        let (sent, received) = match kind {
            Part::Receive => (&ended.there, &ended.here),
            _ => (&ended.here, &ended.there),
        };
        let suffix = key.strip_prefix("sum").unwrap_or_default();
        for (name, counted) in [("sum_sent", sent), ("sum_received", received)] {
            let of_kind = parts.iter().zip(counted).filter(|(part, _)| **part == kind);
            let sum = of_kind.fold(Counted::default(), |sum, (_, of)| Counted {
                octets: sum.octets.saturating_add(of.octets),
                nanoseconds: sum.nanoseconds.max(of.nanoseconds),
                error: None,
            });
            end.insert(format!("{name}{suffix}"), whole(&sum).into());
        }
        if kind == Part::Ask {
            let all = Times::of_all(ended.last.times.iter().cloned());
            end.insert("round_trips".to_owned(), shares(&all));
        }
    }
    Value::Object(end)
}
