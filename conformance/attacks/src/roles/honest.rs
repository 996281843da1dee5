//! Honest clients: they connect, send, and demand every byte back.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smc_sockets::{SmcStream, Stack};

/// What honest clients saw; a failure ends their process instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Connections over SMC, each opened, used and closed.
    pub smc: u64,
    /// Connections over TCP, likewise.
    pub tcp: u64,
    /// Round trips of connections that stay open.
    pub rounds: u64,
    /// Longest time that one connection or round trip took, in milliseconds.
    pub slowest: u64,
}

impl Report {
    /// A report from its line.
    ///
    /// # Panics
    /// If it is not four numbers.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|number| {
            number
                .parse()
                .unwrap_or_else(|_| panic!("not a report: {line}"))
        });
        let mut next = || {
            numbers
                .next()
                .unwrap_or_else(|| panic!("not a report: {line}"))
        };
        Self {
            smc: next(),
            tcp: next(),
            rounds: next(),
            slowest: next(),
        }
    }

    fn merge(&mut self, other: Self) {
        self.smc += other.smc;
        self.tcp += other.tcp;
        self.rounds += other.rounds;
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// Arguments: the server's address, and how many threads open connection after connection;
/// as many again keep one each. Prints `connected` once all are, ends at the line
/// `finish` with the line `report SMC TCP ROUNDS SLOWEST`. The first failure or wrong byte
/// ends the process with status 1 and a line on standard error; after a third argument
/// `insistent` only that of a connection which is kept: others are opened anew.
///
/// # Errors
/// The operating system's.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let (address, threads, insistent) = match arguments {
        [address, threads] => (address, threads, false),
        [address, threads, manner] if manner == "insistent" => (address, threads, true),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let threads: u64 = threads.parse().map_err(io::Error::other)?;
    let stack = super::stack()?;
    let finished = AtomicBool::new(false);
    let total = Mutex::new(Report::default());
    let (connected, all_connected) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..2 * threads {
            let (stack, finished, total) = (&stack, &finished, &total);
            let connected = connected.clone();
            scope.spawn(move || {
                let task = if thread < threads { come_and_go } else { stay };
                let once = || {
                    task(stack, address, thread, finished, &|| {
                        let _ = connected.send(());
                    })
                };
                let mut report = once();
                while insistent && thread < threads && report.is_err() {
                    report = once();
                }
                match report {
                    Ok(report) => total.lock().expect("no thread panicked").merge(report),
                    Err(error) => {
                        eprintln!("honest client {thread}: {error}");
                        std::process::exit(1);
                    }
                }
            });
        }
        for _ in 0..2 * threads {
            let _ = all_connected.recv();
        }
        println!("connected");
        let ended = super::await_line("finish");
        finished.store(true, Ordering::Relaxed);
        ended
    })?;
    let Report {
        smc,
        tcp,
        rounds,
        slowest,
    } = *total.lock().expect("no thread panicked");
    println!("report {smc} {tcp} {rounds} {slowest}");
    Ok(())
}

/// Opens connections one after another.
fn come_and_go(
    stack: &Stack,
    address: &str,
    thread: u64,
    finished: &AtomicBool,
    connected: &dyn Fn(),
) -> io::Result<Report> {
    let mut report = Report::default();
    while !finished.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let mut stream = SmcStream::connect_on(stack, address)?;
        if stream.carrier().is_smc() {
            report.smc += 1;
        } else {
            report.tcp += 1;
        }
        for round in 0..3 {
            round_trip(&mut stream, thread ^ report.smc, 100 + 3000 * round)?;
        }
        stream.shutdown(Shutdown::Write)?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        if !rest.is_empty() {
            return Err(io::Error::other("bytes behind the last echo"));
        }
        report.slowest = report.slowest.max(millis(begin));
        if report.smc + report.tcp == 1 {
            connected();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(report)
}

/// Keeps one connection.
fn stay(
    stack: &Stack,
    address: &str,
    thread: u64,
    finished: &AtomicBool,
    connected: &dyn Fn(),
) -> io::Result<Report> {
    let mut report = Report::default();
    let mut stream = SmcStream::connect_on(stack, address)?;
    connected();
    while !finished.load(Ordering::Relaxed) {
        let begin = Instant::now();
        round_trip(&mut stream, thread ^ report.rounds, 2000)?;
        report.rounds += 1;
        report.slowest = report.slowest.max(millis(begin));
        std::thread::sleep(Duration::from_millis(3));
    }
    Ok(report)
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn round_trip(stream: &mut SmcStream, seed: u64, len: usize) -> io::Result<()> {
    let mut state = seed | 1;
    let sent: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect();
    stream.write_all(&sent)?;
    let mut echoed = vec![0; len];
    stream.read_exact(&mut echoed)?;
    match sent
        .iter()
        .zip(&echoed)
        .position(|(sent, echoed)| sent != echoed)
    {
        None => Ok(()),
        Some(at) => Err(io::Error::other(format!("byte {at} of {len} is wrong"))),
    }
}
