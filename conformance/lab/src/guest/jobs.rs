//! Conversations held, and programs run.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddrV4;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::Channel;
use super::sockets::{Connection, Listener};
use crate::conversation;
use crate::netlink::smc::{self, SocketView};
use crate::orders::{Answer, Family, Held, PEER, Role, Session};
use crate::scenarios::Connections;

/// How often the kernel is asked about a socket that it does not report.
const VIEWS: usize = 20;

pub(super) fn hold(channel: &Channel, session: &Session) {
    let held = match session.role {
        Role::Client => connect_all(session),
        Role::Server => accept_all(channel, session),
    };
    let held = held.unwrap_or_else(|error| vec![Held::failed(&error)]);
    channel.send(&Answer::Held(held));
}

/// Lets our own SMC hold the conversations; what it answers is passed on.
pub(super) fn hold_ours(channel: &Channel, session: &Session) {
    match pass_on(channel, session) {
        Ok(true) => {}
        Ok(false) => channel.send(&Answer::Held(vec![Held::failed(&io::Error::other(
            "our program ended",
        ))])),
        Err(error) => channel.send(&Answer::Held(vec![Held::failed(&error)])),
    }
}

/// Whether the program reported the outcome.
fn pass_on(channel: &Channel, session: &Session) -> io::Result<bool> {
    // Its error stream is seen on the console.
    let mut child = Command::new(PEER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{}", serde_json::to_string(session)?)?;
    }
    channel.set_ours(Some(rustix::process::Pid::from_child(&child)));
    let mut reported = false;
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        let answer = serde_json::from_str(&line?)?;
        reported |= matches!(answer, Answer::Held(_));
        channel.send(&answer);
    }
    channel.set_ours(None);
    child.wait()?;
    Ok(reported)
}

fn connect_all(session: &Session) -> io::Result<Vec<Held>> {
    let address = SocketAddrV4::new(session.address, session.port);
    let timeout = Duration::from_millis(session.timeout);
    let connect = || Connection::open(session.family, address, session.buffers, timeout);
    match session.connections {
        Connections::InTurn(count) => Ok((0..count).map(|_| result(connect(), session)).collect()),
        Connections::AtOnce(count) => {
            // None may end before all have begun.
            let all = Barrier::new(usize::try_from(count).unwrap_or(1));
            Ok(thread::scope(|scope| {
                let all = &all;
                let one = |_| {
                    // One rendezvous after the other: emulated, hundreds at the same time
                    // last longer than either side waits.
                    let connection = connect();
                    scope.spawn(move || {
                        all.wait();
                        result(connection, session)
                    })
                };
                let threads: Vec<_> = (0..count).map(one).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(panicked))
                    .collect()
            }))
        }
    }
}

fn accept_all(channel: &Channel, session: &Session) -> io::Result<Vec<Held>> {
    let address = SocketAddrV4::new(session.address, session.port);
    let timeout = Duration::from_millis(session.timeout);
    let count = session.connections.count();
    let backlog = i32::try_from(count).unwrap_or(i32::MAX);
    let listener = Listener::new(session.family, address, backlog, session.buffers)?;
    channel.send(&Answer::Listening);
    if let Connections::InTurn(count) = session.connections {
        let one = |_| result(listener.accept(timeout), session);
        return Ok((0..count).map(one).collect());
    }
    Ok(thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..count {
            let connection = listener.accept(timeout);
            let lost = connection.is_err();
            threads.push(scope.spawn(|| result(connection, session)));
            if lost {
                break;
            }
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    }))
}

fn result(connection: io::Result<Connection>, session: &Session) -> Held {
    connection
        .and_then(|connection| talk(connection, session))
        .unwrap_or_else(|error| Held::failed(&error))
}

fn talk(connection: Connection, session: &Session) -> io::Result<Held> {
    let view = match session.family {
        Family::Smc => view(connection.inode()?)?,
        Family::Tcp => None,
    };
    let timeout = Duration::from_millis(session.timeout);
    let began = Instant::now();
    let outcome = conversation::hold(&connection, session.role, &session.steps, timeout);
    Ok(Held::new(view, outcome, began))
}

/// The kernel's view of a socket. While others come and go a dump may miss one.
fn view(inode: u64) -> io::Result<Option<SocketView>> {
    for _ in 0..VIEWS {
        let found = smc::sockets()?
            .into_iter()
            .find(|socket| socket.inode == inode);
        if found.is_some() {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(None)
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Held {
    Held::failed(&io::Error::other("the guest's thread panicked"))
}

/// Runs a program of the share; its output goes out line by line. `files` has those for its
/// standard input and output.
pub(super) fn run(channel: &Channel, command: &[String], files: [Option<&str>; 2], limit: u64) {
    let ended = run_to_end(channel, command, files, Duration::from_millis(limit));
    channel.send(&Answer::Ended(ended.unwrap_or_else(|error| {
        channel.send(&Answer::Printed(format!("{command:?}: {error}")));
        None
    })));
}

fn run_to_end(
    channel: &Channel,
    command: &[String],
    [input, output]: [Option<&str>; 2],
    limit: Duration,
) -> io::Result<Option<i32>> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let stdin = input.map_or(Ok(Stdio::null()), |path| File::open(path).map(Stdio::from))?;
    let stdout = output.map_or(Ok(Stdio::piped()), |path| {
        File::create(path).map(Stdio::from)
    })?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let end = Instant::now() + limit;
    thread::scope(|scope| {
        scope.spawn(|| stdout.map(|stream| print(channel, stream)));
        scope.spawn(|| stderr.map(|stream| print(channel, stream)));
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status.code());
            }
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(20));
        }
    })
}

fn print(channel: &Channel, stream: impl Read) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        channel.send(&Answer::Printed(line));
    }
}
