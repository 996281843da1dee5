//! Reading and writing.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use smc_proto::time::Instant;

use super::SmcStream;
use crate::shard::Shard;
use crate::waiting::{Direction, until_done};

impl SmcStream {
    /// Reads what is next without taking it, as
    /// [`TcpStream::peek`](std::net::TcpStream::peek) does.
    ///
    /// # Errors
    /// As reading.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let socket = self.socket();
        let Some(shard) = self.smc()? else {
            self.pass_decline(into.len())?;
            return socket.tcp.peek(into);
        };
        if into.is_empty() {
            return Ok(0);
        }
        until_done(shard, socket, Direction::Read, &mut None, |state, now| {
            state.peek(socket, into, now)
        })
    }

    fn read_smc(&self, shard: &Arc<Shard>, into: &mut [u8]) -> io::Result<usize> {
        let socket = self.socket();
        if into.is_empty() {
            return Ok(0);
        }
        until_done(shard, socket, Direction::Read, &mut None, |state, now| {
            state.read(shard, socket, into, now)
        })
    }

    /// Waits for something to read into the first slice, and fills the others with what
    /// else there is.
    fn read_smc_vectored(
        &self,
        shard: &Arc<Shard>,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let socket = self.socket();
        if into.iter().all(|slice| slice.is_empty()) {
            return Ok(0);
        }
        until_done(shard, socket, Direction::Read, &mut None, |state, now| {
            let mut read = 0;
            for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
                // What comes after octets is told when it is asked for by itself.
                if read > 0 && !state.has_octets(socket) {
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
        })
    }

    /// Writes everything, as a blocking send over TCP does, or what there is room for.
    #[inline]
    fn write_smc(&self, shard: &Arc<Shard>, octets: &[u8]) -> io::Result<usize> {
        if octets.is_empty() {
            return Ok(0);
        }
        let mut since = None;
        let written = self.write_some(shard, octets, &mut since)?;
        match octets.get(written..) {
            Some(rest @ [_, ..]) => self.write_rest(shard, written, [rest], since),
            _ => Ok(written),
        }
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
        until_done(shard, socket, Direction::Write, since, |state, now| {
            state.write(shard, socket, octets, now)
        })
    }

    /// Writes everything behind the `total` octets that are written, as does
    /// [`Self::write_smc`]; it waits `since` then, if it has begun to.
    #[inline(never)]
    fn write_rest<'a>(
        &self,
        shard: &Arc<Shard>,
        mut total: usize,
        slices: impl IntoIterator<Item = &'a [u8]>,
        // However often the peer makes a little room: the time is that of the whole.
        mut since: Option<Instant>,
    ) -> io::Result<usize> {
        for octets in slices {
            let mut left = octets;
            while !left.is_empty() {
                match self.write_some(shard, left, &mut since) {
                    Ok(len) => {
                        total += len;
                        left = left.get(len..).unwrap_or_default();
                    }
                    Err(error) if total == 0 => return Err(error),
                    // What comes next will tell.
                    Err(_) => return Ok(total),
                }
            }
        }
        Ok(total)
    }
}

impl Read for &SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.read_smc(shard, into),
            None => self.read_tcp(into),
        }
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.read_smc_vectored(shard, into),
            None => self.read_tcp_vectored(into),
        }
    }
}

impl Write for &SmcStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.write_smc(shard, octets),
            None => (&self.socket().tcp).write(octets),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.smc()? {
            Some(shard) => self.write_rest(shard, 0, slices.iter().map(|slice| &**slice), None),
            None => (&self.socket().tcp).write_vectored(slices),
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
