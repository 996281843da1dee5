//! How fast two processes of this host talk.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::{HostPort, PerfArguments, Transport};
use crate::net::Means;
use crate::net::stream::{Listener, Stream};
use crate::output::{Failure, Fields, reason};

use super::times::Times;

/// What the first byte of a connection asks of the server.
const STREAM: u8 = b's';
const ECHO: u8 = b'e';
const NOTHING: u8 = b'n';

/// Bytes of a write while streaming.
const CHUNK: usize = 64 << 10;

/// What was measured over one transport.
struct Figures {
    /// What carried it.
    carrier: String,
    /// Bytes a second, one way.
    stream_octets_per_s: f64,
    /// Bytes of a message.
    message_octets: u32,
    /// Messages there and back.
    round_trips: u64,
    /// Time of half of them, and of the slowest in a hundred, in nanoseconds.
    round_trip_p50_ns: u64,
    round_trip_p99_ns: u64,
    /// Connections opened and closed one after the other, a second.
    connections_per_s: f64,
}

impl Figures {
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        fields.put("carrier", self.carrier.as_str());
        fields.put("stream_octets_per_s", self.stream_octets_per_s);
        fields.put("message_octets", self.message_octets);
        fields.put("round_trips", self.round_trips);
        fields.put("round_trip_p50_ns", self.round_trip_p50_ns);
        fields.put("round_trip_p99_ns", self.round_trip_p99_ns);
        fields.put("connections_per_s", self.connections_per_s);
        fields
    }
}

