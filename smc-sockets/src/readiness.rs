//! Readiness of a stream as a file descriptor that `poll`, `epoll` and everything
//! built on them understands, in both directions.
//!
//! It is one end of a pair of Unix sockets, which the user polls and nobody else
//! touches: a message in it makes it readable, a message from it that fills the
//! smallest send buffer the kernel knows makes it unwritable, and the end of the other
//! socket hangs it up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

/// More than a quarter of the least send buffer: the kernel then calls it full.
const FILLER: [u8; 1024] = [0; 1024];

/// A descriptor that is as ready as its stream.
#[derive(Debug)]
pub(crate) struct Readiness {
    user: OwnedFd,
    own: OwnedFd,
    readable: AtomicBool,
    full: AtomicBool,
}

impl Readiness {
    /// One that is writable only.
    pub(crate) fn new() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (user, own) = rustix::net::socketpair(family, kind, flags, None)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&user, 0)?;
        Ok(Self {
            user,
            own,
            readable: AtomicBool::new(false),
            full: AtomicBool::new(false),
        })
    }

    /// Says whether reading would not wait. Callers hold the endpoint's lock.
    pub(crate) fn set_readable(&self, readable: bool) {
        if self.readable.swap(readable, Ordering::Relaxed) == readable {
            return;
        }
        // Neither can fail: there is room for one message, and it is there.
        let _ = if readable {
            rustix::net::send(&self.own, &[0], SendFlags::NOSIGNAL).map(|_| ())
        } else {
            rustix::net::recv(&self.user, &mut [0; 1], RecvFlags::DONTWAIT).map(|_| ())
        };
    }

    /// Says whether writing would not wait. Callers hold the endpoint's lock.
    pub(crate) fn set_writable(&self, writable: bool) {
        if self.full.swap(!writable, Ordering::Relaxed) != writable {
            return;
        }
        let _ = if writable {
            rustix::net::recv(&self.own, &mut [0; 1], RecvFlags::DONTWAIT).map(|_| ())
        } else {
            rustix::net::send(&self.user, &FILLER, SendFlags::NOSIGNAL).map(|_| ())
        };
    }

    /// The stream has ended: ready for everything, for good.
    pub(crate) fn hang_up(&self) {
        self.set_writable(true);
        self.set_readable(true);
        let _ = rustix::net::shutdown(&self.own, Shutdown::Both);
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.user.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;
    use rustix::event::{PollFd, PollFlags};

    fn ready(of: &Readiness) -> PollFlags {
        let all = PollFlags::IN | PollFlags::OUT;
        let mut polled = [PollFd::new(of, all)];
        let now = rustix::time::Timespec::default();
        rustix::event::poll(&mut polled, Some(&now)).unwrap();
        polled[0].revents()
    }

    #[test]
    fn every_state_of_a_stream_can_be_polled() {
        let readiness = Readiness::new().unwrap();
        for _ in 0..3 {
            for (readable, writable) in [(true, true), (true, false), (false, false), (false, true)]
            {
                // Saying it again changes nothing.
                for _ in 0..2 {
                    readiness.set_readable(readable);
                    readiness.set_writable(writable);
                }
                let flags = ready(&readiness);
                assert_eq!(flags.contains(PollFlags::IN), readable);
                assert_eq!(flags.contains(PollFlags::OUT), writable);
            }
        }
        readiness.set_writable(false);
        readiness.hang_up();
        let end = PollFlags::IN | PollFlags::OUT | PollFlags::HUP;
        assert_eq!(ready(&readiness), end);
    }
}
