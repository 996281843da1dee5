//! The Unix socket of a channel, which sends and receives messages with descriptors. No call
//! waits, except those with a deadline.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::message::{MESSAGE_LEN, Message};
use crate::descriptors;

/// Most messages of a channel that wait in the socket for the peer. Further ones wait in the
/// outbox.
pub(super) const WINDOW: usize = 32;

/// One end of a channel: a Unix socket that keeps message boundaries.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// Result of [`Socket::receive`].
#[derive(Debug)]
pub(super) enum Received {
    /// A message, and the descriptor that came with it.
    Message(Message, Option<OwnedFd>),
    /// A message without its descriptor, as this process has reached its limit of descriptors.
    Stripped(Message),
    /// No message has arrived yet.
    Nothing,
    /// The peer has gone.
    End,
    /// The peer sent bytes that are no message of this protocol.
    Malformed,
}

impl Socket {
    pub(super) const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

    /// Creates a socket of the type that channels use, not connected.
    pub(super) fn unconnected() -> io::Result<OwnedFd> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let make = || rustix::net::socket_with(family, kind, Self::FLAGS, None);
        Ok(descriptors::keep(make)?)
    }

    /// Creates two sockets that are connected to each other.
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, two) = rustix::net::socketpair(family, kind, Self::FLAGS, None)?;
        let [one, two] = [one, two].map(|fd| descriptors::keep(|| Ok(fd)));
        Ok((Self(one?), Self(two?)))
    }

    /// Takes over a socket that is connected already.
    pub(super) fn new(connected: OwnedFd) -> Self {
        Self(connected)
    }

    /// Sends a message, with a descriptor if there is one. Passes `MSG_DONTWAIT` with each call, as
    /// the process that made the socket could change the socket's own flags.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the socket has no room; else the error of sending.
    pub(super) fn send(&self, message: Message, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.emit();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let Some(fd) = fd else {
            rustix::net::send(&self.0, &bytes, flags)?;
            return Ok(());
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives a message if one has arrived.
    pub(super) fn receive(&self) -> Received {
        // With one byte more, a message that is too long is noticed.
        let mut bytes = [0; MESSAGE_LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let mut ended = false;
        let (len, returned) = loop {
            let received = descriptors::receive(|| {
                rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags)
            });
            match received.unwrap_or(Err(Errno::AGAIN)) {
                // Linux checks for a message and then, without a lock, whether the peer has ended.
                // A message that the peer sent in between is read after this end.
                Ok(got) if got.bytes == 0 && !std::mem::replace(&mut ended, true) => {
                    control.drain().for_each(drop);
                }
                Ok(got) => break (got.bytes, got.flags),
                // ECONNRESET: the peer ended with unread messages. Reported once, before the
                // messages that it sent.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                // Without memory at this side the message stays in the socket.
                Err(Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS) => return Received::Nothing,
                Err(_) => return Received::End,
            }
        };
        // More than one cannot come, as there is no room; the kernel closes the rest.
        let fd = control.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let is_stripped = fd.is_none() && returned.contains(ReturnFlags::CTRUNC);
        match bytes.get(..len).and_then(Message::parse) {
            //= SHM-040
            Some(message) if is_stripped => Received::Stripped(message),
            Some(message) => match fd.map(|fd| descriptors::keep(|| Ok(fd))).transpose() {
                Ok(fd) => Received::Message(message, fd),
                Err(_) => Received::Stripped(message),
            },
            None if len == 0 => Received::End,
            None => Received::Malformed,
        }
    }

    /// Bounds the messages that the peer has not received yet to [`WINDOW`]: each may hold
    /// a descriptor in flight, which counts against this process's user.
    //= SHM-042
    pub(super) fn set_window(&self) -> io::Result<()> {
        // The kernel doubles it.
        let size = WINDOW * charge() / 2;
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(
            &self.0, size,
        )?)
    }

    /// Messages that the peer has not received yet; none once it has gone.
    pub(super) fn unread(&self) -> usize {
        let bytes = crate::sys::unread_by_peer(&self.0).unwrap_or(0) as usize;
        bytes.div_ceil(charge())
    }

    /// Nothing is sent or received any more; what the peer has not received yet it may.
    pub(super) fn finish(&self) {
        // It fails only for a socket that is not connected any more.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// Waits for a message at most until `deadline`.
    pub(super) fn receive_by(&self, deadline: Instant) -> io::Result<(Message, Option<OwnedFd>)> {
        loop {
            match self.receive() {
                Received::Message(message, fd) => return Ok((message, fd)),
                Received::Stripped(_) => return Err(Errno::MFILE.into()),
                Received::End | Received::Malformed => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Received::Nothing => {}
            }
            if !self.readable_by(deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Waits until there is something to receive; `false` if there is not in time.
    pub(super) fn readable_by(&self, deadline: Instant) -> io::Result<bool> {
        wait_readable(&[self.as_fd()], deadline)
    }

    /// From now on nothing new arrives: what the peer sends fails there, and what it
    /// sent before can still be received.
    pub(super) fn refuse(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.0, rustix::net::Shutdown::Read)?)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What the kernel charges a socket's buffer for one message, in bytes.
fn charge() -> usize {
    /// More than it has ever been, for a process without a descriptor left to try.
    const MOST: usize = 2048;
    /// 0 before it is known. No lock: a child would wait for the thread of its parent that
    /// held it at the fork.
    static CHARGE: AtomicUsize = AtomicUsize::new(0);
    match CHARGE.load(Ordering::Relaxed) {
        0 => {}
        known => return known,
    }
    let measure = || {
        let (one, _two) = Socket::pair()?;
        one.send(Message::Wake, None)?;
        crate::sys::unread_by_peer(&one)
    };
    match measure() {
        // The kernel's own answer excludes one byte.
        Ok(bytes @ 1..) => {
            let charge = (bytes as usize).next_multiple_of(64);
            CHARGE.store(charge, Ordering::Relaxed);
            charge
        }
        _ => MOST,
    }
}

/// Waits until any of these can be read, or has ended; `false` if not in time.
pub(super) fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> io::Result<bool> {
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    let left = deadline.saturating_duration_since(Instant::now());
    // A signal handler may cut the wait short; the caller checks and waits again.
    match rustix::event::poll(&mut polled, Some(&timespec(left))) {
        Ok(ready) => Ok(ready > 0 || Instant::now() < deadline),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A span of time as the kernel takes it.
pub(super) fn timespec(time: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
