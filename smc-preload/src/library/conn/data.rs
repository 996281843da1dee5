//! Reading, writing and readiness of a connection.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use smc_sockets::{CallFlags, SmcStream};

use super::{Conn, Outcome, Phase};
use crate::library::{errno, report, stats};

/// All events of a connection that nothing comes of.
const OVER: i32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP;

impl Conn {
    /// The events of the connection, as epoll_wait(2) returns them; `None` if the kernel knows
    /// them.
    pub(crate) fn events(&self) -> Option<u32> {
        let bits = match self.phase() {
            Phase::Pending if self.is_connected_late() => EPOLLOUT,
            Phase::Pending => 0,
            Phase::Failed => OVER | EPOLLERR,
            Phase::Plain | Phase::Opening => return None,
            Phase::Smc if self.is_inherited() => OVER | EPOLLERR,
            Phase::Smc => {
                let stream = self.stream.get()?;
                let state = stream.poll_state().ok().flatten()?;
                let is_shut = self.is_shut.load(Ordering::Relaxed);
                let any = self.low_water.load(Ordering::Relaxed) <= 1 || state.read_ended;
                let readable = state.readable && (any || self.has_low_water());
                let bit = |is_set: bool, bit: i32| bit * i32::from(is_set);
                bit(readable || state.read_ended, EPOLLIN)
                    | bit(state.writable, EPOLLOUT)
                    | bit(state.urgent, EPOLLPRI)
                    | bit(state.read_ended, EPOLLRDHUP)
                    | bit(state.ended || state.read_ended && is_shut, EPOLLHUP)
                    | bit(state.error && !stream.has_lost_peer(), EPOLLERR)
            }
        };
        Some(bits.cast_unsigned())
    }

    pub(super) fn has_low_water(&self) -> bool {
        let unread = self
            .stream
            .get()
            .and_then(|stream| stream.unread().ok().flatten());
        unread.is_some_and(|unread| unread >= self.low_water.load(Ordering::Relaxed))
    }

    /// Sets how many bytes make it readable.
    pub(crate) fn set_low_water(&self, bytes: usize) {
        self.low_water.store(bytes.max(1), Ordering::Relaxed);
    }

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
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let stream = match self.for_call(nonblocking, Some(Timeout::Recv)) {
            Outcome::Done(Ok(stream)) => stream,
            Outcome::Done(Err(error)) => return Outcome::Done(Err(error)),
            Outcome::Kernel => return Outcome::Kernel,
        };
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Outcome::Done(Err(Errno::AGAIN));
        }
        if flags & libc::MSG_OOB != 0 {
            return Outcome::Done(read_urgent(stream, into));
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
        let read = match read_slices(stream, into, call, least) {
            // Of a process that was killed TCP reports the end.
            Err(_) if stream.has_lost_peer() => Ok(0),
            read => read,
        };
        self.after_opening();
        if let Ok(bytes) = &read
            && !peeks
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
            write_slices(stream, bytes)
        } else {
            match bytes {
                [one] => (&mut &*stream).write(one),
                all => (&mut &*stream).write_vectored(all),
            }
        };
        let written = match written.map_err(|error| errno::of(&error)) {
            Err(Errno::PIPE | Errno::CONNRESET) if self.is_first_to_gone(stream) => {
                return Outcome::Done(Ok(bytes.iter().map(|slice| slice.len()).sum()));
            }
            written => written,
        };
        if let Ok(bytes) = written {
            stats::sent(bytes);
        }
        if written == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
            raise_pipe();
        }
        Outcome::Done(written)
    }

    /// Whether a write is the first one behind the end of a peer that has closed, or whose process
    /// was killed: TCP takes it, and is reset by the answer.
    fn is_first_to_gone(&self, stream: &SmcStream) -> bool {
        let has_closed = || {
            let state = stream.poll_state().ok().flatten();
            state.is_some_and(|state| state.read_ended && !state.ended)
        };
        !self.is_shut.load(Ordering::Relaxed)
            && (stream.has_lost_peer() || has_closed())
            && !self.wrote_to_gone.swap(true, Ordering::Relaxed)
    }

    /// Bytes that can be read (`FIONREAD`).
    pub(crate) fn unread(&self) -> Option<usize> {
        self.smc()?.unread().ok().flatten()
    }
}

pub(super) fn read_urgent(stream: &SmcStream, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let byte = stream.receive_urgent().map_err(|error| errno::of(&error))?;
    let first = into.iter_mut().find_map(|slice| slice.first_mut());
    Ok(first.map_or(0, |first| {
        *first = byte;
        1
    }))
}

/// Reads into the slices in turn, and waits until there are so many bytes.
pub(super) fn read_slices(
    stream: &SmcStream,
    into: &mut [IoSliceMut<'_>],
    call: CallFlags,
    least: usize,
) -> io::Result<usize> {
    let mut total = 0;
    for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
        let mut filled = 0;
        while let Some(rest) = slice.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let call = match total >= least {
                true => call.nonblocking(),
                false => call,
            };
            match stream.read_with(rest, call) {
                Ok(0) => return Ok(total),
                Ok(len) => {
                    filled += len;
                    total += len;
                }
                Err(error) if total == 0 => return Err(error),
                // The next call returns it.
                Err(_) => return Ok(total),
            }
            if total >= least {
                break;
            }
        }
        if filled < slice.len() {
            break;
        }
    }
    Ok(total)
}

/// Writes as much as there is room for.
pub(super) fn write_slices(stream: &SmcStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut total = 0;
    for slice in slices {
        let mut left: &[u8] = slice;
        while !left.is_empty() {
            match stream.write_with(left, CallFlags::new().nonblocking()) {
                Ok(0) => return Ok(total),
                Ok(len) => {
                    total += len;
                    left = left.get(len..).unwrap_or_default();
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => return Ok(total),
            }
        }
    }
    Ok(total)
}

/// What writing to a connection without a reader brings.
#[allow(unsafe_code)]
pub(super) fn raise_pipe() {
    // SAFETY: raise has no precondition.
    unsafe { libc::raise(libc::SIGPIPE) };
}
