//! Messages between the two ends of a test.
//!
//! Each connection begins with a greeting of fixed size. The first one of a test is its
//! control connection, over TCP: messages as JSON, each behind its length. The others are
//! the streams; they name the test by a random number, which only the client of the control
//! connection knows. Neither end believes the other: sizes, counts and times are bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::stream::Stream;

/// The first bytes of a greeting, with the version.
const MAGIC: [u8; 8] = *b"smcxpf\0\x01";
/// Bytes of a greeting.
const GREETING: usize = 27;
/// Most bytes of a message.
const LARGEST: u32 = 256 << 10;
/// Most streams of each direction.
pub(super) const MOST_STREAMS: u16 = 128;
/// Most bytes of a write.
pub(super) const MOST_LENGTH: u32 = 1 << 20;

/// The number of a test.
pub(super) type Cookie = [u8; 16];

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Greeting {
    /// Agreeing on a test.
    Control,
    /// A stream of a test.
    Stream(Cookie, u16),
}

impl Greeting {
    pub(super) fn write(self, to: &mut impl Write) -> io::Result<()> {
        let mut octets = Vec::with_capacity(GREETING);
        octets.extend(MAGIC);
        let (kind, index, cookie) = match self {
            Self::Control => (0, 0, Cookie::default()),
            Self::Stream(cookie, index) => (1, index, cookie),
        };
        octets.push(kind);
        octets.extend(index.to_be_bytes());
        octets.extend(cookie);
        to.write_all(&octets)
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut octets = [0; GREETING];
        from.read_exact(&mut octets)?;
        let stranger = || invalid("no greeting of smcx perf");
        let rest = octets.strip_prefix(&MAGIC).ok_or_else(stranger)?;
        let (kind, rest) = rest.split_first().ok_or_else(stranger)?;
        let (index, cookie) = rest.split_at(2);
        let index = index.try_into().map_err(|_| stranger())?;
        let cookie = cookie.try_into().map_err(|_| stranger())?;
        match kind {
            0 => Ok(Self::Control),
            1 => Ok(Self::Stream(cookie, u16::from_be_bytes(index))),
            _ => Err(stranger()),
        }
    }
}

/// Which end sends.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Direction {
    /// The client.
    Forward,
    /// The server.
    Reverse,
    /// Both, over streams of their own.
    Both,
    /// Both alternately.
    RoundTrip,
}

/// When a test ends.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Limit {
    /// After so many milliseconds.
    Milliseconds(u64),
    /// When all streams of a direction together have sent so many bytes.
    Octets(u64),
}

/// What a client asks for.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Request {
    pub(super) direction: Direction,
    /// Streams of each direction.
    pub(super) streams: u16,
    /// Bytes of a write, or of a message.
    pub(super) length: u32,
    pub(super) limit: Limit,
}

/// What a stream does at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Send,
    Receive,
    /// Sends messages and waits for each.
    Ask,
    /// Sends back what comes.
    Echo,
}

impl Request {
    /// Whether a server takes it.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn check(&self, longest: Duration) -> Result<(), String> {
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return Err(format!("1 to {MOST_STREAMS} streams are possible"));
        }
        if !(1..=MOST_LENGTH).contains(&self.length) {
            return Err(format!("1 to {MOST_LENGTH} bytes of a write are possible"));
        }
        match self.limit {
            Limit::Milliseconds(time) if Duration::from_millis(time) > longest => Err(format!(
                "tests take {} s at most (--longest)",
                longest.as_secs_f64()
            )),
            Limit::Octets(_) if self.direction == Direction::RoundTrip => {
                Err("round trips go by time".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// All streams of it.
    pub(super) fn total(&self) -> u16 {
        let directions = if self.direction == Direction::Both {
            2
        } else {
            1
        };
        self.streams.saturating_mul(directions)
    }

    /// What the client does with a stream, and the server.
    pub(super) fn parts(&self, index: u16) -> (Part, Part) {
        match self.direction {
            Direction::RoundTrip => (Part::Ask, Part::Echo),
            Direction::Reverse => (Part::Receive, Part::Send),
            Direction::Both if index >= self.streams => (Part::Receive, Part::Send),
            Direction::Forward | Direction::Both => (Part::Send, Part::Receive),
        }
    }

    /// Bytes that a stream sends, if they are limited.
    pub(super) fn share(&self, index: u16) -> Option<u64> {
        let Limit::Octets(all) = self.limit else {
            return None;
        };
        let streams = u64::from(self.streams.max(1));
        let index = u64::from(index) % streams;
        Some(all / streams + u64::from(index < all % streams))
    }

    /// How long it takes, if that is limited.
    pub(super) fn time(&self) -> Option<Duration> {
        match self.limit {
            Limit::Milliseconds(time) => Some(Duration::from_millis(time)),
            Limit::Octets(_) => None,
        }
    }
}

/// Answer of a server.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// The streams may come; the number in hexadecimal digits.
    Ready(String),
    /// All are there.
    Begin,
    /// What came of them, in the order of their numbers.
    Done(Vec<Counted>),
    /// There is no test, or not this one.
    Refused(String),
}

/// What one end counted of a stream.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counted {
    pub(super) octets: u64,
    pub(super) nanoseconds: u64,
    /// Why it ended early.
    pub(super) error: Option<String>,
}

