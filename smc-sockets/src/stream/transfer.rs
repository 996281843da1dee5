//! Reading and writing.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use smc_proto::time::Instant;

use super::SmcStream;
use crate::lane;
use crate::shard::{Shard, State};
use crate::socket::Socket;
use crate::waiting::{Direction, until_done, until_done_by};

/// Room for bytes to be read, which need not be initialized before it is known how many there
/// are.
#[cfg(feature = "tokio")]
pub(crate) trait Room {
    /// Bytes there is room for.
    fn len(&self) -> usize;

    /// The first so many of them, which are initialized; no more than there are.
    fn first(&mut self, len: usize) -> &mut [u8];
}

/// Bytes of a [`Room`] that are initialized in any case.
#[cfg(feature = "tokio")]
const LEAST: usize = 256;

impl SmcStream {
    /// Reads what there is, without waiting, and initializes no more of the room than it takes.
    ///
    /// # Errors
    /// Errors of reading; [`io::ErrorKind::WouldBlock`] if there is nothing yet.
    #[cfg(feature = "tokio")]
    pub(crate) fn read_available(&self, into: &mut impl Room) -> io::Result<usize> {
        let Some(shard) = self.smc()? else {
            let len = into.len();
            return self.read_tcp(into.first(len));
        };
        let (socket, room) = (self.socket(), into.len());
        if room == 0 {
            return Ok(0);
        }
        let attempt = |state: &mut State, now| {
            if !socket.backs_off() {
                state.poll_at_once(shard, socket, now);
            }
            let available = state.readable_len(socket).unwrap_or(room);
            let len = available.max(LEAST).min(room);
            let read = state.read(shard, socket, into.first(len), now);
            if len < room && matches!(read, Some(Ok(1..))) {
                socket.view.had_room(room);
            }
            read
        };
        until_done_by(shard, socket, Direction::Read, true, &mut None, attempt)
    }

