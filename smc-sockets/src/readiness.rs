//! Readiness of a stream as a file descriptor that `poll`, `epoll` and everything built on
//! them understands, in both directions and with the events of TCP.
//!
//! The descriptor is one end of a pair of Unix sockets, which the user polls and nothing else touches:
//!
//! ```text
//!   EPOLLIN      an empty message in it; another one for each arrival, as an edge
//!   EPOLLOUT     no message from it fills the least send buffer that the kernel has
//!   EPOLLRDHUP   the other socket was shut down for writing
//!   EPOLLHUP     and for reading
//!   EPOLLERR     the other socket was closed with something unread
//! ```
//!
//! An empty message is the end of a file to a program that reads the descriptor itself: it gets
//! no bytes that the peer never sent. What a program writes to it arrives at the other socket,
//! where it is counted and dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use crate::descriptors;
use crate::waiting::Direction;

/// More than a quarter of the least send buffer: the kernel then calls it full.
const FILLER: [u8; 1024] = [0; 1024];

/// Messages that are read at a time.
const AT_ONCE: usize = 64;

/// A descriptor that is as ready as its stream. Callers of all that changes it hold the
/// endpoint's lock.
#[derive(Debug)]
pub(crate) struct Readiness {
    user: OwnedFd,
    /// Closed when the stream was reset.
    own: Mutex<Option<OwnedFd>>,
    readable: AtomicBool,
    full: AtomicBool,
    /// A filler is under way.
    filled: AtomicBool,
    /// Nothing comes any more.
    read_ended: AtomicBool,
    /// Nothing goes any more.
    write_ended: AtomicBool,
    /// Messages of the program.
    strays: AtomicU64,
}

