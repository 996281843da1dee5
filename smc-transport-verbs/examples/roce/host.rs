//! One end: an engine, its RNICs, and a TCP connection.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags};
use smc_proto::command::TcpCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next, Proposed, TcpEvent};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{ConnId, DeviceId, GroupId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::MAX_LENGTH;
use smc_transport_verbs::binding::Binding;
use smc_transport_verbs::rdma::RoceDevice;

/// How an end finds the paths of a connection.
pub(crate) trait FindPaths {
    /// Those of a client, or of a server to which this was proposed.
    fn paths(&self, proposed: Option<Proposed>) -> Vec<LocalPath>;
    /// Those of all ports.
    fn ports(&self) -> Vec<LocalPath>;
    /// Those of a port that has its carrier again.
    fn port(&self, device: DeviceId, port: u8) -> Vec<LocalPath>;
}

pub(crate) struct Host<F> {
    pub(crate) engine: Endpoint<Owned>,
    pub(crate) binding: Binding<RoceDevice>,
    finder: F,
    tcp: TcpStream,
    conn: ConnId,
    /// Each completion is told.
    pub(crate) traced: bool,
    /// Nothing more is read from TCP.
    silent: bool,
    established: bool,
    group: Option<GroupId>,
    closed: Option<CloseReason>,
    origin: std::time::Instant,
}

fn other(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Tells of a completion; of a message, what it says.
fn trace(at: Duration, completion: &RdmaCompletion<'_>) {
    let at = at.as_secs_f64();
    match completion {
        RdmaCompletion::Received { link, payload } => match Cdc::parse(payload) {
            Ok(cdc) => eprintln!("{at:9.4} {link} {cdc}"),
            Err(_) => eprintln!("{at:9.4} {link} {payload:02x?}"),
        },
        other => eprintln!("{at:9.4} {other:?}"),
    }
}

impl<F: FindPaths> Host<F> {
    pub(crate) fn new(
        config: Config,
        binding: Binding<RoceDevice>,
        finder: F,
        tcp: TcpStream,
        options: ConnOptions,
        client: bool,
    ) -> io::Result<Self> {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let storage = Owned::new(Limits::for_connections(8));
        let mut engine = Endpoint::new(config, u64::from_ne_bytes(seed), storage);
        let now = Instant::from_nanos(0);
        // A group may have further links over ports that the connection does not use.
        for path in finder.ports() {
            engine.handle_path(now, PathEvent::PortUp(path));
        }
        let conn = match client {
            true => engine.connect(now, options, &finder.paths(None)),
            false => engine.listen(now, options),
        };
        let conn = conn.map_err(|error| other(error.to_string()))?;
        Ok(Self {
            engine,
            binding,
            finder,
            tcp,
            conn,
            traced: false,
            silent: false,
            established: false,
            group: None,
            closed: None,
            origin: std::time::Instant::now(),
        })
    }

    fn now(&self) -> Instant {
        let nanos = self.origin.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Everything that can be done now: whether there was anything.
    fn turn(&mut self) -> io::Result<bool> {
        self.look_at_tcp();
        let mut busy = false;
        loop {
            let now = self.now();
            if self.engine.poll_timeout().is_some_and(|at| at <= now) {
                self.engine.handle_timeout(now);
            }
            let mut any = self.binding.carry_out(&mut self.engine, now);
            while let Some(completion) = self.binding.poll() {
                if self.traced {
                    trace(self.origin.elapsed(), &completion);
                }
                self.engine.handle_rdma(now, completion);
                any = true;
            }
            while let Some(news) = self.binding.poll_path() {
                eprintln!("{news:?}");
                for event in news.events(|device, port| self.finder.port(device, port)) {
                    self.engine.handle_path(now, event);
                }
                any = true;
            }
            any |= self.send_clc(now)?;
            while let Some((_, command)) = self.engine.poll_tcp() {
                self.command_tcp(command);
                any = true;
            }
            while let Some(event) = self.engine.poll_event() {
                self.hear(event, now)?;
                any = true;
            }
            if !any {
                return Ok(busy);
            }
            busy = true;
        }
    }

    /// Shows the engine what has come over TCP, and takes no more of it than is CLC.
    fn look_at_tcp(&mut self) {
        while !self.silent {
            let mut octets = [0; MAX_LENGTH];
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let now = self.now();
            let len = match rustix::net::recv(&self.tcp, &mut octets, flags) {
                Ok((len, _)) => len,
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => {
                    self.silent = true;
                    self.engine.handle_tcp(now, self.conn, TcpEvent::PeerReset);
                    return;
                }
            };
            if len == 0 {
                self.silent = true;
                self.engine.handle_tcp(now, self.conn, TcpEvent::PeerFin);
                return;
            }
            match self.engine.handle_clc(now, self.conn, &octets[..len]) {
                Ok(ClcProgress::Consumed { len, next }) => {
                    let _ = rustix::net::recv(&self.tcp, &mut octets[..len], RecvFlags::DONTWAIT);
                    self.silent |= next == Next::Stop;
                }
                Ok(ClcProgress::NeedMore { .. }) => return,
                Ok(ClcProgress::NotClc) | Err(_) => self.silent = true,
            }
        }
    }

    fn send_clc(&mut self, now: Instant) -> io::Result<bool> {
        let mut octets = [0; MAX_LENGTH];
        let message = self.engine.poll_clc(now, &mut octets);
        let Ok(Some((_, len))) = message else {
            return Ok(false);
        };
        rustix::net::send(&self.tcp, &octets[..len], SendFlags::NOSIGNAL)?;
        Ok(true)
    }

    fn command_tcp(&mut self, command: TcpCommand) {
        match command {
            TcpCommand::HandOver { .. } => self.silent = true,
            TcpCommand::Close => {
                let _ = self.tcp.shutdown(std::net::Shutdown::Write);
            }
            TcpCommand::Reset => {
                let _ = self.tcp.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    fn hear(&mut self, event: Event, now: Instant) -> io::Result<()> {
        match event {
            Event::Proposed { conn } => {
                let paths = self.finder.paths(self.engine.proposal(conn));
                let accepted = self.engine.accept(now, conn, &paths);
                accepted.map_err(|error| other(error.to_string()))?;
            }
            Event::Established { group, .. } => {
                self.established = true;
                self.group = Some(group);
                if let Some(terms) = self.engine.terms(group) {
                    let (technology, version) = (terms.technology, terms.version);
                    eprintln!("carried by {technology} {version}");
                }
            }
            Event::FellBack { why, .. } => {
                let mut what = format!("plain TCP: {why}");
                if let Some(refusal) = self.binding.last_refusal() {
                    what = format!("{what}; {refusal}");
                }
                return Err(other(what));
            }
            Event::Closed { reason, .. } => self.closed = Some(reason),
            Event::GroupDown { .. } => self.group = None,
            Event::LinkUp { link, .. } | Event::LinkDown { link, .. } => {
                let status = self.engine.link(link);
                let gid = status.map(|status| status.path.gid);
                eprintln!("{event:?} {gid:?}");
            }
            _ => {}
        }
        Ok(())
    }

    /// Sleeps until something happens.
    fn wait(&mut self) -> io::Result<()> {
        let until = self.engine.poll_timeout();
        let left = until.map(|at| at.since(self.now()));
        let left = left.unwrap_or(Duration::from_secs(1));
        let left = left.min(Duration::from_secs(1)).try_into().ok();
        let mut fds = vec![PollFd::from_borrowed_fd(
            self.binding.as_fd(),
            PollFlags::IN,
        )];
        if !self.silent {
            fds.push(PollFd::new(&self.tcp, PollFlags::IN));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on until `done` has something to say.
    pub(crate) fn until<T>(
        &mut self,
        mut done: impl FnMut(&mut Self) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        loop {
            self.turn()?;
            let result = done(self)?;
            // What that led to goes out before anything else.
            let busy = self.turn()?;
            if let Some(result) = result {
                return Ok(result);
            }
            if busy {
                continue;
            }
            if self.closed.is_some() {
                return Err(self.gone());
            }
            self.wait()?;
        }
    }

    /// Waits for the connection.
    pub(crate) fn establish(&mut self) -> io::Result<()> {
        self.until(|host| Ok(host.established.then_some(())))
    }

    fn gone(&self) -> io::Error {
        match self.closed {
            Some(reason) => other(format!("the connection ended: {reason}")),
            None => other("the connection is gone"),
        }
    }

    /// Writes what there is room for.
    pub(crate) fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let now = self.now();
        let Some(mut conn) = self.engine.conn(self.conn) else {
            return Err(self.gone());
        };
        let fill = |space: &_| self.binding.fill(space, octets).unwrap_or(0);
        let written = conn.write(now, fill);
        let written = written.map_err(|error| other(error.to_string()))?;
        Ok(written as usize)
    }

    /// Reads what there is; `None` at the end.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let now = self.now();
        let id = self.conn;
        let Some(mut conn) = self.engine.conn(id) else {
            return Ok(None);
        };
        let take = |readable: &_| self.binding.take(id, readable, into).unwrap_or(0);
        let read = conn.read(now, take);
        let read = read.map_err(|error| other(error.to_string()))? as usize;
        Ok((read > 0 || !conn.is_end_of_stream()).then_some(read))
    }

    /// Ends a direction, or both.
    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        let now = self.now();
        if let Some(mut conn) = self.engine.conn(self.conn) {
            conn.shutdown(now, how);
        }
    }

    /// Waits for the end, of the group too: a peer that is not told keeps it, and goes on
    /// testing its links.
    pub(crate) fn close(&mut self) -> io::Result<CloseReason> {
        self.shutdown(Shutdown::Both);
        let reason = loop {
            self.turn()?;
            if let Some(reason) = self.closed {
                break reason;
            }
            self.wait()?;
        };
        if let Some(group) = self.group {
            let now = self.now();
            self.engine.delete_group(now, group);
            let until = now.after(smc_proto::time::Duration::from_secs(5));
            while self.group.is_some() && self.now() < until {
                self.turn()?;
                self.wait()?;
            }
        }
        Ok(reason)
    }
}
