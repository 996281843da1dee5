//! Reading and writing with flags of the call.

use std::io::{self, IoSlice, IoSliceMut};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use super::SmcStream;
use crate::waiting::{Direction, until_done_by};

/// How one call reads or writes, as the flags of recv(2) and send(2) do.
///
/// # Examples
///
/// ```no_run
/// # let stream: smc_sockets::SmcStream = todo!();
/// use smc_sockets::CallFlags;
///
/// let mut next = [0; 16];
/// match stream.read_with(&mut next, CallFlags::new().nonblocking().peek()) {
///     Ok(len) => println!("{:?} comes next", &next[..len]),
///     Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => println!("nothing yet"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallFlags {
    nonblocking: bool,
    peek: bool,
}

impl CallFlags {
    /// None: the call does as [`Read`](io::Read) and [`Write`](io::Write) of the stream.
    #[must_use]
    pub const fn new() -> Self {
        let (nonblocking, peek) = (false, false);
        Self { nonblocking, peek }
    }

    /// The call does not wait, whatever the stream does (`MSG_DONTWAIT`).
    #[must_use]
    pub const fn nonblocking(self) -> Self {
        let nonblocking = true;
        Self {
            nonblocking,
            ..self
        }
    }

    /// A read leaves the bytes to the next one (`MSG_PEEK`).
    #[must_use]
    pub const fn peek(self) -> Self {
        Self { peek: true, ..self }
    }
}

impl SmcStream {
    /// Reads with these flags.
    ///
    /// # Errors
    /// Errors of reading; [`io::ErrorKind::WouldBlock`] if it would wait and may not.
    pub fn read_with(&self, into: &mut [u8], flags: CallFlags) -> io::Result<usize> {
        let socket = self.socket();
        let nonblocking = flags.nonblocking || socket.is_nonblocking();
        let Some(shard) = self.smc()? else {
            self.pass_decline_by(into.len(), nonblocking)?;
            let mut of_tcp = RecvFlags::empty();
            of_tcp.set(RecvFlags::DONTWAIT, flags.nonblocking);
            of_tcp.set(RecvFlags::PEEK, flags.peek);
            return Ok(rustix::net::recv(&socket.tcp, into, of_tcp)?.0);
        };
        self.read_smc(shard, &mut [IoSliceMut::new(into)], nonblocking, flags.peek)
    }

    /// Writes with these flags: everything, or if it does not wait as much as there is room for.
    ///
    /// # Errors
    /// Errors of writing; [`io::ErrorKind::WouldBlock`] if there is no room and it may not wait;
    /// [`io::ErrorKind::InvalidInput`] to peek.
    pub fn write_with(&self, bytes: &[u8], flags: CallFlags) -> io::Result<usize> {
        if flags.peek {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !flags.nonblocking {
            return io::Write::write(&mut &*self, bytes);
        }
        let (socket, direction) = (self.socket(), Direction::Write);
        let Some(shard) = self.smc()? else {
            let of_tcp = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            return Ok(rustix::net::send(&socket.tcp, bytes, of_tcp)?);
        };
        if bytes.is_empty() {
            return self.write_nothing(shard);
        }
        until_done_by(shard, socket, direction, true, &mut None, |state, now| {
            state.write(shard, socket, bytes, now)
        })
    }

    /// Writes several pieces in turn, as [`Self::write_with`] writes one.
    ///
    /// # Errors
    /// Errors of [`Self::write_with`]; one behind bytes that were written is left to the next call.
    pub fn write_vectored_with(
        &self,
        slices: &[IoSlice<'_>],
        flags: CallFlags,
    ) -> io::Result<usize> {
        if flags.peek {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if !flags.nonblocking {
            return io::Write::write_vectored(&mut &*self, slices);
        }
        if self.smc()?.is_none() {
            let of_tcp = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let (tcp, mut with) = (&self.socket().tcp, SendAncillaryBuffer::default());
            return Ok(rustix::net::sendmsg(tcp, slices, &mut with, of_tcp)?);
        }
        if slices.iter().all(|slice| slice.is_empty()) {
            return self.write_with(&[], flags);
        }
        let slices = slices.iter().map(|slice| &**slice);
        self.write_rest(0, slices, |left| self.write_with(left, flags))
    }

    /// Whether a signal that is handled ends a read or a write of this stream that sleeps, with
    /// [`io::ErrorKind::Interrupted`], as it does over TCP; at first, the call goes on. Where the
    /// handler was installed with `SA_RESTART`, calls without a timeout go on in any case.
    ///
    /// What std calls in loops, such as [`read_exact`](io::Read::read_exact), goes on by itself.
    pub fn set_interruptible(&self, interruptible: bool) {
        self.socket().set_interruptible(interruptible);
    }

    /// Wakes threads that sleep until they can read or write.
    #[doc(hidden)]
    pub fn wake_waits(&self) {
        self.socket().wake_handle.wake();
    }
}