impl Readiness {
    /// One that is writable only.
    pub(crate) fn new() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (user, own) = rustix::net::socketpair(family, kind, flags, None)?;
        let [user, own] = [user, own].map(|fd| descriptors::keep(|| Ok(fd)));
        let (user, own) = (user?, own?);
        rustix::net::sockopt::set_socket_send_buffer_size(&user, 0)?;
        Ok(Self {
            user,
            own: Mutex::new(Some(own)),
            readable: AtomicBool::new(false),
            full: AtomicBool::new(false),
            filled: AtomicBool::new(false),
            read_ended: AtomicBool::new(false),
            write_ended: AtomicBool::new(false),
            strays: AtomicU64::new(0),
        })
    }

    fn own(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on the descriptor that is readable when [`Self::drop_strays`] is to be called.
    pub(crate) fn watch(&self, watch: impl FnOnce(BorrowedFd<'_>)) {
        if let Some(own) = &*self.own() {
            watch(own.as_fd());
        }
    }

    /// Makes the descriptor readable, which is a new edge each time, or not readable.
    pub(crate) fn set_readable(&self, readable: bool) {
        let before = self.readable.swap(readable, Ordering::Relaxed);
        if !before && !readable || self.read_ended.load(Ordering::Relaxed) {
            return;
        }
        // It fails if the program has taken the message.
        let _ = rustix::net::recv(&self.user, &mut [0; 1], RecvFlags::DONTWAIT);
        if readable && let Some(own) = &*self.own() {
            // It cannot fail: there is room for one message.
            let _ = rustix::net::send(own, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Makes the descriptor writable, or not writable.
    pub(crate) fn set_writable(&self, writable: bool) {
        if self.full.swap(!writable, Ordering::Relaxed) != writable {
            return;
        }
        if writable {
            self.drop_strays();
        } else {
            self.fill();
        }
    }

    fn fill(&self) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // It fails if messages of the program fill the buffer.
        if rustix::net::send(&self.user, &FILLER, flags).is_ok() {
            self.filled.store(true, Ordering::Relaxed);
        }
    }

    /// Drops what the program wrote to the descriptor, unless that is to be full.
    pub(crate) fn drop_strays(&self) {
        let own = self.own();
        let Some(own) = own.as_ref().filter(|_| !self.full.load(Ordering::Relaxed)) else {
            return;
        };
        let filler = u64::from(self.filled.swap(false, Ordering::Relaxed));
        let receive = |_: &usize| rustix::net::recv(own, &mut [0; 1], RecvFlags::DONTWAIT).is_ok();
        let received = (0..AT_ONCE).take_while(receive).count() as u64;
        // A socket that was shut down receives nothing each time.
        if !self.has_ended() {
            let strays = received.saturating_sub(filler);
            self.strays.fetch_add(strays, Ordering::Relaxed);
        }
    }

    /// Messages that the program wrote to the descriptor.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.read_ended.load(Ordering::Relaxed) && self.write_ended.load(Ordering::Relaxed)
    }

    /// A direction has ended: nothing comes any more, or nothing goes.
    pub(crate) fn end(&self, direction: Direction) {
        let ended = match direction {
            Direction::Read => &self.read_ended,
            Direction::Write => &self.write_ended,
        };
        if ended.swap(true, Ordering::Relaxed) {
            return;
        }
        if direction == Direction::Write && !self.full.load(Ordering::Relaxed) {
            // TCP has an edge here.
            self.fill();
            self.drop_strays();
        }
        if let Some(own) = &*self.own() {
            let _ = match direction {
                _ if self.has_ended() => rustix::net::shutdown(own, Shutdown::Both),
                Direction::Read => rustix::net::shutdown(own, Shutdown::Write),
                Direction::Write => Ok(()),
            };
        }
    }

    /// The stream has ended, in order or by a reset: ready for everything, for good.
    pub(crate) fn hang_up(&self, reset: bool) {
        if reset {
            // The socket is to be writable at once, and closed with something unread: one byte does not
            // fill it.
            if !self.has_ended() {
                self.full.store(false, Ordering::Relaxed);
                self.drop_strays();
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                let _ = rustix::net::send(&self.user, &[0], flags);
            }
            // A child may have a copy, with which closing this one brings no event.
            //= SHM-061
            if let Some(own) = self.own().take() {
                let _ = rustix::net::shutdown(&own, Shutdown::Both);
            }
        } else {
            self.set_writable(true);
            self.end(Direction::Read);
            self.end(Direction::Write);
        }
    }

    /// The program knows of the reset.
    pub(crate) fn clear_error(&self) {
        // Asking for it takes it away.
        let _ = rustix::net::sockopt::socket_error(&self.user);
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.user.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, Readiness};
    use rustix::event::{PollFd, PollFlags};

    fn ready(of: &Readiness) -> PollFlags {
        let all = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
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
                // Setting it again changes nothing.
                for _ in 0..2 {
                    readiness.set_readable(readable);
                    readiness.set_writable(writable);
                }
                let flags = ready(&readiness);
                assert_eq!(flags.contains(PollFlags::IN), readable);
                assert_eq!(flags.contains(PollFlags::OUT), writable);
            }
        }
        readiness.end(Direction::Read);
        let end = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        assert_eq!(ready(&readiness), end);
        readiness.set_readable(false);
        assert_eq!(ready(&readiness), end, "the end can be read for good");
        readiness.set_writable(false);
        readiness.hang_up(false);
        assert_eq!(ready(&readiness), end | PollFlags::HUP);
    }

    #[test]
    fn a_reset_is_an_error_whatever_came_before() {
        for (readable, writable) in [(true, true), (true, false), (false, false), (false, true)] {
            let readiness = Readiness::new().unwrap();
            readiness.set_readable(readable);
            readiness.set_writable(writable);
            readiness.hang_up(true);
            let flags = ready(&readiness);
            let end = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP | PollFlags::HUP;
            assert_eq!(flags, end | PollFlags::ERR, "{readable} {writable}");
            readiness.clear_error();
            assert_eq!(ready(&readiness), end, "{readable} {writable}");
        }
    }

    /// A child that was forked meanwhile has a copy of every descriptor.
    //= SHM-061 test
    #[test]
    fn a_reset_ends_the_wait_although_a_child_has_the_other_socket() {
        let readiness = Readiness::new().unwrap();
        let copy = readiness.own().as_ref().unwrap().try_clone().unwrap();
        readiness.set_writable(false);
        assert_eq!(ready(&readiness), PollFlags::empty());
        readiness.hang_up(true);
        // As between the two calls that end the pair.
        let end = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP | PollFlags::HUP;
        assert_eq!(ready(&readiness), end);
        drop(copy);
        assert_eq!(ready(&readiness), end | PollFlags::ERR);
    }

    /// What a program reads and writes at the descriptor itself is not of the stream.
    #[test]
    fn what_a_program_does_to_the_descriptor_is_mended() {
        let readiness = Readiness::new().unwrap();
        readiness.set_readable(true);
        let mut bytes = [0; 16];
        assert_eq!(rustix::io::read(&readiness, &mut bytes), Ok(0));
        assert_eq!(ready(&readiness), PollFlags::OUT);
        readiness.set_readable(true);
        assert_eq!(ready(&readiness), PollFlags::IN | PollFlags::OUT);
        while rustix::io::write(&readiness, b"stray").is_ok() {}
        assert_eq!(ready(&readiness), PollFlags::IN, "full of strays");
        readiness.drop_strays();
        assert_eq!(ready(&readiness), PollFlags::IN | PollFlags::OUT);
        let strays = readiness.strays();
        assert!(strays > 0);
        rustix::io::write(&readiness, b"stray").unwrap();
        readiness.set_writable(false);
        readiness.drop_strays();
        assert_eq!(ready(&readiness), PollFlags::IN, "the stream is full");
        readiness.set_writable(true);
        assert_eq!(ready(&readiness), PollFlags::IN | PollFlags::OUT);
        assert_eq!(readiness.strays(), strays + 1);
    }
}
