//! `smcx listen` and `smcx connect`: netcat through shared memory.

mod copy;
mod means;
pub mod perf;
mod stream;

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::cli::{ConnectArguments, ListenArguments};
use crate::output::{Failure, grouped, reason};
use copy::copy;
pub(crate) use means::Means;
use stream::{Listener, Stream};

/// A connection that has ended.
struct Ended {
    peer: String,
    carrier: String,
    sent: u64,
    received: u64,
    error: Option<io::Error>,
}

impl Ended {
    fn tell(&self, stderr: &mut dyn Write) -> Result<(), Failure> {
        // Nobody may listen there.
        let _ = writeln!(
            stderr,
            "smcx: {}: {}; {} octets sent, {} received",
            self.peer,
            self.carrier,
            grouped(self.sent),
            grouped(self.received),
        );
        match &self.error {
            None => Ok(()),
            Some(error) => Err(problem(&self.peer, error)),
        }
    }
}

fn problem(what: &str, error: &io::Error) -> Failure {
    Failure::Problem(format!("{what}: {}", reason(error)))
}

/// `smcx connect`.
///
/// # Errors
/// What the user is to be told.
pub fn connect(
    arguments: &ConnectArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let address = arguments.target.address();
    let means = Means::of(arguments.transport, &arguments.policy)?;
    let stream = Stream::connect(&means, &address);
    let stream = stream.map_err(|error| problem(&address, &error))?;
    talk(&stream, stdout, AtEnd::FinishInput).tell(stderr)
}

/// `smcx listen`.
///
/// # Errors
/// What the user is to be told.
pub fn listen(
    arguments: &ListenArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let address = arguments.target.address();
    let means = Means::of(arguments.transport, &arguments.policy)?;
    let listener = Listener::bind(&means, &address);
    let listener = listener.map_err(|error| problem(&address, &error))?;
    if arguments.verbose {
        let at = listener
            .address()
            .map_err(|error| problem(&address, &error))?;
        let _ = writeln!(stderr, "smcx: listening on {at}");
    }
    if let Some(command) = &arguments.exec {
        return execute(listener, command, arguments.keep_open, stderr);
    }
    loop {
        let stream = listener
            .accept()
            .map_err(|error| problem(&address, &error))?;
        // Who types is not waited for.
        let at_end = match io::stdin().is_terminal() {
            true => AtEnd::Leave,
            false => AtEnd::FinishInput,
        };
        let told = talk(&stream, stdout, at_end).tell(stderr);
        if !arguments.keep_open {
            return told;
        }
        if let Err(failure) = told {
            let _ = writeln!(stderr, "smcx: {failure}");
        }
    }
}

/// What to do when the peer has ended its direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    /// Send what there is to send: the peer may still take it.
    FinishInput,
    /// End the connection.
    Leave,
}

/// Copies the standard streams to and from a connection until it ends.
fn talk(stream: &Stream, stdout: &mut dyn Write, at_end: AtEnd) -> Ended {
    let writing = stream.clone();
    let sending = thread::spawn(move || {
        let sent = copy(&mut io::stdin().lock(), &mut &writing, &writing.0.sent);
        sent.and_then(|()| writing.end())
    });
    let mut outcome = copy(&mut &*stream, stdout, &stream.0.received);
    if outcome.is_ok() && at_end == AtEnd::FinishInput {
        outcome = sending.join().unwrap_or(Ok(()));
    }
    // Otherwise it may wait for the standard input, and ends with the process then.
    stream.ended(outcome)
}

/// Runs a command for each connection.
fn execute(
    listener: Listener,
    command: &str,
    keep_open: bool,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    // The streams of this process belong to this thread: the others report.
    let (report, reports) = mpsc::channel();
    let command = command.to_owned();
    thread::spawn(move || {
        loop {
            let accepted = listener.accept();
            let (report, command) = (report.clone(), command.clone());
            let more = keep_open && accepted.is_ok();
            thread::spawn(move || {
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
        let told = match ended {
            Ok(ended) => ended.tell(stderr),
            Err(error) => return Err(problem("accept", &error)),
        };
        match told {
            Err(failure) if keep_open => drop(writeln!(stderr, "smcx: {failure}")),
            told => told?,
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
        let outcome = copied.and_then(|()| stream.end());
        // However it ends, nobody else waits for the command.
        child.wait().and(outcome)
    });
    stream.ended(outcome)
}
