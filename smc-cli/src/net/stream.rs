//! A connection of either kind, and what went through it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smc_sockets::{SmcListener, SmcStream};

use super::{Ended, Means};

/// A connection that threads share.
#[derive(Clone)]
pub(super) struct Stream(pub(super) Arc<Counted>);

/// A connection, and how many octets were sent and received over it.
pub(super) struct Counted {
    kind: Kind,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

enum Kind {
    Smc(SmcStream),
    Tcp(TcpStream),
}

impl Stream {
    fn new(kind: Kind) -> Self {
        Self(Arc::new(Counted {
            kind,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }))
    }

    pub(super) fn connect(means: &Means, address: &str) -> io::Result<Self> {
        Ok(Self::new(match means {
            Means::Smc(stack) => Kind::Smc(SmcStream::connect_on(stack, address)?),
            Means::Tcp => Kind::Tcp(without_delay(TcpStream::connect(address)?)?),
        }))
    }

    /// Ends the direction to the peer.
    pub(super) fn end(&self) -> io::Result<()> {
        self.shut(Shutdown::Write)
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

    /// Ends it, also for threads that still hold it.
    pub(super) fn ended(&self, outcome: io::Result<()>) -> Ended {
        let peer = match &self.0.kind {
            Kind::Smc(stream) => stream.peer_addr(),
            Kind::Tcp(stream) => stream.peer_addr(),
        };
        // It may have ended already.
        let _ = self.shut(Shutdown::Both);
        Ended {
            peer: peer.map_or("connection".to_owned(), |peer| peer.to_string()),
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

/// A listener of either kind.
pub(super) enum Listener {
    Smc(SmcListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn bind(means: &Means, address: &str) -> io::Result<Self> {
        Ok(match means {
            Means::Smc(stack) => Self::Smc(SmcListener::bind_on(stack, address)?),
            Means::Tcp => Self::Tcp(TcpListener::bind(address)?),
        })
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        Ok(Stream::new(match self {
            Self::Smc(listener) => Kind::Smc(listener.accept()?.0),
            Self::Tcp(listener) => Kind::Tcp(without_delay(listener.accept()?.0)?),
        }))
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
