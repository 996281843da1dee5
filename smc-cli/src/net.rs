//! `smcx listen` and `smcx connect`: netcat through shared memory.

mod copy;
mod keyboard;
mod means;
pub mod perf;
mod places;
mod stream;

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use smc_sockets::{SmcListener, Stack};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{ConnectArguments, HostPort, ListenArguments};
use crate::output::{Failure, Screen, grouped, reason};
use copy::{Broken, copy};
use keyboard::{Input, Keyboard};
pub(crate) use means::Means;
use places::Places;
use stream::{Listener, Stream};

/// Pause after a connection could not be accepted: descriptors may be given back meanwhile.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Signals that end a command which has something to do first.
pub(crate) struct Signals(Vec<Signal>);

impl Signals {
    /// Signals of these kinds from now on, which end the process no more.
    pub(crate) fn of(kinds: &[SignalKind]) -> io::Result<Self> {
        let signals = kinds.iter().map(|kind| signal(*kind));
        Ok(Self(signals.collect::<io::Result<_>>()?))
    }

    /// Interrupts and requests to end.
    pub(crate) fn to_end() -> io::Result<Self> {
        Self::of(&[SignalKind::interrupt(), SignalKind::terminate()])
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            match signals.any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// A connection that has ended.
struct Ended {
    peer: String,
    carrier: String,
    sent: u64,
    received: u64,
    error: Option<Trouble>,
}

/// Why a connection did not end as it should.
enum Trouble {
    /// The connection broke.
    Connection(io::Error),
    /// The standard input cannot be read.
    Input(io::Error),
    /// The standard output cannot be written.
    Output(io::Error),
}

impl Ended {
    fn print(self, stderr: &mut dyn Write) -> Result<(), Failure> {
        // The error stream may be closed.
        let _ = writeln!(
            stderr,
            "smcx: {}: {}; {} bytes sent, {} received",
            self.peer,
            self.carrier,
            grouped(self.sent),
            grouped(self.received),
        );
        match self.error {
            None => Ok(()),
            Some(Trouble::Connection(error)) => Err(problem(&self.peer, &error)),
            Some(Trouble::Input(error)) => Err(problem("standard input", &error)),
            Some(Trouble::Output(error)) => Err(Failure::Output(error)),
        }
    }
}

/// A listener of a stack; a port alone is one of all addresses, of IPv4 and IPv6.
pub(crate) fn listen_on(stack: &Stack, at: &HostPort) -> io::Result<SmcListener> {
    match Listener::bind(&Means::Smc(stack.clone()), at)? {
        Listener::Smc(listener) => Ok(listener),
        Listener::Tcp(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

pub(crate) fn problem(what: &str, error: &io::Error) -> Failure {
    Failure::Problem(format!("{what}: {}", reason(error)))
}

/// `smcx connect`.
///
/// # Errors
/// A sentence for the user.
pub fn connect(
    arguments: &ConnectArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let place = arguments.target.to_connect().map_err(Failure::Usage)?;
    let address = place.to_string();
    let means = Means::of(arguments.transport, &arguments.policy)?;
    let stream = place
        .resolve()
        .and_then(|all| Stream::connect(&means, &*all));
    let stream = stream.map_err(|error| problem(&address, &error))?;
    // What is typed is not waited for when the peer has ended.
    let keyboard = io::stdin().is_terminal().then(Keyboard::default);
    let from = keyboard.map_or(Source::Input, |keyboard| Source::Keyboard(keyboard.input()));
    talk(&stream, stdout, from).print(stderr)
}

/// `smcx listen`.
///
/// # Errors
/// A sentence for the user.
pub fn listen(
    arguments: &ListenArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let place = arguments.target.to_listen().map_err(Failure::Usage)?;
    let address = place.to_string();
    let means = Means::of(arguments.transport, &arguments.policy)?;
    let listener = Listener::bind(&means, &place);
    let listener = listener.map_err(|error| problem(&address, &error))?;
    // On a terminal, a command that only waits seems to hang.
    if arguments.verbose || screen.progress {
        let at = listener
            .description(&place)
            .map_err(|error| problem(&address, &error))?;
        let _ = writeln!(stderr, "smcx: listening on {at}");
    }
    if let Some(command) = &arguments.exec {
        let at_once = arguments.keep_open.then_some(arguments.at_once);
        return execute(listener, command, at_once, stderr);
    }
    let keyboard = io::stdin().is_terminal().then(Keyboard::default);
    loop {
        let stream = listener
            .accept()
            .map_err(|error| problem(&address, &error))?;
        let from = match &keyboard {
            Some(keyboard) => Source::Keyboard(keyboard.input()),
            None => Source::Input,
        };
        let outcome = talk(&stream, stdout, from).print(stderr);
        match outcome {
            // Without an output there is nothing to listen for.
            outcome if !arguments.keep_open => return outcome,
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => drop(writeln!(stderr, "smcx: {failure}")),
            Ok(()) => {}
        }
    }
}

/// Where a connection has from what it sends.
enum Source {
    /// All of the standard input: the peer may still take it when it has nothing to send
    /// any more.
    Input,
    /// Typed input, which is not waited for at the end.
    Keyboard(Input),
}

/// Copies the standard streams to and from a connection until it ends.
fn talk(stream: &Stream, stdout: &mut dyn Write, from: Source) -> Ended {
    let input = match &from {
        Source::Input => None,
        Source::Keyboard(input) => Some(input.clone()),
    };
    let writing = stream.clone();
    let sending = thread::spawn(move || {
        let sent = match from {
            Source::Input => copy(&mut io::stdin().lock(), &mut &writing, &writing.0.sent),
            Source::Keyboard(mut input) => copy(&mut input, &mut &writing, &writing.0.sent),
        };
        let sent = sent.map_err(|broken| match broken {
            Broken::From(error) => {
                // The peer may wait for the rest, which never comes.
                let _ = writing.end_both();
                Trouble::Input(error)
            }
            Broken::To(error) => Trouble::Connection(error),
        });
        sent.and_then(|()| writing.end().map_err(Trouble::Connection))
    });
    let received = copy(&mut &*stream, stdout, &stream.0.received);
    let mut outcome = received.map_err(|broken| match broken {
        Broken::From(error) => Trouble::Connection(error),
        Broken::To(error) => Trouble::Output(error),
    });
    match input {
        Some(input) => input.end(),
        None if outcome.is_ok() => outcome = sending.join().unwrap_or(Ok(())),
        // It may wait for the standard input, and ends with the process then.
        None => {}
    }
    stream.ended(outcome)
}

/// Runs a command for each connection, so many at once, or for one only.
fn execute(
    listener: Listener,
    command: &str,
    at_once: Option<u32>,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    // The streams of this process belong to this thread: the others report.
    let (report, reports) = mpsc::channel();
    let command = command.to_owned();
    let keep_open = at_once.is_some();
    let places = Places::new(at_once.unwrap_or(1));
    thread::spawn(move || {
        loop {
            // Further ones wait where the kernel keeps them.
            let place = places.take();
            let accepted = listener.accept();
            let (report, command) = (report.clone(), command.clone());
            let more = keep_open && accepted.is_ok();
            thread::spawn(move || {
                let _place = place;
                let ended = accepted.map(|stream| serve(&stream, &command));
                // The receiver waits for the last report.
                let _ = report.send(ended);
            });
            if !more {
                return;
            }
        }
    });
    for ended in reports {
        let outcome = match ended {
            Ok(ended) => ended.print(stderr),
            Err(error) => return Err(problem("accept", &error)),
        };
        match outcome {
            Err(failure) if keep_open => drop(writeln!(stderr, "smcx: {failure}")),
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Runs a command with a connection as its standard streams.
fn serve(stream: &Stream, command: &str) -> Ended {
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let outcome = child.and_then(|mut child| {
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let reading = stream.clone();
        thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // A command that does not read is not an error.
                let _ = copy(&mut &reading, &mut stdin, &reading.0.received);
            }
        });
        let copied = stdout.map_or(Ok(()), |mut stdout| {
            copy(&mut stdout, &mut &*stream, &stream.0.sent)
        });
        let copied = copied.map_err(|broken| match broken {
            Broken::From(error) | Broken::To(error) => error,
        });
        let outcome = copied.and_then(|()| stream.end());
        // However it ends, nothing else waits for the command.
        child.wait().and(outcome)
    });
    stream.ended(outcome.map_err(Trouble::Connection))
}
