//! Accepting.

mod binding;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use smc_transport_ism::shared::pairing;

use crate::carrier::Cause;
use crate::discovery::OptionNotSent;
use crate::listening::{Destination, Listening};
use crate::opening::Opening;
use crate::process::PerProcess;
use crate::stack::Stack;
use crate::stream::SmcStream;

/// Longest time that the drop of a listener waits for the driver, which may be accepting from it.
const ACCEPTING: Duration = Duration::from_millis(100);
/// Pause between two checks of that.
const PAUSE: Duration = Duration::from_micros(20);

/// A TCP listener whose connections become SMC where the client's process can, and stay
/// TCP where not.
///
/// A connection whose client is slow to decide keeps no other waiting. Connections of clients that
/// use shared memory are taken in ahead, up to 128, while the program does something else. Clients
/// that have not decided yet are bounded in number; the oldest
/// of the user or address that has most of them is declined when there are too many.
///
/// In children made by `fork`, an inherited listener goes on as well, also after they have taken
/// another user's identity: whichever process accepts a connection asks its client. A process
/// that has not accepted before it forks leaves its connections to the children until it accepts,
/// or polls, itself.
pub struct SmcListener {
    shared: Arc<Shared>,
}

/// What the handles of a listener share; it ends with the last of them.
struct Shared {
    stack: Stack,
    listening: Arc<Listening>,
    nonblocking: AtomicBool,
    /// What a child made by `fork` accepts with.
    inherited: PerProcess<Inherited>,
}

/// The listener of a parent, in a child.
struct Inherited {
    stack: Stack,
    listening: Arc<Listening>,
}

