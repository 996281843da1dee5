//! Clients: a thread each connection, or tasks of tokio in one thread or two.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use smc_sockets::{SmcStream, tokio as tasks};

use crate::canary;
use crate::conversation::{Exchange, Request, Step, Wrong, would_wait};
use crate::random::Random;
use crate::report::{Moment, Report};
use crate::server::Tried;

/// Pause before the next connection when one has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How a client waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Blocking, a thread each connection.
    Threads,
    /// tokio in one thread.
    TokioOne,
    /// tokio with two worker threads.
    TokioTwo,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Threads, Self::TokioOne, Self::TokioTwo];
}

/// A client.
#[derive(Clone, Debug, Args)]
pub(crate) struct Client {
    #[arg(long)]
    pub(crate) kind: Kind,
    /// Servers, each used by as many connections.
    #[arg(long, required = true)]
    pub(crate) address: Vec<SocketAddr>,
    /// Connections at a time.
    #[arg(long)]
    pub(crate) connections: usize,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Time without progress that is reported.
    #[arg(long)]
    pub(crate) stall: humantime::Duration,
    /// Mean pause between requests of a connection.
    #[arg(long)]
    pub(crate) pause: humantime::Duration,
}

/// Asks until the process is killed.
pub(crate) fn run(client: &Client) -> io::Result<()> {
    canary::start();
    // The supervisor is gone when the standard input ends.
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
    match client.kind {
        Kind::Threads => {
            for at in 0..client.connections {
                let mut asking = Asking::new(client, at);
                thread::Builder::new()
                    .stack_size(256 << 10)
                    .spawn(move || asking.block())?;
            }
            loop {
                thread::park();
            }
        }
        Kind::TokioOne => tokio::runtime::Builder::new_current_thread(),
        Kind::TokioTwo => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        }
    }
    .enable_all()
    .build()?
    .block_on(async {
        for at in 0..client.connections {
            let mut asking = Asking::new(client, at);
            tokio::spawn(async move { asking.wait().await });
        }
        std::future::pending().await
    })
}

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    /// After both directions were shut down in order.
    HalfClose,
    /// In the middle of an answer.
    Reset,
}

/// What asks over one connection after another.
struct Asking {
    random: Random,
    server: usize,
    address: SocketAddr,
    stall: Duration,
    pause: Duration,
    /// What it does now, and over what.
    doing: &'static str,
}

impl Asking {
    fn new(client: &Client, at: usize) -> Self {
        let server = at % client.address.len();
        Self {
            random: Random::new(client.seed ^ ((at as u64) << 32)),
            server,
            address: client.address[server],
            stall: client.stall.into(),
            pause: client.pause.into(),
            doing: "connecting",
        }
    }

    /// Most are small, as in life.
    fn len(&mut self) -> u32 {
        let most = match self.random.below(100) {
            0 => 512 << 10,
            1..5 => 64 << 10,
            5..20 => 4 << 10,
            _ => 200,
        };
        1 + self.random.below(most) as u32
    }

    fn request(&mut self) -> Request {
        Request {
            seed: self.random.next(),
            sent: self.len(),
            answer: self.len(),
        }
    }

    fn end(&mut self) -> End {
        match self.random.below(10) {
            0 => End::Reset,
            1..4 => End::HalfClose,
            _ => End::Close,
        }
    }

    fn next_pause(&mut self) -> Duration {
        self.pause * self.random.below(201) as u32 / 100
    }

    fn connected(&mut self, smc: bool) {
        self.doing = if smc { "over SMC" } else { "over TCP" };
        Report::Connected { smc }.send();
    }

    fn answered(request: Request) {
        let bytes = u64::from(request.sent) + u64::from(request.answer);
        Report::Answered { bytes }.send();
    }

    /// Reports an error of a connection.
    fn failed(&self, error: &io::Error) {
        let server = self.server;
        let report = match Wrong::of(error) {
            Some(what) => Report::Wrong {
                server,
                what: format!("{}: {what}", self.doing),
            },
            None => Report::Failed {
                server,
                at: Moment::now(),
                why: format!("{}: {error}", self.doing),
            },
        };
        report.send();
    }

    fn block(&mut self) {
        loop {
            if let Err(error) = self.block_once() {
                self.failed(&error);
                thread::sleep(AFTER_FAILURE);
            }
        }
    }