/// Sends a message.
pub(super) fn send(stream: &Stream, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).ok();
    let length = length.filter(|length| *length <= LARGEST);
    let length = length.ok_or_else(|| invalid("the message is too large"))?;
    let mut octets = length.to_be_bytes().to_vec();
    octets.extend(text);
    let mut stream = stream;
    stream.write_all(&octets)
}

/// Receives a message that is there before `until`.
pub(super) fn receive<T: DeserializeOwned>(stream: &Stream, until: Instant) -> io::Result<T> {
    parse(&mut Until { stream, until })
}

fn parse<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LARGEST {
        return Err(invalid("a message of the peer is too large"));
    }
    // It grows with what comes, not with what was announced.
    let mut text = Vec::new();
    from.take(length.into()).read_to_end(&mut text)?;
    if text.len() != length as usize {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text).map_err(|_| invalid("a message of the peer makes no sense"))
}

/// A stream that is read until a moment, however slowly bytes come.
pub(super) struct Until<'a> {
    pub(super) stream: &'a Stream,
    pub(super) until: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(into).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

/// Text of the peer without control characters for a terminal, and not too long.
pub(super) fn harmless(text: &str) -> String {
    let printable = text.chars().filter(|of| !of.is_control());
    printable.take(300).collect()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(direction: Direction, streams: u16, limit: Limit) -> Request {
        Request {
            direction,
            streams,
            length: 1,
            limit,
        }
    }

    #[test]
    fn greetings_are_read_as_they_were_written_and_nothing_else_is_one() {
        for greeting in [Greeting::Control, Greeting::Stream([7; 16], 300)] {
            let mut octets = Vec::new();
            greeting.write(&mut octets).unwrap();
            assert_eq!(octets.len(), GREETING);
            assert_eq!(Greeting::read(&mut octets.as_slice()).unwrap(), greeting);
            assert!(Greeting::read(&mut &octets[..GREETING - 1]).is_err());
            octets[8] = 2;
            assert!(Greeting::read(&mut octets.as_slice()).is_err());
        }
        let http = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert!(Greeting::read(&mut &http[..]).is_err());
    }

    #[test]
    fn messages_that_are_too_large_cut_or_senseless_are_refused() {
        let kind = |length: u32, text: &[u8]| {
            let mut octets = length.to_be_bytes().to_vec();
            octets.extend(text);
            parse::<Request>(&mut octets.as_slice()).unwrap_err().kind()
        };
        assert_eq!(kind(u32::MAX, b"{}"), ErrorKind::InvalidData);
        assert_eq!(kind(LARGEST + 1, b"{}"), ErrorKind::InvalidData);
        assert_eq!(kind(3, b"{}"), ErrorKind::UnexpectedEof);
        assert_eq!(kind(2, b"{}"), ErrorKind::InvalidData);
        let deep = vec![b'['; 100_000];
        assert_eq!(kind(100_000, &deep), ErrorKind::InvalidData);
    }

    #[test]
    fn requests_beyond_the_limits_are_refused() {
        let longest = Duration::from_secs(10);
        let time = Limit::Milliseconds(10_000);
        assert_eq!(request(Direction::Both, 128, time).check(longest), Ok(()));
        for wrong in [
            request(Direction::Both, 0, time),
            request(Direction::Both, 129, time),
            request(Direction::Both, u16::MAX, time),
            request(Direction::Forward, 1, Limit::Milliseconds(10_001)),
            request(Direction::Forward, 1, Limit::Milliseconds(u64::MAX)),
            request(Direction::RoundTrip, 1, Limit::Octets(1)),
            Request {
                length: MOST_LENGTH + 1,
                ..request(Direction::Forward, 1, time)
            },
            Request {
                length: 0,
                ..request(Direction::Forward, 1, time)
            },
        ] {
            assert!(wrong.check(longest).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn shares_of_the_streams_are_all_octets() {
        for (streams, all) in [(1, 0), (3, 10), (128, 5), (7, u64::MAX)] {
            let request = request(Direction::Both, streams, Limit::Octets(all));
            for first in [0, streams] {
                let shares = (first..first + streams).filter_map(|of| request.share(of));
                assert_eq!(shares.map(u128::from).sum::<u128>(), u128::from(all));
            }
        }
    }

    #[test]
    fn text_of_the_peer_has_no_control_characters() {
        assert_eq!(harmless("a\x1b[2Jb\r\n\u{9b}c"), "a[2Jbc");
        assert_eq!(harmless(&"x".repeat(1000)).len(), 300);
    }
}