    /// Reads what is next without taking it, as
    /// [`TcpStream::peek`](std::net::TcpStream::peek) does.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let socket = self.socket();
        let Some(shard) = self.smc()? else {
            self.pass_decline(into.len())?;
            return socket.tcp.peek(into);
        };
        let nonblocking = socket.is_nonblocking();
        self.read_smc(shard, &mut [IoSliceMut::new(into)], nonblocking, true)
    }

    /// Waits for something to read into the first slice, and fills the others with what else
    /// there is; or peeks at it.
    #[inline]
    pub(super) fn read_smc(
        &self,
        shard: &Arc<Shard>,
        into: &mut [IoSliceMut<'_>],
        nonblocking: bool,
        peeks: bool,
    ) -> io::Result<usize> {
        let socket = self.socket();
        if into.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        // What was to be read may be gone when the endpoint lends it.
        let mut lends = !nonblocking;
        loop {
            if !nonblocking && let Some(len) = lane::read(shard, socket, into, peeks) {
                return Ok(len);
            }
            let call = (nonblocking, lends, peeks);
            if let Some(len) = self.read_at_endpoint(shard, into, call)? {
                return Ok(len);
            }
            lends = false;
        }
    }

    /// Reads what the endpoint does not lend, or waits until there is something to be read;
    /// `None` then.
    #[inline(never)]
    fn read_at_endpoint(
        &self,
        shard: &Arc<Shard>,
        into: &mut [IoSliceMut<'_>],
        (nonblocking, lends, peeks): (bool, bool, bool),
    ) -> io::Result<Option<usize>> {
        let (socket, direction) = (self.socket(), Direction::Read);
        let attempt = |state: &mut State, now| {
            if lends && state.can_lend(socket) {
                if !socket.backs_off() {
                    state.poll_at_once(shard, socket, now);
                }
                return state.is_readable(socket, now).then_some(Ok(None));
            }
            let read = match (peeks, &mut *into) {
                (true, [first, ..]) => state.peek(shard, socket, first, now),
                _ => read_slices(state, shard, socket, into, now),
            };
            read.map(|read| read.map(Some))
        };
        until_done_by(shard, socket, direction, nonblocking, &mut None, attempt)
    }

    /// Writes everything, as a blocking send over TCP does, or what there is room for.
    #[inline]
    fn write_smc(&self, shard: &Arc<Shard>, octets: &[u8]) -> io::Result<usize> {
        if octets.is_empty() {
            return self.write_nothing(shard);
        }
        let mut since = None;
        let written = self.write_some(shard, octets, &mut since)?;
        match octets.get(written..) {
            Some(rest @ [_, ..]) => self.write_rest(written, [rest], |left| {
                // However often the peer makes a little room: the time is that of the whole.
                self.write_some(shard, left, &mut since)
            }),
            _ => Ok(written),
        }
    }

    /// Writes no byte: fails as a write would.
    pub(super) fn write_nothing(&self, shard: &Arc<Shard>) -> io::Result<usize> {
        let mut state = shard.lock_for(self.socket());
        let now = shard.coarse();
        let written = state.write(shard, self.socket(), &[], now);
        written.unwrap_or(Ok(0))
    }

    /// Writes as much as there is room for, waiting for some.
    #[inline]
    fn write_some(
        &self,
        shard: &Arc<Shard>,
        octets: &[u8],
        since: &mut Option<Instant>,
    ) -> io::Result<usize> {
        let socket = self.socket();
        let mut lends = true;
        loop {
            if let Some(len) = lane::write(shard, socket, octets) {
                return Ok(len);
            }
            let written = until_done(shard, socket, Direction::Write, since, |state, now| {
                if lends && state.can_lend(socket) {
                    return state.is_writable(socket, now).then_some(Ok(None));
                }
                let written = state.write(shard, socket, octets, now);
                written.map(|written| written.map(Some))
            })?;
            if let Some(len) = written {
                return Ok(len);
            }
            lends = false;
        }
    }

    /// Writes slices in turn, behind the `total` bytes that are written, by calls of `write`, until
    /// one fails. Its error is returned, or left to the next call if bytes were written.
    #[inline(never)]
    pub(super) fn write_rest<'a>(
        &self,
        mut total: usize,
        slices: impl IntoIterator<Item = &'a [u8]>,
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        for octets in slices {
            let mut left = octets;
            while !left.is_empty() {
                match write(left) {
                    Ok(0) => return Ok(total),
                    Ok(len) => {
                        total += len;
                        left = left.get(len..).unwrap_or_default();
                    }
                    Err(error) if total == 0 => return Err(error),
                    Err(error) => {
                        self.leave_to_next(&error);
                        return Ok(total);
                    }
                }
            }
        }
        Ok(total)
    }
}

/// Reads into the slices in turn, as far as there is something.
fn read_slices(
    state: &mut State,
    shard: &Arc<Shard>,
    socket: &Socket,
    into: &mut [IoSliceMut<'_>],
    now: Instant,
) -> Option<io::Result<usize>> {
    let mut read = 0;
    for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
        // What comes after bytes is reported when it is asked for by itself.
        if read > 0 && (!state.has_octets(socket) || socket.is_marked() && socket.is_at_mark()) {
            break;
        }
        match state.read(shard, socket, slice, now) {
            Some(Ok(len)) => {
                read += len;
                if len < slice.len() {
                    break;
                }
            }
            outcome if read == 0 => return outcome,
            _ => break,
        }
    }
    Some(Ok(read))
}

impl Read for &SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => {
                let nonblocking = self.socket().is_nonblocking();
                self.read_smc(shard, &mut [IoSliceMut::new(into)], nonblocking, false)
            }
            None => self.read_tcp(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.read_smc(shard, into, self.socket().is_nonblocking(), false),
            None => self.read_tcp_vectored(into),
        }
    }
}

impl Write for &SmcStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.write_smc(shard, octets),
            None => (&*self.socket().tcp).write(octets),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) if slices.iter().all(|slice| slice.is_empty()) => self.write_nothing(shard),
            Some(shard) => {
                let (slices, mut since) = (slices.iter().map(|slice| &**slice), None);
                self.write_rest(0, slices, |left| self.write_some(shard, left, &mut since))
            }
            None => (&*self.socket().tcp).write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(into)
    }
}

impl Write for SmcStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        (&*self).write(octets)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
