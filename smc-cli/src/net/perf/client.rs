//! `smcx perf --client`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::super::stream::Stream;
use super::super::{Means, problem};
use super::json;
use super::protocol::{
    self, Answer, Cookie, Counted, Direction, Greeting, Limit, Request, harmless,
};
use super::report;
use super::server::GRACE;
use super::work::{Ends, Sample, Work};
use crate::cli::{PerfArguments, Target, Transport};
use crate::output::Failure;

/// How long an answer of the server may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the server may wait for the streams of others before it begins.
const BEGINNING: Duration = Duration::from_secs(40);
/// Longest test that ends by bytes.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Seconds of a test, if nothing else ends it.
const SECONDS: f64 = 10.0;
/// Bytes of a write.
const LENGTH: u32 = 128 << 10;
/// Bytes of a message that goes there and back.
const MESSAGE: u32 = 64;

/// A test that has ended.
pub(super) struct Ended {
    pub(super) request: Request,
    pub(super) samples: Vec<(Sample, Sample)>,
    pub(super) last: Sample,
    pub(super) here: Vec<Counted>,
    pub(super) there: Vec<Counted>,
}

/// Runs a test.
///
/// # Errors
/// What the user is to know.
pub(super) fn run(
    arguments: &PerfArguments,
    host: &str,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let target = Target {
        host: host.to_owned(),
        port: Some(arguments.port),
    };
    let place = target.to_connect().map_err(Failure::Usage)?;
    let shown = place.to_string();
    let failed = |error: io::Error| problem(&shown, &error);
    let request = request(arguments);
    let transport = arguments.transport.unwrap_or(Transport::Auto);
    let means = Means::of(transport, &arguments.policy)?;
    let addresses = place.resolve().map_err(failed)?;
    let control = Stream::connect(&Means::Tcp, &*addresses).map_err(failed)?;
    let server = control.peer();
    let streams = open(&control, &means, &request).map_err(failed)?;
    let mut show = |lines: Vec<String>| -> io::Result<()> {
        if !arguments.json {
            lines
                .iter()
                .try_for_each(|line| writeln!(stdout, "{line}"))?;
            stdout.flush()?;
        }
        Ok(())
    };
    let facts = json::facts(&streams);
    show(report::connected(server, &request))?;
    show(report::carried(&streams))?;
    begin(&control).map_err(failed)?;
    let work = Work::start(&request, streams, true).map_err(failed)?;
    let parts = work.parts().to_vec();
    show(report::header(&parts))?;
    let ends = Ends {
        time: request.time(),
        hard: request.time().unwrap_or(LONGEST) + GRACE,
        interval: report::interval(arguments.interval),
    };
    let mut samples = Vec::new();
    let (here, last) = work.finish(ends, |before, now| {
        if arguments.json {
            samples.push((before.clone(), now.clone()));
            return Ok(());
        }
        show(report::interval_lines(&parts, before, now))
    })?;
    let there = done(&control, &request).map_err(failed)?;
    show(report::closing(&parts, &here, Some(&there), &last))?;
    let ended = Ended {
        request,
        samples,
        last,
        here,
        there,
    };
    if arguments.json {
        let object = json::object(server, &ended, &parts, &facts);
        writeln!(stdout, "{object}")?;
    }
    verdict(&shown, &ended)
}

fn request(arguments: &PerfArguments) -> Request {
    let direction = match (arguments.round_trip, arguments.reverse, arguments.bidir) {
        (true, ..) => Direction::RoundTrip,
        (_, true, _) => Direction::Reverse,
        (.., true) => Direction::Both,
        _ => Direction::Forward,
    };
    let usual = match direction {
        Direction::RoundTrip => MESSAGE,
        _ => LENGTH,
    };
    let seconds = Duration::from_secs_f64(arguments.seconds.unwrap_or(SECONDS));
    let time = u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX);
    Request {
        direction,
        streams: arguments.parallel,
        length: arguments.length.unwrap_or(usual),
        limit: arguments
            .bytes
            .map_or(Limit::Milliseconds(time), Limit::Octets),
    }
}

