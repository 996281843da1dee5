//! The three transports behind one stream and one listener for tokio.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use smc_sockets::tokio::{SmcListener, SmcSocket, SmcStream};
use smc_sockets::{Settings, Stack};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that the kernel keeps until they are accepted: more than clients of a workload
/// make at once. One that finds the queue full is made a second later.
const BACKLOG: u32 = 1024;
/// Where servers listen.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    Smc,
    Tcp,
    Unix,
}

impl Transport {
    pub(crate) const ALL: [Self; 3] = [Self::Smc, Self::Tcp, Self::Unix];

    pub(crate) fn parse(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|at| at.to_string() == name);
        found.unwrap_or_else(|| panic!("no transport {name}"))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Smc => "SMC-D",
            Self::Tcp => "TCP",
            Self::Unix => "Unix",
        })
    }
}

/// A stack with the default settings, but for the number of connections.
pub(crate) fn stack() -> Stack {
    let mut settings = Settings::default();
    settings.connections = 20_000;
    Stack::with(settings).expect("a stack")
}

/// A folder for Unix sockets, removed by the process that made it.
pub(crate) fn unix_path() -> String {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("smc-event-loops-{}", std::process::id()));
    path.display().to_string()
}

pub(crate) enum Listener {
    Smc(SmcListener),
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens, and prints where.
    pub(crate) async fn bind(transport: Transport, stack: Option<&Stack>) -> io::Result<Self> {
        Ok(match transport {
            Transport::Smc => {
                let stack = stack.expect("SMC has a stack");
                let socket = SmcSocket::new_v4_on(stack)?;
                socket.bind(ANY)?;
                let listener = socket.listen(BACKLOG)?;
                println!("listening {}", listener.local_addr()?);
                Self::Smc(listener)
            }
            Transport::Tcp => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(ANY)?;
                let listener = socket.listen(BACKLOG)?;
                println!("listening {}", listener.local_addr()?);
                Self::Tcp(listener)
            }
            Transport::Unix => {
                let path = unix_path();
                let _ = std::fs::remove_file(&path);
                let listener = UnixListener::bind(&path)?;
                println!("listening {path}");
                Self::Unix(listener)
            }
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Smc(listener) => Stream::Smc(listener.accept().await?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0),
        })
    }
}

/// Connections of this process that it opened by [`Stream::connect`] and that are SMC.
static SMC: AtomicUsize = AtomicUsize::new(0);

/// How many connections that [`Stream::connect`] opened are SMC.
pub(crate) fn carried_by_smc() -> usize {
    SMC.load(Ordering::Relaxed)
}

pub(crate) enum Stream {
    Smc(SmcStream),
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) async fn connect(
        transport: Transport,
        stack: Option<&Stack>,
        address: &str,
    ) -> io::Result<Self> {
        Ok(match transport {
            Transport::Smc => {
                let stack = stack.expect("SMC has a stack");
                let stream = SmcStream::connect_on(stack, address).await?;
                SMC.fetch_add(usize::from(stream.carrier().is_smc()), Ordering::Relaxed);
                Self::Smc(stream)
            }
            Transport::Tcp => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
            Transport::Unix => Self::Unix(UnixStream::connect(address).await?),
        })
    }
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Smc($stream) => $call,
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