/// The other end, ended with this value.
struct Server {
    /// Has the only other end of its standard input: when this process ends, however that
    /// happens, the child reads the end of it.
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the command.
///
/// # Errors
/// What the user is to know.
pub(super) fn run(arguments: &PerfArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let problem = |error: io::Error| Failure::Problem(format!("perf: {}", reason(&error)));
    let transports = match arguments.transport {
        Some(one) => vec![one],
        None => vec![Transport::Ism, Transport::Tcp],
    };
    if arguments.serve {
        let transport = arguments.transport.unwrap_or(Transport::Ism);
        return serve(&Means::of(transport, &arguments.policy)?, stdout);
    }
    for transport in transports {
        let means = Means::of(transport, &arguments.policy)?;
        let figures = measure(transport, &means, arguments).map_err(problem)?;
        if arguments.json {
            let object = serde_json::to_string(&figures.fields())
                .map_err(|error| Failure::Problem(error.to_string()))?;
            writeln!(stdout, "{object}")?;
        } else {
            writeln!(stdout, "{}", figures.carrier)?;
            let gigabytes = figures.stream_octets_per_s / 1e9;
            writeln!(stdout, "  stream        {gigabytes:.2} GB/s")?;
            writeln!(
                stdout,
                "  there and back {:.1} us (p99 {:.1}), {} bytes",
                figures.round_trip_p50_ns as f64 / 1e3,
                figures.round_trip_p99_ns as f64 / 1e3,
                figures.message_octets,
            )?;
            writeln!(
                stdout,
                "  connections   {:.0} a second",
                figures.connections_per_s
            )?;
        }
        stdout.flush()?;
    }
    Ok(())
}

fn measure(transport: Transport, means: &Means, arguments: &PerfArguments) -> io::Result<Figures> {
    let server = Server::start(transport, arguments)?;
    let time = Duration::from_secs_f64(arguments.seconds.unwrap_or(1.0));
    let size = arguments.length.unwrap_or(64);
    let (carrier, stream_octets_per_s) = stream(means, &server.address, time)?;
    let times = echo(means, &server.address, time, size)?;
    let (round_trips, sorted) = (times.count, times.sorted());
    let share = |percent: usize| sorted.get(sorted.len() * percent / 100).copied();
    Ok(Figures {
        carrier,
        stream_octets_per_s,
        message_octets: size,
        round_trips,
        round_trip_p50_ns: share(50).unwrap_or_default(),
        round_trip_p99_ns: share(99).unwrap_or_default(),
        connections_per_s: connections(means, &server.address, time)?,
    })
}

impl Server {
    fn start(transport: Transport, arguments: &PerfArguments) -> io::Result<Self> {
        let transport = match transport {
            Transport::Auto => "auto",
            Transport::Verbs => "verbs",
            Transport::Ism => "ism",
            Transport::Tcp => "tcp",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["perf", "--serve", "--transport", transport]);
        if let Some(policy) = &arguments.policy.policy {
            command.arg("--policy").arg(policy);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        let address = address.trim().to_owned();
        let server = Self { child, address };
        if server.address.is_empty() {
            return Err(io::Error::other("the other end did not start"));
        }
        Ok(server)
    }
}

/// Bytes a second, until the server has read them all, and what carried them.
fn stream(means: &Means, to: &str, time: Duration) -> io::Result<(String, f64)> {
    let stream = Stream::connect(means, to)?;
    let chunk = vec![0x5a; CHUNK];
    (&stream).write_all(&[STREAM])?;
    let begin = Instant::now();
    let mut octets = 0u64;
    // Once at least, however late a busy machine runs this.
    while octets == 0 || begin.elapsed() < time {
        (&stream).write_all(&chunk)?;
        octets += CHUNK as u64;
    }
    stream.end()?;
    let mut counted = [0; 8];
    (&stream).read_exact(&mut counted)?;
    let seconds = begin.elapsed().as_secs_f64();
    if u64::from_be_bytes(counted) != octets {
        return Err(io::Error::other("bytes were lost"));
    }
    Ok((stream.carrier(), octets as f64 / seconds))
}

/// Measures the time of each message there and back.
fn echo(means: &Means, to: &str, time: Duration, size: u32) -> io::Result<Times> {
    let stream = Stream::connect(means, to)?;
    let mut message = vec![0x5a; size as usize];
    (&stream).write_all(&[ECHO])?;
    let mut times = Times::default();
    let begin = Instant::now();
    let mut last = begin;
    while last - begin < time {
        (&stream).write_all(&message)?;
        (&stream).read_exact(&mut message)?;
        let now = Instant::now();
        times.add(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
    Ok(times)
}

/// Connections a second: opened, used by one byte, and closed.
fn connections(means: &Means, to: &str, time: Duration) -> io::Result<f64> {
    let begin = Instant::now();
    let mut count = 0u32;
    while count == 0 || begin.elapsed() < time {
        let stream = Stream::connect(means, to)?;
        (&stream).write_all(&[NOTHING])?;
        stream.end()?;
        (&stream).read_to_end(&mut Vec::new())?;
        count += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Ends this process with the one that has the other end of its standard input.
///
/// A pipe has no moment in which it could be too late: it is there before the child is.
fn end_with_parent() {
    thread::spawn(|| {
        // Nothing is ever written to it.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
}

/// The other end.
fn serve(means: &Means, stdout: &mut dyn Write) -> Result<(), Failure> {
    let problem = |error: io::Error| Failure::Problem(format!("perf: {}", reason(&error)));
    end_with_parent();
    let here = HostPort::At("127.0.0.1".to_owned(), 0);
    let listener = Listener::bind(means, &here).map_err(problem)?;
    writeln!(stdout, "{}", listener.address().map_err(problem)?)?;
    stdout.flush()?;
    loop {
        let stream = listener.accept().map_err(problem)?;
        // A client that goes away is none of the server's business.
        thread::spawn(move || answer(&stream));
    }
}

fn answer(stream: &Stream) -> io::Result<()> {
    let mut wish = [0];
    let mut octets = vec![0; 4 * CHUNK];
    let mut stream = stream;
    stream.read_exact(&mut wish)?;
    let mut count = 0u64;
    loop {
        let len = stream.read(&mut octets)?;
        count += len as u64;
        match wish {
            [STREAM] if len == 0 => return stream.write_all(&count.to_be_bytes()),
            [ECHO] if len > 0 => stream.write_all(octets.get(..len).unwrap_or_default())?,
            _ if len == 0 => return Ok(()),
            _ => {}
        }
    }
}
