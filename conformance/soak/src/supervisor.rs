//! Starts the processes, does things to them, and judges.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use rustix::process::{Pid, Signal, kill_process};

use crate::judge::{Done, Judge, Which};
use crate::possessions::Possessions;
use crate::random::Random;
use crate::report::{Moment, Report};
use crate::{client, server};

/// A soak of the sockets: mixed load over many connections while processes are killed,
/// stopped and forked. Ends with 1 if there was a finding.
#[derive(Debug, Parser)]
#[command(name = "smc-soak")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    /// How long.
    #[arg(long = "for", default_value = "10m")]
    duration: humantime::Duration,
    /// Connections at a time.
    #[arg(long, default_value_t = 512)]
    connections: usize,
    /// Time without progress that is a finding.
    #[arg(long, default_value = "100ms")]
    stall: humantime::Duration,
    /// Mean pause between requests of a connection.
    #[arg(long, default_value = "60ms")]
    pause: humantime::Duration,
    /// Mean pause between interventions.
    #[arg(long, default_value = "500ms")]
    every: humantime::Duration,
    /// Decides what is sent and done.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What a process of the soak is.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    #[command(hide = true)]
    Server(server::Server),
    #[command(hide = true)]
    Client(client::Client),
}

/// Longest time until a server listens, and until it has given back what it had for clients
/// that are gone.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A line of a process.
type Line = (Which, u32, String);

/// A process; killed when dropped.
struct Process {
    which: Which,
    arguments: Vec<String>,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    fn start(which: Which, arguments: Vec<String>, lines: &Sender<Line>) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (lines, id) = (lines.clone(), child.id());
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if lines.send((which, id, line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            which,
            arguments,
            child,
            stdin,
        })
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Ends it as `kill -9` does, and starts it anew.
    fn restart(&mut self, lines: &Sender<Line>) -> io::Result<()> {
        self.end()?;
        *self = Self::start(self.which, self.arguments.clone(), lines)?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A place of a server, which stays while servers are killed and started.
fn address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

struct Soak<'a> {
    arguments: &'a Arguments,
    judge: Judge,
    random: Random,
    lines: (Sender<Line>, Receiver<Line>),
    addresses: Vec<SocketAddr>,
    servers: Vec<Process>,
    clients: Vec<Process>,
}

/// Runs the soak and prints what there was; whether there was no finding.
pub(crate) fn run(arguments: &Arguments) -> io::Result<bool> {
    let mut soak = Soak {
        arguments,
        judge: Judge::default(),
        random: Random::new(arguments.seed),
        lines: channel(),
        addresses: Vec::new(),
        servers: Vec::new(),
        clients: Vec::new(),
    };
    for (number, kind) in server::Kind::ALL.into_iter().enumerate() {
        soak.serve(number, kind)?;
    }
    let before = soak.possessions_after_one_connection()?;
    for number in 0..client::Kind::ALL.len() {
        let client = soak.client(number, arguments.connections / client::Kind::ALL.len())?;
        soak.clients.push(client);
    }
    let end = Instant::now() + arguments.duration.into();
    let mut restarted = vec![false; soak.servers.len()];
    loop {
        let pause = soak.next_pause();
        let left = end.saturating_duration_since(Instant::now());
        soak.collect(pause.min(left))?;
        if pause >= left {
            break;
        }
        soak.intervene(&mut restarted)?;
    }
    soak.collect(Duration::from_millis(500))?;
    soak.clients.clear();
    soak.check_possessions(&before, &restarted)?;
    Ok(soak.verdict())
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

impl Soak<'_> {
    fn serve(&mut self, number: usize, kind: server::Kind) -> io::Result<()> {
        use clap::ValueEnum;
        let kind = kind.to_possible_value().expect("a kind has a name");
        let address = address()?;
        let arguments = strings([
            "server",
            "--kind",
            kind.get_name(),
            "--address",
            &address.to_string(),
            "--server",
            &number.to_string(),
        ]);
        let server = Process::start(Which::Server(number), arguments, &self.lines.0)?;
        self.addresses.push(address);
        self.servers.push(server);
        self.await_server(number)
    }

    /// Waits until a server listens.
    fn await_server(&mut self, number: usize) -> io::Result<()> {
        let end = Instant::now() + TIMEOUT;
        let id = self.servers[number].child.id();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.1.recv_timeout(left);
            let (which, of, line) = line.map_err(io::Error::other)?;
            let listening = of == id && line.parse() == Ok(Report::Listening);
            self.take(which, &line);
            if listening {
                return Ok(());
            }
        }
    }

    fn client(&mut self, number: usize, connections: usize) -> io::Result<Process> {
        use clap::ValueEnum;
        let kind = client::Kind::ALL[number].to_possible_value();
        let kind = kind.expect("a kind has a name");
        let mut arguments = strings([
            "client",
            "--kind",
            kind.get_name(),
            "--connections",
            &connections.to_string(),
            "--seed",
            &self.random.next().to_string(),
            "--stall",
            &self.arguments.stall.to_string(),
            "--pause",
            &self.arguments.pause.to_string(),
        ]);
        for address in &self.addresses {
            arguments.extend(strings(["--address", &address.to_string()]));
        }
        Process::start(Which::Client(number), arguments, &self.lines.0)
    }