impl SmcListener {
    /// Listens at an address, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`], and [`Stack::open`].
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_on(&Stack::of_process()?, address)
    }

    /// Listens at an address, with this stack. Unlike [`Self::on`], it can ask for SMC's
    /// TCP option, which peers on other hosts have to see.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub fn bind_on(stack: &Stack, address: impl ToSocketAddrs) -> io::Result<Self> {
        let stack = stack.current()?;
        let opt_in = &stack.shard().opt_in;
        let (listener, option_sent) = binding::bind(opt_in, address)?;
        Self::of(&stack, listener, option_sent)
    }

    /// Lets connections of `listener` use `stack`. From the same port, no other code may
    /// accept in this process.
    ///
    /// # Errors
    /// The operating system's.
    pub fn on(stack: &Stack, listener: TcpListener) -> io::Result<Self> {
        // It listens already.
        let stack = stack.current()?;
        let option_sent = stack
            .shard()
            .opt_in
            .marks()
            .and(Err(OptionNotSent::TooLate));
        Self::of(&stack, listener, option_sent)
    }

    /// The stack that accepts for it.
    #[cfg(test)]
    pub(crate) fn stack(&self) -> &Stack {
        &self.shared.stack
    }

    /// No client can call it any more.
    #[cfg(test)]
    pub(crate) fn leave_rendezvous(&self) {
        self.shared.listening.leave_rendezvous();
    }

    pub(crate) fn of(
        stack: &Stack,
        listener: TcpListener,
        option_sent: Result<(), OptionNotSent>,
    ) -> io::Result<Self> {
        let permitted = stack
            .shard()
            .opt_in
            .policy
            .listening(listener.local_addr()?.port());
        let gids = stack.gids().filter(|_| permitted.is_ok());
        let listening = Arc::new(Listening::new(
            listener,
            gids,
            (option_sent, stack.shard().opt_in.assumes_any()),
            &stack.shard().callers,
        )?);
        stack.shard().enlist(&listening)?;
        let shared = Shared {
            stack: stack.clone(),
            listening,
            nonblocking: AtomicBool::new(false),
            inherited: PerProcess::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The next connection, and the client's address.
    ///
    /// # Errors
    /// Errors of [`TcpListener::accept`].
    pub fn accept(&self) -> io::Result<(SmcStream, SocketAddr)> {
        let Ok((stack, listening)) = self.shared.here() else {
            return self.accept_plain();
        };
        listening.want(stack.shard());
        loop {
            if let Some(accepted) = listening.accept(stack.shard()) {
                let (socket, address) = accepted?;
                return Ok((SmcStream::new(stack.clone(), socket), address));
            }
            if self.shared.nonblocking.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            wait_readable(listening.ready())?;
        }
    }

    /// Accepts from the listener of the parent, in a child without a stack of its own.
    fn accept_plain(&self) -> io::Result<(SmcStream, SocketAddr)> {
        let listener = self.shared.listening.tcp();
        loop {
            match listener.accept() {
                Ok((tcp, address)) => {
                    let _ = pairing::let_go(&tcp);
                    return Ok((self.plain_stream(tcp, address), address));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.shared.nonblocking.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            wait_readable(listener.as_fd())?;
        }
    }

    /// The stream of a connection that was accepted in a child without a stack of its own. A client
    /// that speaks CLC is declined.
    fn plain_stream(&self, tcp: TcpStream, client: SocketAddr) -> SmcStream {
        let (listening, shard) = (&self.shared.listening, self.shared.stack.shard());
        let listener = (listening.port(), listening.option_sent());
        let verdict = shard
            .opt_in
            .accepted(&tcp, listener.0, client.ip(), listener.1);
        match verdict.discovery {
            Ok(_) => {
                let socket = shard.decline(tcp, Cause::Inherited, Opening::Promised);
                SmcStream::without_stack(socket)
            }
            Err(_) => SmcStream::plain(tcp, Cause::Inherited),
        }
    }

    /// The connections, one after the other, without end.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<SmcStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// The connections, one after the other, without end; the iterator has the listener.
    pub fn into_incoming(self) -> impl Iterator<Item = io::Result<SmcStream>> {
        std::iter::repeat_with(move || self.accept().map(|(stream, _)| stream))
    }

    /// Another handle of the same listener, as
    /// [`TcpListener::try_clone`](std::net::TcpListener::try_clone) gives: each connection is
    /// accepted by one of them, and what is set holds for all.
    ///
    /// # Errors
    /// None so far.
    pub fn try_clone(&self) -> io::Result<Self> {
        let shared = self.shared.clone();
        Ok(Self { shared })
    }

    /// The error that the listening socket has come to, once.
    ///
    /// # Errors
    /// Errors of [`TcpListener::take_error`](std::net::TcpListener::take_error).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.shared.listening.tcp().take_error()
    }

    /// The time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`TcpListener::ttl`](std::net::TcpListener::ttl).
    pub fn ttl(&self) -> io::Result<u32> {
        self.shared.listening.tcp().ttl()
    }

    /// Sets the time to live of TCP's packets, for connections that are accepted from now on
    /// as well.
    ///
    /// # Errors
    /// Errors of [`TcpListener::set_ttl`](std::net::TcpListener::set_ttl).
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.shared.listening.tcp().set_ttl(ttl)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Errors of [`TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.listening.tcp().local_addr()
    }

    /// Whether [`Self::accept`] returns at once, with [`io::ErrorKind::WouldBlock`] if
    /// there is nothing. Accepted streams wait in any case, until set otherwise.
    ///
    /// # Errors
    /// None so far.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.shared
            .nonblocking
            .store(nonblocking, Ordering::Relaxed);
        Ok(())
    }
}

/// Readable while there is something to accept.
impl AsFd for SmcListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let Ok((stack, listening)) = self.shared.here() else {
            return self.shared.listening.tcp().as_fd();
        };
        listening.want(stack.shard());
        listening.ready()
    }
}

fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match rustix::event::poll(&mut polled, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The descriptor of [`AsFd`].
impl AsRawFd for SmcListener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Shared {
    /// The stack of this process that accepts, and its listener.
    ///
    /// # Errors
    /// Errors of a stack that a child cannot have.
    //= SHM-015
    fn here(&self) -> io::Result<(&Stack, &Arc<Listening>)> {
        if !self.listening.is_inherited() {
            return Ok((&self.stack, &self.listening));
        }
        self.listening.leave_rendezvous();
        let made = self.inherited.get_or_make(|| {
            let stack = self.stack.current()?;
            let option_sent = (
                self.listening.option_sent(),
                stack.shard().opt_in.assumes_any(),
            );
            let gids = self.listening.gids().and_then(|_| stack.gids());
            let listening = Arc::new(Listening::inherited(&self.listening, gids, option_sent)?);
            stack.shard().enlist(&listening)?;
            Ok(Inherited { stack, listening })
        });
        made.map(|made| (&made.stack, &made.listening))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.listening.is_inherited() {
            end(&self.stack, &self.listening);
        }
        // The parent's driver, and its poller, go on with its own.
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        end(&self.stack, &self.listening);
    }
}

/// Accepts no more from a listener of this process.
fn end(stack: &Stack, listening: &Arc<Listening>) {
    stack.shard().delist(listening);
    for (socket, _) in listening.close() {
        drop(SmcStream::new(stack.clone(), socket));
    }
    // The driver may be accepting from it: the address is free once that is over.
    let end = Instant::now() + ACCEPTING;
    while Arc::strong_count(listening) > 1 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}

impl fmt::Debug for SmcListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmcListener")
            .field("address", &self.local_addr().ok())
            .finish_non_exhaustive()
    }
}
