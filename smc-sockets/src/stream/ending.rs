//! How a connection ends when its last handle is dropped.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Held, SmcStream};
use crate::accepting;
use crate::opening::Opening;
use crate::process;
use crate::shard::Shard;
use crate::waiting::until_holds;

/// How long the drop of a stream waits for the first message of a client that was declined, in a
/// process that has no driver to do so.
const UNDRIVEN: Duration = Duration::from_secs(1);

impl SmcStream {
    /// What dropping the last handle does, with the meaning of `SO_LINGER`: `None` ends
    /// the connection in the background; zero resets it, and what the peer has not got is
    /// lost; other times wait so long at most until the peer has everything, whether its
    /// program has read it or not. Whole seconds count.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        match self.smc()? {
            // TCP itself must not linger: the last owner of the socket closes it.
            Some(_) => self.socket().status().linger = linger.map(whole_seconds),
            None => rustix::net::sockopt::set_socket_linger(&self.socket().tcp, linger)?,
        }
        Ok(())
    }

    /// What [`Self::set_linger`] has set.
    ///
    /// # Errors
    /// The operating system's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        match self.smc()? {
            Some(_) => Ok(self.socket().status().linger),
            None => Ok(rustix::net::sockopt::socket_linger(&self.socket().tcp)?),
        }
    }
}

/// Rounds a time as the kernel keeps it: a time that is not zero does not become zero.
fn whole_seconds(time: Duration) -> Duration {
    let more = u64::from(time.subsec_nanos() > 0);
    Duration::from_secs(time.as_secs().saturating_add(more))
}

impl Held {
    /// Waits until the peer has everything.
    fn linger(&self, shard: &Arc<Shard>, time: Duration) {
        let until = Instant::now().checked_add(time);
        until_holds(until, || {
            let mut state = shard.lock_for(&self.socket);
            !state.has_undelivered(shard, &self.socket)
        });
    }

    /// Drops the Proposal of a client that was declined, in a process without a driver: TCP would
    /// answer it by a reset, which may cost the client what was written to it. Waits for it, unless
    /// the stream is not to wait.
    //= SHM-064
    fn drop_proposal(&self) {
        let tcp = &self.socket.tcp;
        // With SO_LINGER, closing it waits, or resets it.
        let lingers = !matches!(rustix::net::sockopt::socket_linger(tcp), Ok(None));
        if self.socket.opening.state() != Opening::Promised || lingers {
            return;
        }
        // As the stream's end does. It fails only for what TCP has ended.
        let _ = tcp.shutdown(Shutdown::Write);
        let timeout = match rustix::fs::fcntl_getfl(tcp) {
            Ok(flags) if !flags.contains(rustix::fs::OFlags::NONBLOCK) => UNDRIVEN,
            _ => Duration::ZERO,
        };
        let _ = accepting::drop_proposal(tcp.as_fd(), timeout);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The parent's connection goes on.
            return;
        }
        self.socket.waiters.clear();
        let Ok(Some(shard)) = self.smc() else {
            // A child that may have the stream reads from it by itself.
            let is_alone = self.forks == process::forks();
            match &self.stack {
                Some(stack) => {
                    let shard = stack.shard();
                    // A Decline that may still come is of no use any more.
                    if self.socket.is_watching() {
                        shard.lock_for(&self.socket).end_watch(shard, &self.socket);
                    }
                    if is_alone {
                        shard.drain(&self.socket);
                    }
                }
                None if is_alone => self.drop_proposal(),
                None => {}
            }
            return;
        };
        let linger = self.socket.status().linger;
        if linger == Some(Duration::ZERO) {
            return shard.lock_for(&self.socket).abort(shard, &self.socket);
        }
        shard.lock_for(&self.socket).close(shard, &self.socket);
        // A caller that never waits does not wait here either.
        if let Some(time) = linger.filter(|_| !self.socket.is_nonblocking()) {
            self.linger(shard, time);
        }
    }
}
