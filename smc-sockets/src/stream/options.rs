//! What can be set and asked of a stream. What TCP knows of it is kept there, whatever
//! carries the stream.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::sockopt;
use smc_view::Extra;

use super::SmcStream;
use crate::socket::Status;

impl SmcStream {
    /// Whether reading and writing return at once, with [`io::ErrorKind::WouldBlock`] if
    /// nothing can be done; [`AsFd`](std::os::fd::AsFd) shows when it can.
    ///
    /// # Errors
    /// The operating system's, on TCP.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        let socket = self.socket();
        if self.smc()?.is_none() {
            socket.tcp.set_nonblocking(nonblocking)?;
        }
        socket.nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// How long a read waits, without end if `None`; then it is
    /// [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_timeout(timeout, TcpStream::set_read_timeout, |status| {
            &mut status.read_timeout
        })
    }

    /// Sets the longest time of a write, counted from its beginning however often the peer makes a
    /// little room.
    ///
    /// # Errors
    /// Errors of [`Self::set_read_timeout`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_timeout(timeout, TcpStream::set_write_timeout, |status| {
            &mut status.write_timeout
        })
    }

    fn set_timeout(
        &self,
        timeout: Option<Duration>,
        of_tcp: impl FnOnce(&TcpStream, Option<Duration>) -> io::Result<()>,
        of_smc: impl FnOnce(&mut Status) -> &mut Option<Duration>,
    ) -> io::Result<()> {
        self.smc()?;
        of_tcp(&self.socket().tcp, timeout)?;
        // A thread of the parent may have held the lock at the fork.
        if !self.is_inherited() {
            *of_smc(&mut self.socket().status()) = timeout;
        }
        Ok(())
    }

    /// What [`Self::set_read_timeout`] has set, as the kernel rounds it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.socket().tcp.read_timeout()
    }

    /// What [`Self::set_write_timeout`] has set, as the kernel rounds it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.socket().tcp.write_timeout()
    }

    /// Whether small writes leave at once on TCP. On SMC they do in any case, but for
    /// [`Self::set_cork`], and while the device is busy with earlier ones; setting it lets
    /// go what a cork holds, as with TCP.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let smc = self.smc()?;
        self.socket().tcp.set_nodelay(nodelay)?;
        if let (true, Some(shard)) = (nodelay, smc) {
            self.socket().view.extra(Extra::NoDelay);
            shard.lock_for(self.socket()).flush(shard, self.socket());
        }
        Ok(())
    }

    /// What [`Self::set_nodelay`] has set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket().tcp.nodelay()
    }

    /// Whether small writes are held back until more follow, the meaning of `TCP_CORK`:
    /// until the cork is taken out, until there are 64 KiB to send or half of the buffer is
    /// full, or for 200 ms.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        let smc = self.smc()?;
        sockopt::set_tcp_cork(&self.socket().tcp, cork)?;
        if let Some(shard) = smc {
            if cork {
                self.socket().view.extra(Extra::Cork);
            }
            shard
                .lock_for(self.socket())
                .cork(shard, self.socket(), cork);
        }
        Ok(())
    }

    /// What [`Self::set_cork`] has set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn cork(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_cork(&self.socket().tcp)?)
    }

    /// The time to live of TCP's packets. What goes through shared memory has none.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket().tcp.set_ttl(ttl)
    }

    /// What [`Self::set_ttl`] has set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket().tcp.ttl()
    }

    /// Bytes that the peer can send ahead. On TCP it is as the kernel reports it: twice what
    /// was set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        match self.buffer_sizes()? {
            Some((receive, _)) => Ok(receive as usize),
            None => Ok(sockopt::socket_recv_buffer_size(&self.socket().tcp)?),
        }
    }

    /// Bytes that can be written ahead. Over shared memory they are those that the peer can
    /// receive. On TCP it is as the kernel reports it: twice what was set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        match self.buffer_sizes()? {
            Some((_, send)) => Ok(send as usize),
            None => Ok(sockopt::socket_send_buffer_size(&self.socket().tcp)?),
        }
    }

    fn buffer_sizes(&self) -> io::Result<Option<(u32, u32)>> {
        let (Some(shard), Some(conn)) = (self.smc()?, self.socket().conn()) else {
            return Ok(None);
        };
        let mut state = shard.lock_for(self.socket());
        Ok(state.engine.conn(conn).and_then(|conn| conn.buffer_sizes()))
    }

    /// Has the next call of a stream over SMC return an error that came behind bytes, and that was
    /// not passed on therefore. Does nothing for one that is no error of the connection.
    #[doc(hidden)]
    pub fn leave_to_next(&self, error: &io::Error) {
        let status = &mut self.socket().status();
        let is_of_connection = match (status.closed, status.error()) {
            // It was found before its event.
            (None, _) => error.kind() == io::ErrorKind::ConnectionReset,
            (Some(_), known) => known.is_some_and(|(_, kind)| kind == error.kind()),
        };
        status.error_reported &= !is_of_connection;
    }

    /// The error that the connection has come to, if it was not reported yet: it is reported once,
    /// by this or by the next that reads or writes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let Some(shard) = self.smc()? else {
            return self.socket().tcp.take_error();
        };
        let mut state = shard.lock_for(self.socket());
        state.drain_and_park(shard, shard.now());
        Ok(self.socket().take_error())
    }
}
