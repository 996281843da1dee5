//! A server for collectors of metrics: bounded in connections, time and memory for any client.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{interval, sleep, timeout};

use super::http::{self, Asked, Request};
use super::sums::Sums;
use super::text;
use crate::cli::MetricsArguments;
use crate::net::{PAUSE, Signals, problem};
use crate::output::{Failure, Screen};

/// Most connections at a time; for a further one, the oldest is closed.
const CONNECTIONS: usize = 32;
/// How long a request may take to come.
const REQUEST: Duration = Duration::from_secs(5);
/// How long an answer may take to go.
const ANSWER: Duration = Duration::from_secs(10);
/// How long, and for how many bytes, the peer's end is waited for behind an answer.
const REST: (Duration, u64) = (Duration::from_secs(1), 1 << 16);
/// Figures of this age are as good as new ones: requests in a flood share them, and their text.
const FRESH: Duration = Duration::from_millis(100);

/// The sums, when they were made, and their text once it is asked for.
struct Collector {
    sums: Sums,
    at: Option<Instant>,
    text: Option<String>,
}

type Shared = Arc<Mutex<Collector>>;

/// Answers requests until a signal ends it.
pub(super) fn run(
    address: SocketAddr,
    arguments: &MetricsArguments,
    screen: &Screen,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .map_err(|error| problem("metrics", &error))?;
    let outcome = runtime.block_on(serve(address, arguments, screen, stderr));
    runtime.shutdown_background();
    outcome
}

async fn serve(
    address: SocketAddr,
    arguments: &MetricsArguments,
    screen: &Screen,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let mut signals = Signals::to_end().map_err(|error| problem("metrics", &error))?;
    let shown = address.to_string();
    let unusable = |error: io::Error| problem(&shown, &error);
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    // On a terminal, a command that only waits seems to hang.
    if arguments.verbose || screen.progress {
        let here = listener.local_addr().map_err(unusable)?;
        // A closed error stream keeps nothing from being served.
        let _ = writeln!(stderr, "smcx: metrics: http://{here}/metrics");
    }
    let shared = Arc::new(Mutex::new(Collector {
        sums: Sums::new(super::own_user()),
        at: None,
        text: None,
    }));
    let mut sample = interval(Duration::from_secs(arguments.sample));
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            () = signals.next() => return Ok(()),
            _ = sample.tick() => {
                // Otherwise they are being read. A client gets what is wrong.
                if let Ok(mut collector) = shared.clone().try_lock_owned() {
                    spawn_blocking(move || drop(collector.refresh()));
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.retain(|at| !at.is_finished());
                    if connections.len() >= CONNECTIONS
                        && let Some(oldest) = connections.pop_front()
                    {
                        oldest.abort();
                    }
                    let task = tokio::spawn(connection(stream, shared.clone()));
                    connections.push_back(task.abort_handle());
                }
                Err(_) => sleep(PAUSE).await,
            },
        }
    }
}

impl Collector {
    /// Reads the metrics anew, unless that was done just before.
    fn refresh(&mut self) -> Result<(), String> {
        if self.at.is_none_or(|at| at.elapsed() >= FRESH) {
            let seen = super::seen().map_err(|failure| failure.to_string())?;
            self.sums.observe(&seen, smc_view::started);
            self.at = Some(Instant::now());
            self.text = None;
        }
        Ok(())
    }

    /// The text of the metrics of just now.
    fn read(&mut self) -> Result<&str, String> {
        self.refresh()?;
        Ok(self.text.get_or_insert_with(|| text::of(&self.sums)))
    }
}

async fn connection(mut stream: TcpStream, shared: Shared) {
    // Peers that go away have no answer.
    let _ = converse(&mut stream, shared).await;
}

async fn converse(stream: &mut TcpStream, shared: Shared) -> io::Result<()> {
    let mut head = Vec::new();
    let request = match timeout(REQUEST, read(stream, &mut head)).await {
        Ok(request) => request?,
        Err(_) => Request::refused(&head, "408 Request Timeout"),
    };
    // One at a time reads what processes publish; a connection that is closed waits no more.
    let answer = match request.asked {
        Asked::Metrics => {
            let mut collector = shared.lock_owned().await;
            let answered = spawn_blocking(move || http::answer(request, || collector.read()));
            answered.await.map_err(io::Error::other)?
        }
        _ => http::answer(request, || Err(String::new())),
    };
    let written = timeout(ANSWER, stream.write_all(answer.as_bytes()));
    written.await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.shutdown().await?;
    // What still comes would reset the connection, with the answer in it.
    let (time, bytes) = REST;
    let mut rest = stream.take(bytes);
    let mut sink = tokio::io::sink();
    let _ = timeout(time, tokio::io::copy(&mut rest, &mut sink)).await;
    Ok(())
}

/// Reads the head of a request.
async fn read(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<Request> {
    let mut part = [0; 1024];
    let mut is_whole = false;
    while !is_whole {
        if head.len() >= http::HEAD {
            let status = "431 Request Header Fields Too Large";
            return Ok(Request::refused(head, status));
        }
        let length = stream.read(&mut part).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // An end may have begun in what was read before.
        let unseen = head.len().saturating_sub(3);
        head.extend_from_slice(part.get(..length).unwrap_or_default());
        is_whole = http::has_end(head.get(unseen..).unwrap_or_default());
    }
    Ok(Request::of(head))
}