    fn block_once(&mut self) -> io::Result<()> {
        self.doing = "connecting";
        let mut stream = SmcStream::connect(self.address)?;
        self.connected(stream.carrier().is_smc());
        stream.set_read_timeout(Some(self.stall))?;
        stream.set_write_timeout(Some(self.stall))?;
        while !self.random.percent(3) {
            let request = self.request();
            let mut exchange = Exchange::new(request);
            let mut watch = Watch::new(self.server, self.stall);
            loop {
                let step = exchange.step(&mut stream)?;
                watch.progressed(exchange.progress, step == Step::Over);
                if step == Step::Over {
                    break;
                }
            }
            Self::answered(request);
            thread::sleep(self.next_pause());
        }
        match self.end() {
            End::Close => {}
            End::HalfClose => {
                stream.shutdown(Shutdown::Write)?;
                let mut rest = [0];
                let mut watch = Watch::new(self.server, self.stall);
                loop {
                    match io::Read::read(&mut stream, &mut rest) {
                        Ok(0) => break,
                        Ok(_) => return Err(Wrong::error("bytes behind the answer".into())),
                        Err(error) if would_wait(&error) => watch.progressed(0, false),
                        Err(error) => return Err(error),
                    }
                }
                watch.progressed(0, true);
            }
            End::Reset => {
                let request = self.request();
                Exchange::new(request).step(&mut FirstOnly(&mut stream))?;
            }
        }
        Ok(())
    }

    async fn wait(&mut self) {
        loop {
            if let Err(error) = self.wait_once().await {
                self.failed(&error);
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }

    async fn wait_once(&mut self) -> io::Result<()> {
        self.doing = "connecting";
        let stream = tasks::SmcStream::connect(self.address).await?;
        self.connected(stream.carrier().is_smc());
        while !self.random.percent(3) {
            let request = self.request();
            let mut exchange = Exchange::new(request);
            let mut watch = Watch::new(self.server, self.stall);
            loop {
                let step = exchange.step(&mut Tried(&stream))?;
                watch.progressed(exchange.progress, step == Step::Over);
                let ready = async {
                    match step {
                        Step::Reads => stream.readable().await,
                        Step::Writes => stream.writable().await,
                        Step::Over => Ok(()),
                    }
                };
                // Then it is tried again, as if it were ready, and reported as a stall.
                if let Ok(ready) = tokio::time::timeout(self.stall, ready).await {
                    ready?;
                }
                if step == Step::Over {
                    break;
                }
            }
            Self::answered(request);
            tokio::time::sleep(self.next_pause()).await;
        }
        match self.end() {
            End::Close => {}
            End::HalfClose => {
                let mut stream = stream;
                tokio::io::AsyncWriteExt::shutdown(&mut stream).await?;
                let mut watch = Watch::new(self.server, self.stall);
                loop {
                    match stream.try_read(&mut [0]) {
                        Ok(0) => break,
                        Ok(_) => return Err(Wrong::error("bytes behind the answer".into())),
                        Err(error) if would_wait(&error) => {
                            watch.progressed(0, false);
                            let _ = tokio::time::timeout(self.stall, stream.readable()).await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                watch.progressed(0, true);
            }
            End::Reset => {
                let request = self.request();
                Exchange::new(request).step(&mut FirstOnly(&mut Tried(&stream)))?;
            }
        }
        Ok(())
    }
}

/// A stream of which one piece is written and nothing is read.
struct FirstOnly<'a, S>(&'a mut S);

impl<S: io::Write> io::Write for FirstOnly<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S> io::Read for FirstOnly<'_, S> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

/// Notices when a request makes no progress.
struct Watch {
    server: usize,
    stall: Duration,
    progress: u64,
    since: Moment,
    /// When a stall that goes on was reported last.
    reported: Moment,
}

/// Microseconds between two reports of a stall that goes on.
const AGAIN: u64 = 1_000_000;

impl Watch {
    fn new(server: usize, stall: Duration) -> Self {
        let now = Moment::now();
        Self {
            server,
            stall,
            progress: 0,
            since: now,
            reported: now,
        }
    }

    /// Notes how many bytes there were until now, and whether nothing more is awaited.
    fn progressed(&mut self, progress: u64, over: bool) {
        let now = Moment::now();
        let moved = over || progress != self.progress;
        let stalled = now.micros_since(self.since) >= self.stall.as_micros() as u64;
        if stalled && (moved || now.micros_since(self.reported) >= AGAIN) {
            self.reported = now;
            Report::Stalled {
                server: self.server,
                from: self.since,
                to: now,
                goes_on: !moved,
            }
            .send();
        }
        if moved {
            self.progress = progress;
            self.since = now;
            self.reported = now;
        }
    }
}