/// Agrees on a test, and opens its streams.
fn open(control: &Stream, means: &Means, request: &Request) -> io::Result<Vec<Stream>> {
    control.set_timeout(Some(TIMEOUT))?;
    let mut out = control;
    Greeting::Control.write(&mut out)?;
    protocol::send(control, request)?;
    let cookie = match answer(control, TIMEOUT)? {
        Answer::Ready(digits) => cookie(&digits).ok_or_else(|| senseless("Ready"))?,
        _ => return Err(senseless("no number of a test")),
    };
    let opened = (0..request.total()).map(|index| {
        let stream = Stream::connect(means, control.peer())?;
        stream.set_timeout(Some(TIMEOUT))?;
        let mut out = &stream;
        Greeting::Stream(cookie, index).write(&mut out)?;
        Ok(stream)
    });
    opened.collect()
}

fn begin(control: &Stream) -> io::Result<()> {
    match answer(control, BEGINNING)? {
        Answer::Begin => Ok(()),
        _ => Err(senseless("no beginning")),
    }
}

fn done(control: &Stream, request: &Request) -> io::Result<Vec<Counted>> {
    let counted = match answer(control, GRACE + TIMEOUT)? {
        Answer::Done(counted) => counted,
        _ => return Err(senseless("no figures")),
    };
    if counted.len() != usize::from(request.total()) {
        return Err(senseless("figures of other streams"));
    }
    let counted = counted.into_iter().map(|of| Counted {
        error: of.error.as_deref().map(harmless),
        ..of
    });
    Ok(counted.collect())
}

fn answer(control: &Stream, timeout: Duration) -> io::Result<Answer> {
    match protocol::receive(control, Instant::now() + timeout)? {
        Answer::Refused(why) => Err(io::Error::other(harmless(&why))),
        answer => Ok(answer),
    }
}

fn cookie(digits: &str) -> Option<Cookie> {
    let mut cookie = Cookie::default();
    let wanted = 2 * cookie.len();
    if digits.len() != wanted || !digits.bytes().all(|of| of.is_ascii_hexdigit()) {
        return None;
    }
    for (at, octet) in cookie.iter_mut().enumerate() {
        *octet = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(cookie)
}

fn senseless(what: &str) -> io::Error {
    let sentence = format!("the answer of the server makes no sense: {what}");
    io::Error::new(io::ErrorKind::InvalidData, sentence)
}

/// Whether every stream ended as it should, and every byte arrived.
fn verdict(server: &str, ended: &Ended) -> Result<(), Failure> {
    let sides = [(&ended.here, "here"), (&ended.there, "at the server")];
    for (counted, side) in sides {
        let broken = counted.iter().enumerate();
        let mut broken = broken.filter_map(|(at, of)| Some((at + 1, of.error.as_ref()?)));
        if let Some((stream, error)) = broken.next() {
            let sentence = format!("{server}: stream {stream} ended early {side}: {error}");
            return Err(Failure::Problem(sentence));
        }
    }
    let differs = ended.here.iter().zip(&ended.there);
    let mut differs = differs.filter(|(here, there)| here.octets != there.octets);
    match differs.next() {
        None => Ok(()),
        Some((here, there)) => Err(Failure::Problem(format!(
            "{server}: the two ends counted {} and {} bytes of a stream",
            here.octets, there.octets
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::cookie;

    #[test]
    fn a_number_of_a_test_has_32_digits() {
        let digits = "000102030405060708090a0b0c0d0eff";
        assert_eq!(cookie(digits).unwrap()[15], 0xff);
        for wrong in [
            "",
            "00",
            "+0102030405060708090a0b0c0d0e0ff",
            "ä0ä0ä0ä0ä0ä0ä0ä0ä0ä0",
        ] {
            assert_eq!(cookie(wrong), None, "{wrong}");
        }
        assert_eq!(cookie(&digits.replace('f', "g")), None);
    }
}
