//! Servers: a thread each connection, one thread with epoll, or tasks of tokio.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::net::SocketAddr;
use std::thread;

use clap::{Args, ValueEnum};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use smc_sockets::{Carrier, EventLoop, SmcListener, SmcStream, Stack, Wait, tokio as tasks};

use crate::conversation::{Serving, Step, Wrong};
use crate::report::Report;
use crate::{canary, fork};

/// How a server waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Blocking, a thread each connection.
    Threads,
    /// One thread with an [`EventLoop`] in an epoll.
    Epoll,
    /// tokio with two worker threads.
    Tokio,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Threads, Self::Epoll, Self::Tokio];
}

/// A server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Server {
    #[arg(long)]
    pub(crate) kind: Kind,
    #[arg(long)]
    pub(crate) address: SocketAddr,
    /// Its number.
    #[arg(long)]
    pub(crate) server: usize,
}

/// Serves until the process is killed. Each line of the standard input is an address that a
/// forked child asks.
pub(crate) fn run(server: &Server) -> io::Result<()> {
    canary::start();
    let forks = || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(address) = line.parse() {
                fork::ask_from_child(address);
            }
        }
        // The supervisor is gone.
        std::process::exit(0);
    };
    thread::spawn(forks);
    match server.kind {
        Kind::Threads => threads(server),
        Kind::Epoll => polled(server),
        Kind::Tokio => tokio(server),
    }
}

/// Notes how a connection ended: clients end connections in every way, and bytes are never changed.
fn ended(server: &Server, carrier: &Carrier, outcome: &io::Result<Step>) {
    if let Err(error) = outcome
        && let Some(what) = Wrong::of(error)
    {
        let what = format!("{carrier}: {what}");
        let server = server.server;
        Report::Wrong { server, what }.send();
    }
}

fn threads(server: &Server) -> io::Result<()> {
    let listener = SmcListener::bind(server.address)?;
    Report::Listening.send();
    loop {
        let (mut stream, _) = listener.accept()?;
        let server = server.clone();
        thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || {
                let outcome = Serving::new().step(&mut stream);
                ended(&server, stream.carrier(), &outcome);
            })?;
    }
}

fn tokio(server: &Server) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tasks::SmcListener::bind(server.address).await?;
        Report::Listening.send();
        loop {
            let (stream, _) = listener.accept().await?;
            let server = server.clone();
            tokio::spawn(async move {
                let outcome = serve(&stream).await;
                ended(&server, stream.carrier(), &outcome);
            });
        }
    })
}

async fn serve(stream: &tasks::SmcStream) -> io::Result<Step> {
    let mut serving = Serving::new();
    loop {
        match serving.step(&mut Tried(stream))? {
            Step::Reads => stream.readable().await?,
            Step::Writes => stream.writable().await?,
            Step::Over => return Ok(Step::Over),
        }
    }
}

/// A stream of tokio, without waiting.
pub(crate) struct Tried<'a>(pub(crate) &'a tasks::SmcStream);

impl Read for Tried<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Tried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tokens of the listener and of the [`EventLoop`]; those of connections begin behind them.
const LISTENER: usize = 0;
const STREAMS: usize = 1;

/// Turns without sleep after which other descriptors are polled.
const TURNS: usize = 64;

fn polled(server: &Server) -> io::Result<()> {
    let stack = Stack::of_process()?;
    let listener = SmcListener::bind(server.address)?;
    listener.set_nonblocking(true)?;
    Report::Listening.send();

    let mut streams = EventLoop::new(&stack)?;
    let poller = epoll::create(CreateFlags::CLOEXEC)?;
    let token = |token: usize| EventData::new_u64(token as u64);
    epoll::add(&poller, &listener, token(LISTENER), EventFlags::IN)?;
    epoll::add(&poller, &streams, token(STREAMS), EventFlags::IN)?;

    let mut connections: HashMap<usize, (SmcStream, Serving)> = HashMap::new();
    let (mut last, mut turn) = (STREAMS, 0);
    let (mut ready, mut events) = (Vec::new(), Vec::with_capacity(64));
    loop {
        streams.drive(&mut ready)?;
        let mut tokens: Vec<usize> = ready.drain(..).map(|ready| ready.token).collect();
        let sleeps = tokens.is_empty() && streams.wait()? == Wait::Sleep;
        turn += 1;
        if sleeps || turn % TURNS == 0 {
            let none = Timespec::default();
            let timeout = (!sleeps).then_some(&none);
            match epoll::wait(&poller, spare_capacity(&mut events), timeout) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            tokens.extend(events.drain(..).map(|event| event.data.u64() as usize));
        }
        for key in tokens {
            if key == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    last += 1;
                    if stream.carrier().is_smc() {
                        streams.register(&stream, last)?;
                    } else {
                        let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                        epoll::add(&poller, &stream, token(last), both)?;
                    }
                    connections.insert(last, (stream, Serving::new()));
                }
            } else if let Some((stream, serving)) = connections.get_mut(&key) {
                let outcome = serving.step(stream);
                if !matches!(outcome, Ok(Step::Reads | Step::Writes)) {
                    ended(server, stream.carrier(), &outcome);
                    connections.remove(&key);
                }
            }
        }
    }
}
