//! A server and a client that wait in epoll, as those written in C do: 64 bytes asked, the
//! same 64 bytes answered.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use smc_sockets::{EventLoop, Ready, SmcListener, SmcStream, Stack, Wait};

use crate::transport::{Transport, unix_path};

const QUESTION: usize = 64;
/// How long requests are counted.
const COUNTED: Duration = Duration::from_millis(500);
/// How long they go on before that.
const WARM: Duration = Duration::from_millis(100);

pub(crate) enum Connection {
    Smc(SmcStream),
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    pub(crate) fn open(
        transport: Transport,
        stack: Option<&Stack>,
        address: &str,
    ) -> io::Result<Self> {
        Ok(match transport {
            Transport::Smc => Self::Smc(SmcStream::connect_on(
                stack.expect("SMC has a stack"),
                address,
            )?),
            Transport::Tcp => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
            Transport::Unix => Self::Unix(UnixStream::connect(address)?),
        })
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Smc(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    pub(crate) fn is_smc(&self) -> bool {
        matches!(self, Self::Smc(stream) if stream.carrier().is_smc())
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Smc(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Smc(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Smc(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

enum Listener {
    Smc(SmcListener),
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(transport: Transport, stack: Option<&Stack>) -> io::Result<Self> {
        let tcp = || TcpListener::bind("127.0.0.1:0");
        Ok(match transport {
            Transport::Smc => {
                let listener = SmcListener::on(stack.expect("SMC has a stack"), tcp()?)?;
                println!("listening {}", listener.local_addr()?);
                listener.set_nonblocking(true)?;
                Self::Smc(listener)
            }
            Transport::Tcp => {
                let listener = tcp()?;
                println!("listening {}", listener.local_addr()?);
                listener.set_nonblocking(true)?;
                Self::Tcp(listener)
            }
            Transport::Unix => {
                let path = unix_path();
                let _ = std::fs::remove_file(&path);
                let listener = UnixListener::bind(&path)?;
                println!("listening {path}");
                listener.set_nonblocking(true)?;
                Self::Unix(listener)
            }
        })
    }

    fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Smc(listener) => Connection::Smc(listener.accept()?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Connection::Tcp(stream)
            }
            Self::Unix(listener) => Connection::Unix(listener.accept()?.0),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Smc(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Names the listener among events.
const LISTENER: usize = usize::MAX;
/// Names the descriptor of SMC's event loop among events.
const SMC: usize = usize::MAX - 1;
/// Turns of SMC's event loop between two polls of the other descriptors.
const TURNS: u32 = 64;

/// Waits for connections of one transport, and for a listener.
struct Poller {
    epoll: OwnedFd,
    smc: Option<EventLoop>,
    ready: Vec<Ready>,
    events: Vec<epoll::Event>,
    turns: u32,
}

impl Poller {
    fn new(stack: Option<&Stack>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let smc = stack.map(EventLoop::new).transpose()?;
        if let Some(smc) = &smc {
            epoll::add(&epoll, smc, EventData::new_u64(SMC as u64), EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            smc,
            ready: Vec::new(),
            events: Vec::with_capacity(512),
            turns: 0,
        })
    }

    fn add(&self, connection: &Connection, token: usize) -> io::Result<()> {
        match (connection, &self.smc) {
            (Connection::Smc(stream), Some(smc)) if stream.carrier().is_smc() => {
                smc.register(stream, token)
            }
            _ => {
                let data = EventData::new_u64(token as u64);
                Ok(epoll::add(&self.epoll, connection, data, EventFlags::IN)?)
            }
        }
    }

    fn remove(&self, connection: &Connection) {
        // One of SMC is removed when it is dropped.
        if !connection.is_smc() {
            let _ = epoll::delete(&self.epoll, connection);
        }
    }

    /// Waits for events, and adds their tokens.
    fn wait(&mut self, tokens: &mut Vec<usize>) -> io::Result<()> {
        let mut sleeps = true;
        if let Some(smc) = &mut self.smc {
            smc.drive(&mut self.ready)?;
            tokens.extend(self.ready.drain(..).map(|ready| ready.token));
            sleeps = tokens.is_empty() && smc.wait()? == Wait::Sleep;
            self.turns += 1;
            if !sleeps && !self.turns.is_multiple_of(TURNS) {
                return Ok(());
            }
        }
        self.events.clear();
        let none = rustix::time::Timespec::default();
        let timeout = (!sleeps).then_some(&none);
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let keys = self.events.iter().map(|event| event.data.u64() as usize);
        tokens.extend(keys.filter(|key| *key != SMC));
        Ok(())
    }
}

/// Echoes what comes, until the process is ended.
pub(crate) fn serve(transport: Transport, stack: Option<Stack>) {
    many_descriptors();
    let listener = Listener::bind(transport, stack.as_ref()).expect("a listener");
    let mut poller = Poller::new(stack.as_ref()).expect("a poller");
    let data = EventData::new_u64(LISTENER as u64);
    epoll::add(&poller.epoll, &listener, data, EventFlags::IN).expect("the listener");
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    let mut tokens = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        poller.wait(&mut tokens).expect("events");
        for key in tokens.drain(..) {
            if key == LISTENER {
                while let Ok(connection) = listener.accept() {
                    connection.set_nonblocking().expect("non-blocking");
                    let at = free.pop().unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    poller.add(&connection, at).expect("a place");
                    connections[at] = Some(connection);
                }
                continue;
            }
            let Some(connection) = &mut connections[key] else {
                continue;
            };
            // Fewer bytes than there is room for are all there are.
            let ended = match connection.read(&mut chunk) {
                Ok(0) => true,
                Ok(len) => connection.write(&chunk[..len]).is_err(),
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            };
            if ended {
                poller.remove(connection);
                connections[key] = None;
                free.push(key);
            }
        }
    }
}

/// Requests a second over so many connections of which some are active; with it how many
/// are SMC.
pub(crate) fn requests(
    transport: Transport,
    stack: Option<&Stack>,
    address: &str,
    connections: usize,
    active: usize,
) -> (f64, usize) {
    many_descriptors();
    let mut poller = Poller::new(stack).expect("a poller");
    let mut all: Vec<Connection> = (0..connections)
        .map(|_| Connection::open(transport, stack, address).expect("a connection"))
        .collect();
    let smc = all.iter().filter(|connection| connection.is_smc()).count();
    let question = [7; QUESTION];
    // The active ones lie apart from each other.
    let step = connections / active;
    for (at, connection) in all.iter_mut().enumerate() {
        connection.set_nonblocking().expect("non-blocking");
        poller.add(connection, at).expect("a place");
    }
    for at in 0..active {
        let sent = all[at * step].write(&question).expect("a question");
        assert_eq!(sent, QUESTION);
    }
    let mut received = vec![0; connections];
    let mut tokens = Vec::new();
    let mut chunk = [0; QUESTION + 1];
    let begin = Instant::now();
    let (mut answers, mut counted) = (0_u64, None);
    loop {
        let now = begin.elapsed();
        if counted.is_none() && now >= WARM {
            counted = Some((now, answers));
        }
        if let Some((since, before)) = counted
            && now - since >= COUNTED
        {
            let rate = (answers - before) as f64 / (now - since).as_secs_f64();
            return (rate, smc);
        }
        poller.wait(&mut tokens).expect("events");
        for at in tokens.drain(..) {
            match all[at].read(&mut chunk) {
                Ok(len @ 1..) => received[at] += len,
                Ok(0) => panic!("connection {at} has ended"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => panic!("connection {at}: {error}"),
            }
            if received[at] == QUESTION {
                received[at] = 0;
                answers += 1;
                let sent = all[at].write(&question).expect("a question");
                assert_eq!(sent, QUESTION);
            }
        }
    }
}

/// Lets this process have as many descriptors as it may.
fn many_descriptors() {
    let which = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(which);
    limit.current = limit.maximum;
    rustix::process::setrlimit(which, limit).expect("its own limit");
}
