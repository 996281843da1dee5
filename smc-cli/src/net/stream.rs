//! A connection of either kind, and what went through it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smc_sockets::{SmcListener, SmcSocket, SmcStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Ended, Means, Trouble};
use crate::cli::{HostPort, canonical};

/// A connection that threads share.
#[derive(Clone)]
pub(super) struct Stream(pub(super) Arc<Counted>);

/// A connection, and how many bytes were sent and received over it.
pub(super) struct Counted {
    kind: Kind,
    /// The other end, which a connection that was reset no longer knows.
    peer: SocketAddr,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

enum Kind {
    Smc(SmcStream),
    Tcp(TcpStream),
}

impl Stream {
    fn new(kind: Kind, peer: SocketAddr) -> Self {
        Self(Arc::new(Counted {
            kind,
            peer: canonical(peer),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }))
    }

    pub(super) fn connect(means: &Means, to: impl ToSocketAddrs) -> io::Result<Self> {
        // Each address by itself, to know which one it was.
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for to in to.to_socket_addrs()? {
            let connected = match means {
                Means::Smc(stack) => SmcStream::connect_on(stack, to).map(Kind::Smc),
                Means::Tcp => TcpStream::connect(to)
                    .and_then(without_delay)
                    .map(Kind::Tcp),
            };
            match connected {
                Ok(kind) => return Ok(Self::new(kind, to)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Ends the direction to the peer.
    pub(super) fn end(&self) -> io::Result<()> {
        self.shut(Shutdown::Write)
    }

    /// Ends both directions.
    pub(super) fn end_both(&self) -> io::Result<()> {
        self.shut(Shutdown::Both)
    }

    fn shut(&self, how: Shutdown) -> io::Result<()> {
        match &self.0.kind {
            Kind::Smc(stream) => stream.shutdown(how),
            Kind::Tcp(stream) => stream.shutdown(how),
        }
    }

    /// What carries it.
    pub(super) fn carrier(&self) -> String {
        match &self.0.kind {
            Kind::Smc(stream) => stream.carrier().to_string(),
            Kind::Tcp(_) => "TCP".to_owned(),
        }
    }

    /// Why TCP carries it, if it does and the peers could have agreed on SMC: the code and a
    /// sentence.
    pub(super) fn why_tcp(&self) -> Option<(String, String)> {
        match &self.0.kind {
            Kind::Smc(stream) => {
                let why = stream.carrier().why_tcp()?;
                Some((why.smcss(), why.sentence()))
            }
            Kind::Tcp(_) => None,
        }
    }

    /// The address of this end.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        let address = match &self.0.kind {
            Kind::Smc(stream) => stream.local_addr(),
            Kind::Tcp(stream) => stream.local_addr(),
        };
        address.map(canonical)
    }

    /// The address of the other end.
    pub(super) fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// How long reading and writing wait at most.
    pub(super) fn set_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        match &self.0.kind {
            Kind::Smc(stream) => {
                stream.set_read_timeout(most)?;
                stream.set_write_timeout(most)
            }
            Kind::Tcp(stream) => {
                stream.set_read_timeout(most)?;
                stream.set_write_timeout(most)
            }
        }
    }

    /// Ends it, also for threads that still hold it.
    pub(super) fn ended(&self, outcome: Result<(), Trouble>) -> Ended {
        // It may have ended already.
        let _ = self.shut(Shutdown::Both);
        Ended {
            peer: self.0.peer.to_string(),
            carrier: self.carrier(),
            sent: self.0.sent.load(Ordering::Relaxed),
            received: self.0.received.load(Ordering::Relaxed),
            error: outcome.err(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &self.0.kind {
            Kind::Smc(stream) => (&*stream).read(into),
            Kind::Tcp(stream) => (&*stream).read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &self.0.kind {
            Kind::Smc(stream) => (&*stream).write(octets),
            Kind::Tcp(stream) => (&*stream).write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connections that wait to be accepted; the kernel cuts it to its own limit.
const BACKLOG: u32 = 4096;

/// A listener of either kind.
pub(super) enum Listener {
    Smc(SmcListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn bind(means: &Means, at: &HostPort) -> io::Result<Self> {
        if let HostPort::All(port) = at {
            return Self::bind_all(means, *port);
        }
        let addresses = at.resolve()?;
        Ok(match means {
            Means::Smc(stack) => Self::Smc(SmcListener::bind_on(stack, &*addresses)?),
            Means::Tcp => Self::Tcp(TcpListener::bind(&*addresses)?),
        })
    }

    /// Listens for IPv4 and IPv6 at once, or for IPv4 where there is no IPv6.
    fn bind_all(means: &Means, port: u16) -> io::Result<Self> {
        match Self::bind_both(means, port) {
            // No such family, or a host that has no address of it.
            Err(error)
                if [
                    rustix::io::Errno::AFNOSUPPORT,
                    rustix::io::Errno::ADDRNOTAVAIL,
                ]
                .iter()
                .any(|none| error.raw_os_error() == Some(none.raw_os_error())) =>
            {
                let all = (Ipv4Addr::UNSPECIFIED, port);
                Ok(match means {
                    Means::Smc(stack) => Self::Smc(SmcListener::bind_on(stack, all)?),
                    Means::Tcp => Self::Tcp(TcpListener::bind(all)?),
                })
            }
            bound => bound,
        }
    }

    fn bind_both(means: &Means, port: u16) -> io::Result<Self> {
        let prepare = |socket: &dyn AsFd| -> io::Result<()> {
            sockopt::set_socket_reuseaddr(socket.as_fd(), true)?;
            // Whatever net.ipv6.bindv6only has.
            sockopt::set_ipv6_v6only(socket.as_fd(), false)?;
            let all = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
            Ok(rustix::net::bind(socket.as_fd(), &all)?)
        };
        Ok(match means {
            Means::Smc(stack) => {
                let socket = SmcSocket::new_v6_on(stack)?;
                prepare(&socket)?;
                Self::Smc(socket.listen(BACKLOG)?)
            }
            Means::Tcp => {
                let (family, flags) = (AddressFamily::INET6, SocketFlags::CLOEXEC);
                let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
                prepare(&socket)?;
                rustix::net::listen(&socket, BACKLOG.cast_signed())?;
                Self::Tcp(TcpListener::from(socket))
            }
        })
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Smc(listener) => {
                let (stream, peer) = listener.accept()?;
                Stream::new(Kind::Smc(stream), peer)
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                Stream::new(Kind::Tcp(without_delay(stream)?), peer)
            }
        })
    }

    /// Address of the listener, and clients of which family reach it.
    pub(super) fn description(&self, at: &HostPort) -> io::Result<String> {
        let address = self.address()?;
        Ok(match (at, address) {
            (HostPort::At(..), _) => address.to_string(),
            (HostPort::All(_), SocketAddr::V6(_)) => format!("{address} (IPv4 and IPv6)"),
            (HostPort::All(_), SocketAddr::V4(_)) => format!("{address} (no IPv6 here)"),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Smc(listener) => listener.local_addr(),
            Self::Tcp(listener) => listener.local_addr(),
        }
    }
}

/// Messages leave at once, as they do over shared memory.
fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}
