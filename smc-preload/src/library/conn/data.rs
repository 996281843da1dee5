//! Calls that read and write.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use smc_sockets::{CallFlags, SmcStream};

use super::slices::{self, AT_ONCE};
use super::{Conn, Outcome, Phase};
use crate::library::{errno, report, stats};

impl Conn {
    /// The stream for a call that reads or writes, once it is decided what carries it. A call that
    /// waits does so for the time that the socket has for calls of its kind.
    pub(super) fn for_call(
        self: &Arc<Self>,
        nonblocking: bool,
        time: Option<Timeout>,
    ) -> Outcome<&SmcStream> {
        if self.phase() == Phase::Smc {
            if self.is_inherited() {
                report::refuse(
                    "an SMC connection stays with the process that made it: a child that was \
                     forked from it cannot use it",
                );
                return Outcome::Done(Err(Errno::CONNRESET));
            }
            if let Some(stream) = self.stream.get() {
                return Outcome::Done(Ok(stream));
            }
        }
        let phase = match nonblocking {
            true if time == Some(Timeout::Send) => Ok(self.advance_to_write()),
            true => Ok(self.advance()),
            false => self.wait_for_call(time),
        };
        match phase {
            Err(error) => Outcome::Done(Err(error)),
            Ok(Phase::Pending) => Outcome::Done(Err(Errno::AGAIN)),
            Ok(Phase::Plain) => Outcome::Kernel,
            Ok(Phase::Failed) => match self.take_error() {
                0 => Outcome::Kernel,
                error => Outcome::Done(Err(Errno::from_raw_os_error(error))),
            },
            Ok(Phase::Smc | Phase::Opening) => match self.stream.get() {
                Some(stream) => Outcome::Done(Ok(stream)),
                None => Outcome::Kernel,
            },
        }
    }

    /// Reads with the flags of recv(2).
    pub(crate) fn read(
        self: &Arc<Self>,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Outcome<usize> {
        if flags & libc::MSG_OOB != 0 {
            return self.receive(flags, |stream, _, _| {
                slices::read_urgent(stream, self.state_of(stream), into, flags)
                    .map_err(io::Error::from)
            });
        }
        let peeks = flags & libc::MSG_PEEK != 0;
        self.receive(flags, |stream, call, least| match into {
            _ if into.iter().all(|slice| slice.is_empty()) => slices::read_nothing(stream, call),
            [_, _, ..] if peeks => slices::peek(stream, into, call),
            _ => slices::read(stream, into, call, least),
        })
    }

    /// Drops so many bytes of the stream, or what there is of them, as recv(2) does with
    /// `MSG_TRUNC`; with `MSG_PEEK` only counts them.
    pub(crate) fn discard(self: &Arc<Self>, len: usize, flags: i32) -> Outcome<usize> {
        self.receive(flags, |stream, call, least| match len {
            0 => slices::read_nothing(stream, call),
            _ if flags & libc::MSG_PEEK != 0 => {
                let most = stream.unread()?.unwrap_or(0).max(AT_ONCE);
                stream.read_with(&mut vec![0; len.min(most)], call)
            }
            _ => slices::discard(stream, len, call, least),
        })
    }

    /// Reads with the flags of recv(2) by `read`, which gets the stream, the flags for its calls,
    /// and how many bytes to wait for.
    fn receive(
        self: &Arc<Self>,
        flags: i32,
        read: impl FnOnce(&SmcStream, CallFlags, usize) -> io::Result<usize>,
    ) -> Outcome<usize> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let stream = match self.for_call(nonblocking, Some(Timeout::Recv)) {
            Outcome::Done(Ok(stream)) => stream,
            Outcome::Done(Err(error)) => return Outcome::Done(Err(error)),
            Outcome::Kernel => return Outcome::Kernel,
        };
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Outcome::Done(Err(Errno::AGAIN));
        }
        let mut call = CallFlags::new();
        if nonblocking {
            call = call.nonblocking();
        }
        let peeks = flags & libc::MSG_PEEK != 0;
        if peeks {
            call = call.peek();
        }
        let least = match flags & libc::MSG_WAITALL {
            _ if peeks => 1,
            0 => self.low_water.load(Ordering::Relaxed),
            _ => usize::MAX,
        };
        let is_urgent = flags & libc::MSG_OOB != 0;
        let read = match read(stream, call, least) {
            // Of a process that was killed TCP reports the end.
            Err(_) if stream.has_lost_peer() && !is_urgent => Ok(0),
            read => read,
        };
        self.after_opening();
        if let Ok(bytes) = &read
            && !peeks
            && !is_urgent
        {
            stats::received(*bytes);
        }
        Outcome::Done(read.map_err(|error| errno::of(&error)))
    }

    /// Writes with the flags of send(2).
    pub(crate) fn write(self: &Arc<Self>, bytes: &[IoSlice<'_>], flags: i32) -> Outcome<usize> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let stream = match self.for_call(nonblocking, Some(Timeout::Send)) {
            Outcome::Done(Ok(stream)) if self.phase() == Phase::Smc => stream,
            Outcome::Done(Err(error)) => return Outcome::Done(Err(error)),
            // What TCP carries goes out as it is.
            Outcome::Done(Ok(_)) | Outcome::Kernel => return Outcome::Kernel,
        };
        let written = if flags & libc::MSG_OOB != 0 {
            let bytes: Vec<u8> = bytes
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            stream.send_urgent(&bytes)
        } else if nonblocking {
            stream.write_vectored_with(bytes, CallFlags::new().nonblocking())
        } else {
            match bytes {
                [one] => (&mut &*stream).write(one),
                all => (&mut &*stream).write_vectored(all),
            }
        };
        let written = match written.map_err(|error| errno::of(&error)) {
            Err(Errno::PIPE | Errno::CONNRESET) if self.may_write_to_gone(stream) => {
                let lengths = bytes.iter().map(|slice| slice.len());
                let len = lengths.fold(0, usize::saturating_add);
                // What waits for more is not on its way yet, but goes with the next write.
                let waits = flags & libc::MSG_MORE != 0
                    && !self.holds_for_gone.swap(true, Ordering::Relaxed);
                if len > 0 && !waits {
                    self.note_reset_by_answer();
                }
                return Outcome::Done(Ok(len));
            }
            written => written,
        };
        if let Ok(bytes) = written {
            stats::sent(bytes);
        }
        if written == Err(Errno::PIPE) {
            // As TCP does, the call returns the error, if there is one.
            self.error.store(0, Ordering::Relaxed);
        }
        if written == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
            raise_pipe();
        }
        Outcome::Done(written)
    }
}

/// What writing to a connection without a reader brings.
#[allow(unsafe_code)]
pub(super) fn raise_pipe() {
    // SAFETY: raise has no precondition.
    unsafe { libc::raise(libc::SIGPIPE) };
}
