//! Urgent bytes, as TCP has them: one at a time, ahead of the others for a caller that asks.

use std::io;
use std::sync::Arc;

use rustix::net::{RecvFlags, SendFlags, sockopt};

use super::SmcStream;
use crate::shard::Shard;
use crate::system;
use crate::waiting::{Direction, until_done};

impl SmcStream {
    /// Writes bytes, of which the last is urgent (`MSG_OOB`): all of them, or as many as
    /// there is room for, and then none is urgent yet. On SMC, what is written behind an
    /// urgent byte waits until the peer has read all that is before it, and the byte itself if the
    /// peer reads it in its place.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn send_urgent(&self, octets: &[u8]) -> io::Result<usize> {
        let socket = self.socket();
        match self.smc()? {
            Some(shard) => self.send_urgent_smc(shard, octets),
            None => {
                let flags = SendFlags::OOB | SendFlags::NOSIGNAL;
                Ok(rustix::net::send(&socket.tcp, octets, flags)?)
            }
        }
    }

    fn send_urgent_smc(&self, shard: &Arc<Shard>, octets: &[u8]) -> io::Result<usize> {
        let (socket, direction) = (self.socket(), Direction::Write);
        let (mut left, mut since) = (octets, None);
        while !left.is_empty() {
            let written = until_done(shard, socket, direction, &mut since, |state, now| {
                state.write_urgent(shard, socket, left, now)
            });
            match written {
                Ok(len) => left = left.get(len..).unwrap_or_default(),
                Err(error) if left.len() == octets.len() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(octets.len() - left.len())
    }

    /// The urgent byte, ahead of those before it. It never waits: when one has come,
    /// [`AsFd`](std::os::fd::AsFd) on SMC is readable, and `POLLPRI` is reported on TCP.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there is none, if it was taken already, or if it
    /// is read in its place ([`Self::set_urgent_inline`]); [`io::ErrorKind::WouldBlock`]
    /// if TCP has announced it only.
    pub fn receive_urgent(&self) -> io::Result<u8> {
        self.receive_urgent_by(false)
    }

    /// The urgent byte, which stays to be received.
    ///
    /// # Errors
    /// Errors of [`Self::receive_urgent`].
    pub fn peek_urgent(&self) -> io::Result<u8> {
        self.receive_urgent_by(true)
    }

    fn receive_urgent_by(&self, peeks: bool) -> io::Result<u8> {
        let Some(shard) = self.smc()? else {
            let mut octet = [0];
            let mut flags = RecvFlags::OOB;
            flags.set(RecvFlags::PEEK, peeks);
            return match rustix::net::recv(&self.socket().tcp, &mut octet, flags)? {
                (0, _) => Err(io::ErrorKind::InvalidInput.into()),
                _ => Ok(octet[0]),
            };
        };
        let mut state = shard.lock_for(self.socket());
        let now = shard.now();
        state.drain_completions(shard, now);
        let octet = self.socket().take_urgent(peeks);
        state.release_device(shard, now);
        octet.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Whether the next octet to be read is the one behind which the urgent mark is
    /// (`sockatmark`): a read stops there once, whatever else has come.
    ///
    /// # Errors
    /// The operating system's.
    pub fn at_mark(&self) -> io::Result<bool> {
        let Some(shard) = self.smc()? else {
            return system::is_at_mark(&self.socket().tcp);
        };
        let mut state = shard.lock_for(self.socket());
        let now = shard.now();
        state.drain_completions(shard, now);
        state.release_device(shard, now);
        Ok(self.socket().is_at_mark())
    }

    /// Whether the mark is next, as far as is known without polling the device.
    #[doc(hidden)]
    #[must_use]
    pub fn has_mark_next(&self) -> bool {
        self.socket().is_marked() && self.socket().is_at_mark()
    }

    /// Whether urgent bytes are read in their place among the others (`SO_OOBINLINE`);
    /// if not, which is so at first, reading leaves them out.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_urgent_inline(&self, inline: bool) -> io::Result<()> {
        let smc = self.smc()?;
        sockopt::set_socket_oobinline(&self.socket().tcp, inline)?;
        if let Some(shard) = smc {
            let mut state = shard.lock_for(self.socket());
            state.set_urgent_inline(shard, self.socket(), inline);
        }
        Ok(())
    }

    /// What [`Self::set_urgent_inline`] has set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn urgent_inline(&self) -> io::Result<bool> {
        Ok(sockopt::socket_oobinline(&self.socket().tcp)?)
    }
}
