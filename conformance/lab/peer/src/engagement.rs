//! The part of a scenario that this process has.

use std::io::{self, BufRead, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket, sockopt};
use smc_lab::conversation;
use smc_lab::netlink::smc::SocketView;
use smc_lab::orders::{Answer, Engagement, Held, Role};
use smc_lab::scenarios::Connections;
use smc_sockets::tcp_option::TcpOption;

use crate::connection::Connection;
use crate::setup;
use crate::shared::Shared;

/// Reads what to do, does it, and tells how it went.
pub(crate) fn hold() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let engagement: Engagement = serde_json::from_str(&line)?;
    let option = TcpOption::attach().map_err(setup::told)?;
    let local = engagement.local;
    let shared = Shared::new(setup::host(local, engagement.v1, &engagement.ueids)?)?;
    let held = thread::scope(|scope| {
        let driver = scope.spawn(|| shared.drive());
        let party = Party {
            shared: &shared,
            option: &option,
            engagement: &engagement,
        };
        let held = match engagement.role {
            Role::Client => party.connect_all(),
            Role::Server => party.accept_all(),
        };
        // Linux is done with a connection a while after both ends have closed it.
        thread::sleep(Duration::from_millis(300));
        // The peer is told that the links go, and does not wait for them.
        shared.with(|host| host.end_groups())?;
        let _ = shared.until(GOODBYE, |host| Ok(host.groups.is_empty().then_some(())));
        shared.end()?;
        driver
            .join()
            .map_err(|_| io::Error::other("the driver panicked"))??;
        held
    });
    say(&Answer::Held(
        held.unwrap_or_else(|error| vec![Held::failed(&error)]),
    ))
}

/// For the end of the link groups, which the peer may not answer.
const GOODBYE: Duration = Duration::from_secs(3);

fn say(answer: &Answer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    out.flush()
}

struct Party<'a> {
    shared: &'a Shared,
    option: &'a TcpOption,
    engagement: &'a Engagement,
}

impl Party<'_> {
    fn connect_all(&self) -> io::Result<Vec<Held>> {
        match self.engagement.connections {
            Connections::InTurn(count) => {
                Ok((0..count).map(|_| self.result(self.connect())).collect())
            }
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

    fn connect(&self) -> io::Result<Connection<'_>> {
        let address = SocketAddrV4::new(self.engagement.address, self.engagement.port);
        let client = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let marks = self.option.marks();
        marks.opt_in(&client)?;
        connect(&client, &address)?;
        let heard = marks.verdict(&client)?;
        self.enter(TcpStream::from(client), heard)
    }

    fn accept_all(&self) -> io::Result<Vec<Held>> {
        let count = self.engagement.connections.count();
        let server = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_reuseaddr(&server, true)?;
        bind(
            &server,
            &SocketAddrV4::new([0; 4].into(), self.engagement.port),
        )?;
        self.option.marks().opt_in(&server)?;
        listen(&server, i32::try_from(count).unwrap_or(i32::MAX))?;
        let listener = TcpListener::from(server);
        say(&Answer::Listening)?;
        Ok(thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..count {
                let tcp = listener.accept();
                threads.push(scope.spawn(|| {
                    self.result(tcp.and_then(|(tcp, _)| {
                        let heard = self.option.marks().verdict(&tcp)?;
                        self.enter(tcp, heard)
                    }))
                }));
            }
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(panicked))
                .collect()
        }))
    }

    fn enter(&self, tcp: TcpStream, heard: bool) -> io::Result<Connection<'_>> {
        let is_client = self.engagement.role == Role::Client;
        let (buffers, patience) = (self.engagement.buffers, self.patience());
        Connection::open(self.shared, tcp, is_client, heard, buffers, patience)
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.engagement.patience)
    }

    fn result(&self, connection: io::Result<Connection<'_>>) -> Held {
        connection
            .and_then(|connection| self.talk(connection))
            .unwrap_or_else(|error| Held::failed(&error))
    }

    fn talk(&self, connection: Connection<'_>) -> io::Result<Held> {
        let carried = connection.carried;
        let view = SocketView {
            inode: 0,
            state: 0,
            carried,
            link: None,
        };
        let began = Instant::now();
        let steps = &self.engagement.steps;
        let outcome = conversation::hold(&connection, self.engagement.role, steps, self.patience());
        let mut held = Held::new(Some(view), outcome, began);
        if let Err(error) = connection.close() {
            held.transcript.push(format!("Close: {error}"));
            held.difference.get_or_insert(format!("Close: {error}"));
        }
        Ok(held)
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Held {
    Held::failed(&io::Error::other("a thread panicked"))
}
