//! Sockets before they connect or listen.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::{SmcListener, SmcStream, runtimes};
use crate::stack::Stack;

/// A socket that neither connects nor listens yet, to set what must be set before: like
/// tokio's `TcpSocket`.
pub struct SmcSocket {
    inner: crate::SmcSocket,
}

macro_rules! as_std {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*) => {
        /// Errors of the methods of [`smc_sockets::SmcSocket`](crate::SmcSocket).
        impl SmcSocket {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Errors of the method of the same name of
                /// [`smc_sockets::SmcSocket`](crate::SmcSocket).
                pub fn $name(&self, $($arg: $of),*) -> io::Result<$result> {
                    self.inner.$name($($arg),*)
                }
            )*
        }
    };
}

as_std! {
    /// Sets how many bytes the peer can send ahead.
    set_recv_buffer_size(bytes: u32) -> ();
    /// How many bytes the peer can send ahead.
    recv_buffer_size() -> u32;
    /// Sets how many bytes can be written ahead.
    set_send_buffer_size(bytes: u32) -> ();
    /// How many bytes can be written ahead.
    send_buffer_size() -> u32;
    /// Lets the address be bound although connections of it linger, or not.
    set_reuseaddr(reuse: bool) -> ();
    /// Lets small writes leave at once, or not.
    set_nodelay(nodelay: bool) -> ();
    /// Binds it to an address of this host.
    bind(address: SocketAddr) -> ();
}

impl SmcSocket {
    /// A socket for IPv4, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// The operating system's, and [`Stack::open`].
    pub fn new_v4() -> io::Result<Self> {
        crate::SmcSocket::new_v4().map(Self::from)
    }

    /// A socket for IPv6, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// Errors of [`Self::new_v4`].
    pub fn new_v6() -> io::Result<Self> {
        crate::SmcSocket::new_v6().map(Self::from)
    }

    /// A socket for IPv4, with this stack.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new_v4_on(stack: &Stack) -> io::Result<Self> {
        crate::SmcSocket::new_v4_on(stack).map(Self::from)
    }

    /// A socket for IPv6, with this stack.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new_v6_on(stack: &Stack) -> io::Result<Self> {
        crate::SmcSocket::new_v6_on(stack).map(Self::from)
    }

    /// Connects it. A task that gives this up leaves nothing behind.
    ///
    /// # Errors
    /// Errors of [`SmcStream::connect`].
    pub async fn connect(self, to: SocketAddr) -> io::Result<SmcStream> {
        SmcStream::finish(self.inner.connect_in_task(to, runtimes::ensure)?).await
    }

    /// Listens with it. The kernel keeps at most `backlog` connections that were not accepted
    /// yet.
    ///
    /// # Errors
    /// Errors of [`SmcListener::bind`].
    pub fn listen(self, backlog: u32) -> io::Result<SmcListener> {
        SmcListener::from_std(self.inner.listen(backlog)?)
    }
}

impl From<crate::SmcSocket> for SmcSocket {
    fn from(inner: crate::SmcSocket) -> Self {
        Self { inner }
    }
}

impl AsFd for SmcSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl fmt::Debug for SmcSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