    fn next_pause(&mut self) -> Duration {
        let mean: Duration = self.arguments.every.into();
        mean * self.random.below(201) as u32 / 100
    }

    fn take(&mut self, which: Which, line: &str) {
        match line.parse() {
            Ok(report) => self.judge.take(which, report),
            Err(line) => self.judge.stray(which, &line),
        }
    }

    /// Takes what processes report during this time.
    fn collect(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.1.recv_timeout(left) {
                Ok((which, _, line)) => self.take(which, &line),
                Err(_) => break,
            }
            if left.is_zero() {
                break;
            }
        }
        for process in self.servers.iter_mut().chain(&mut self.clients) {
            if let Some(status) = process.child.try_wait()? {
                let which = process.which;
                return Err(io::Error::other(format!("{which:?} ended: {status}")));
            }
        }
        Ok(())
    }

    fn intervene(&mut self, restarted: &mut [bool]) -> io::Result<()> {
        let all = self.servers.len() + self.clients.len();
        let which = self.random.below(all as u64) as usize;
        let what = self.random.below(10);
        let stop = Duration::from_millis(5 + self.random.below(200));
        let asked = self.addresses[self.random.below(self.addresses.len() as u64) as usize];
        let servers = self.servers.len();
        let at = Moment::now();
        let (process, is_server) = match self.servers.get_mut(which) {
            Some(server) => (server, true),
            None => (&mut self.clients[which - servers], false),
        };
        let name = process.which;
        match what {
            0 => {
                process.restart(&self.lines.0)?;
                self.judge.intervene(name, at, Done::Killed);
                if is_server {
                    restarted[which] = true;
                    self.await_server(which)?;
                    // Until now nothing could connect to it.
                    self.judge.intervene(name, Moment::now(), Done::Killed);
                }
            }
            1..5 if is_server => {
                let stdin = process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                writeln!(stdin, "{asked}")?;
                self.judge.intervene(name, at, Done::Forked);
            }
            _ => {
                process.signal(Signal::STOP)?;
                thread::sleep(stop);
                process.signal(Signal::CONT)?;
                let until = Moment::now();
                self.judge.intervene(name, at, Done::Stopped { until });
            }
        }
        Ok(())
    }

    /// What each server possesses when clients of every kind have come and gone.
    fn possessions_after_one_connection(&mut self) -> io::Result<Vec<Possessions>> {
        for number in 0..client::Kind::ALL.len() {
            let answered = self.judge.requests + 20;
            let mut client = self.client(number, self.addresses.len())?;
            let end = Instant::now() + TIMEOUT;
            while self.judge.requests < answered {
                if Instant::now() > end {
                    return Err(io::Error::other(format!("client {number} gets no answers")));
                }
                self.collect(Duration::from_millis(10))?;
            }
            client.end()?;
        }
        self.rest();
        self.possessions()
    }

    /// Waits until servers possess nothing more of clients that are gone.
    fn rest(&mut self) {
        let mut before = None;
        for _ in 0..TIMEOUT.as_secs() {
            // Threads and tasks end, and timers of groups without connections.
            thread::sleep(Duration::from_secs(1));
            let now = self.possessions().ok();
            if now == before {
                break;
            }
            before = now;
        }
    }

    fn possessions(&self) -> io::Result<Vec<Possessions>> {
        let of = |server: &Process| Possessions::of(server.child.id());
        self.servers.iter().map(of).collect()
    }

    fn check_possessions(&mut self, before: &[Possessions], restarted: &[bool]) -> io::Result<()> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let now = self.possessions()?;
            let mut more = Vec::new();
            for (number, (now, before)) in now.iter().zip(before).enumerate() {
                if !now.is_within(before) {
                    let again = if restarted[number] { ", restarted" } else { "" };
                    more.push(format!("server {number}{again}: {now}; before: {before}"));
                }
            }
            if more.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                more.into_iter().for_each(|more| self.judge.find(more));
                return Ok(());
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn verdict(&mut self) -> bool {
        while let Ok((which, _, line)) = self.lines.1.try_recv() {
            self.take(which, &line);
        }
        let findings = self.judge.findings();
        let judge = &self.judge;
        println!(
            "{} requests, {} bytes, {} connections over SMC, {} over TCP; explained: {} stalls, \
             {} failures",
            judge.requests,
            judge.bytes,
            judge.smc,
            judge.tcp,
            judge.stalls_explained,
            judge.failures_explained
        );
        for finding in &findings {
            println!("FINDING {finding}");
        }
        println!("{} findings, seed {}", findings.len(), self.arguments.seed);
        findings.is_empty() && judge.smc > judge.tcp && judge.requests > 0
    }
}
