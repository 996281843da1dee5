//! The peer's end of a TCP connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// Bytes that are read at once.
const AT_ONCE: usize = 65_536;

/// What is done to each socket of the peer before it connects or listens, such as asking for
/// the SMC option in its SYN.
pub type Mark = Box<dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send>;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

fn open(mark: Option<&Mark>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    if let Some(mark) = mark {
        mark(socket.as_fd())?;
    }
    Ok(socket)
}

pub(crate) fn listening(address: Ipv4Addr, mark: Option<&Mark>) -> io::Result<TcpListener> {
    let socket = open(mark)?;
    bind(&socket, &SocketAddr::from((address, 0)))?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

pub(crate) fn connected(to: SocketAddr, mark: Option<&Mark>) -> io::Result<TcpStream> {
    let socket = open(mark)?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

/// What came.
pub(crate) enum Came {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

pub(crate) struct Tcp {
    pub(crate) stream: TcpStream,
    over: bool,
}

impl Tcp {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Pieces of a message are to come as they are sent.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            over: false,
        })
    }

    /// Whether something may still come.
    pub(crate) fn is_open(&self) -> bool {
        !self.over
    }

    pub(crate) fn next(&mut self) -> Option<Came> {
        if self.over {
            return None;
        }
        let mut bytes = vec![0; AT_ONCE];
        let came = match self.stream.read(&mut bytes) {
            Ok(0) => Came::Fin,
            Ok(length) => {
                bytes.truncate(length);
                return Some(Came::Bytes(bytes));
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return None,
                _ => Came::Reset,
            },
        };
        self.over = true;
        Some(came)
    }

    /// What does not go out any more is seen by what comes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn fin(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub(crate) fn reset(&mut self) {
        self.over = true;
        let _ = rustix::net::connect_unspec(&self.stream);
    }
}
