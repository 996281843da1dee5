//! The part of a scenario that this process has.

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smc_lab::conversation;
use smc_lab::netlink::smc::{Carried, SocketView};
use smc_lab::orders::{Answer, Held, LOCKED_MEMORY, Role, Session};
use smc_lab::scenarios::Connections;
use smc_sockets::why::{State, Why};
use smc_sockets::{SmcListener, SmcSocket, Stack};

use crate::asking;
use crate::by_hand;
use crate::connection::Connection;
use crate::possessions::Possessions;
use crate::setup;

/// Linux is done with a connection a while after both ends have closed it.
const AFTERMATH: Duration = Duration::from_millis(300);

/// With so many connections one after another, what the process holds is checked.
const MANY: u32 = 1_000;

/// Most processes of `smcx why` in one scenario.
const QUESTIONS: u32 = 8;

/// Reads what to do, does it, and reports the outcome.
pub(crate) fn hold() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let session: Session = serde_json::from_str(&line)?;
    if let Some(message) = session.by_hand {
        let held = by_hand::hold(&session, message, || send_answer(&Answer::Listening));
        let held = held.unwrap_or_else(|error| Held::failed(&error));
        return send_answer(&Answer::Held(vec![held]));
    }
    let stack = setup::stack(&session)?;
    let party = Party {
        stack: &stack,
        session: &session,
        questions: AtomicU32::new(QUESTIONS),
    };
    let held = match session.role {
        Role::Client => party.connect_all(),
        Role::Server => party.accept_all(),
    };
    let mut held = held.unwrap_or_else(|error| vec![Held::failed(&error)]);
    thread::sleep(AFTERMATH);
    let timeout = party.timeout();
    if !stack.end(timeout)
        && let Some(last) = held.last_mut()
    {
        let difference = format!("the stack did not end within {timeout:?}");
        last.difference.get_or_insert(difference);
    }
    send_answer(&Answer::Held(held))
}

fn send_answer(answer: &Answer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    out.flush()
}

struct Party<'a> {
    stack: &'a Stack,
    session: &'a Session,
    /// How many more connections may run `smcx why`: none after one answer named the limit.
    questions: AtomicU32,
}

impl Party<'_> {
    fn connect_all(&self) -> io::Result<Vec<Held>> {
        match self.session.connections {
            Connections::InTurn(count) => Ok(self.in_turn(count, || self.connect())),
            Connections::AtOnce(count) => {
                let all = Barrier::new(usize::try_from(count).unwrap_or(1));
                Ok(thread::scope(|scope| {
                    let all = &all;
                    let one = |_| {
                        // One rendezvous after the other: emulated, hundreds at the same time
                        // last longer than either side waits.
                        let connection = self.connect();
                        scope.spawn(move || {
                            all.wait();
                            self.result(connection)
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

    /// One after another. Of many nothing may be left behind.
    fn in_turn(&self, count: u32, next: impl Fn() -> io::Result<Connection>) -> Vec<Held> {
        let mut all = Vec::new();
        let mut early = None;
        for number in 1..=count {
            let mut held = self.result(next());
            if count >= MANY && held.difference.is_none() {
                held.transcript = Vec::new();
            }
            if count >= MANY && number == count / 10 {
                early = Some(Possessions::settled());
            }
            if number == count
                && let Some(early) = &early
            {
                let late = Possessions::settled();
                held.transcript
                    .push(format!("after {}: {early:?}", count / 10));
                held.transcript.push(format!("after {count}: {late:?}"));
                if let Some(grown) = early.grown(&late, count) {
                    held.difference.get_or_insert(grown);
                }
            }
            all.push(held);
        }
        all
    }

    fn connect(&self) -> io::Result<Connection> {
        let address = SocketAddr::from((self.session.address, self.session.port));
        let stream = self.socket()?.connect(address)?;
        Connection::new(stream, self.timeout())
    }

    fn accept_all(&self) -> io::Result<Vec<Held>> {
        let count = self.session.connections.count();
        let socket = self.socket()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::UNSPECIFIED, self.session.port).into())?;
        let listener = socket.listen(count)?;
        send_answer(&Answer::Listening)?;
        if let Connections::InTurn(count) = self.session.connections {
            return Ok(self.in_turn(count, || self.accept(&listener)));
        }
        Ok(thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..count {
                let connection = self.accept(&listener);
                let lost = connection.is_err();
                threads.push(scope.spawn(|| self.result(connection)));
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

    fn accept(&self, listener: &SmcListener) -> io::Result<Connection> {
        let timeout = Timespec::try_from(self.timeout()).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Connection::new(listener.accept()?.0, self.timeout()),
        }
    }

    fn socket(&self) -> io::Result<SmcSocket> {
        let socket = SmcSocket::new_v4_on(self.stack)?;
        if let Some(bytes) = self.session.buffers {
            socket.set_send_buffer_size(bytes)?;
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(socket)
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.session.timeout)
    }

    fn result(&self, connection: io::Result<Connection>) -> Held {
        connection
            .map(|connection| self.talk(&connection))
            .unwrap_or_else(|error| Held::failed(&error))
    }

    fn talk(&self, connection: &Connection) -> Held {
        let view = SocketView {
            inode: 0,
            state: 0,
            carried: connection.carried(),
            link: None,
        };
        let why = match view.carried {
            Carried::Tcp(..) if self.session.unprivileged => self.why(connection),
            _ => Vec::new(),
        };
        let began = Instant::now();
        let steps = &self.session.steps;
        let mut outcome = conversation::hold(connection, self.session.role, steps, self.timeout());
        outcome.transcript.insert(0, connection.carrier());
        outcome.transcript.extend(why);
        Held::new(Some(view), outcome, began)
    }
}

impl Party<'_> {
    /// Returns the conditions that `smcx why` names as missing for a connection like this
    /// one, while the others are open.
    fn why(&self, connection: &Connection) -> Vec<String> {
        let Some(peer) = connection.peer() else {
            return Vec::new();
        };
        let conditions = Why::walk(self.stack, peer).conditions;
        let fail = conditions.iter().filter(|at| at.state == State::Fails);
        let mut lines: Vec<_> = fail
            .map(|at| format!("why: {}: {}", at.name, at.found))
            .collect();
        // Memory that another connection gives back meanwhile is free again for a moment, so
        // that one answer may not name the limit. A process for each connection would be many.
        let asks = self
            .questions
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        if asks.is_ok() {
            let answer = asking::smcx(peer);
            if answer.iter().any(|line| line.contains(LOCKED_MEMORY)) {
                self.questions.store(0, Ordering::Relaxed);
            }
            lines.extend(answer);
        }
        lines
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Held {
    Held::failed(&io::Error::other("a thread panicked"))
}
