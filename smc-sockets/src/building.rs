//! Sockets before they connect or listen.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(feature = "tokio")]
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::connecting::{self, Connecting};
#[cfg(feature = "tokio")]
use crate::connecting::{Begun, TaskConnecting};
use crate::listener::SmcListener;
#[cfg(feature = "tokio")]
use crate::shard::Shard;
use crate::stack::Stack;
use crate::stream::SmcStream;

/// A socket that neither connects nor listens yet, to set what must be set before: like
/// tokio's `TcpSocket`.
///
/// What is set holds for the stream, or for all that a listener accepts. Sizes of buffers
/// that were not set are those of the [stack](crate::Settings::buffer).
pub struct SmcSocket {
    stack: Stack,
    tcp: OwnedFd,
}

impl SmcSocket {
    /// One for IPv4, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// The operating system's, and [`Stack::open`].
    pub fn new_v4() -> io::Result<Self> {
        Self::new_v4_on(&Stack::of_process()?)
    }

    /// One for IPv6, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// Errors of [`Self::new_v4`].
    pub fn new_v6() -> io::Result<Self> {
        Self::new_v6_on(&Stack::of_process()?)
    }

    /// One for IPv4, with this stack.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new_v4_on(stack: &Stack) -> io::Result<Self> {
        Self::new(stack, AddressFamily::INET)
    }

    /// One for IPv6, with this stack.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new_v6_on(stack: &Stack) -> io::Result<Self> {
        Self::new(stack, AddressFamily::INET6)
    }

    fn new(stack: &Stack, family: AddressFamily) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Self {
            stack: stack.clone(),
            tcp: rustix::net::socket_with(family, SocketType::STREAM, flags, None)?,
        })
    }

    /// Bytes that the peer can send ahead (`SO_RCVBUF`). On SMC they are rounded up to
    /// 16 KiB times a power of two, up to 1 MiB, as Linux does; what the kernel permits
    /// (`net.core.rmem_max`) holds as with TCP. Needs Linux 5.15.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_recv_buffer_size(&self, octets: u32) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size(
            &self.tcp,
            octets as usize,
        )?)
    }

    /// What [`Self::set_recv_buffer_size`] has set; the kernel doubles it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        let size = sockopt::socket_recv_buffer_size(&self.tcp)?;
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Bytes that can be on their way to the peer's memory (`SO_SNDBUF`), rounded as
    /// [those to receive](Self::set_recv_buffer_size). Over shared memory none are: what is
    /// sent is in the peer's memory at once, of which the peer has as much as it said.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_send_buffer_size(&self, octets: u32) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(
            &self.tcp,
            octets as usize,
        )?)
    }

    /// What [`Self::set_send_buffer_size`] has set; the kernel doubles it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        let size = sockopt::socket_send_buffer_size(&self.tcp)?;
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// Whether an address may be bound whose earlier connections are not quite gone.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_reuseaddr(&self, reuse: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(&self.tcp, reuse)?)
    }

    /// Whether small writes leave at once, see [`SmcStream::set_nodelay`].
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.tcp, nodelay)?)
    }

    /// Gives the socket an address of its own.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::bind(&self.tcp, &address)?)
    }

    /// Connects it.
    ///
    /// # Errors
    /// Errors of [`SmcStream::connect`].
    pub fn connect(self, to: SocketAddr) -> io::Result<SmcStream> {
        connecting::connect(&self.stack, Some(self.tcp), to, None)
    }

    /// Connects it within a time.
    ///
    /// # Errors
    /// Errors of [`SmcStream::connect_timeout`].
    pub fn connect_timeout(self, to: SocketAddr, timeout: Duration) -> io::Result<SmcStream> {
        if timeout.is_zero() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        connecting::connect(&self.stack, Some(self.tcp), to, Some(timeout))
    }

    /// Begins to connect it, and does not wait.
    ///
    /// # Errors
    /// Errors of [`SmcStream::begin_connect`].
    pub fn begin_connect(self, to: SocketAddr) -> io::Result<Connecting> {
        Connecting::begin(&self.stack, Some(self.tcp), to)
    }

    /// Begins to connect in a task, of whose runtime `polls` knows whether it polls the device.
    #[cfg(feature = "tokio")]
    pub(crate) fn connect_in_task(
        self,
        to: SocketAddr,
        polls: impl FnOnce(&Arc<Shard>) -> bool,
    ) -> io::Result<Begun> {
        TaskConnecting::begin(&self.stack, Some(self.tcp), to, polls)
    }

    /// Listens with it. The kernel queues at most so many connections that were not accepted.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub fn listen(self, backlog: u32) -> io::Result<SmcListener> {
        let stack = self.stack.current()?;
        let opt_in = &stack.shard().opt_in;
        let port = rustix::net::getsockname(&self.tcp)?;
        let port = SocketAddr::try_from(port).map_or(0, |at| at.port());
        let asked = match opt_in.marks() {
            Ok(_) => opt_in.before_listen(&self.tcp, port),
            Err(why) => Err(why),
        };
        rustix::net::listen(&self.tcp, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        SmcListener::of(&stack, TcpListener::from(self.tcp), asked)
    }
}

impl AsFd for SmcSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl fmt::Debug for SmcSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmcSocket").finish_non_exhaustive()
    }
}
