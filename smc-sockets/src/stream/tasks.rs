//! Tasks that wait for a stream that SMC carries.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::SmcStream;
use crate::shard::Shard;
use crate::tokio::SpinOutcome;
use crate::waiters::WaiterId;
use crate::waiting::{self, Direction};

/// How a task waits for a stream.
pub(crate) enum Wait<'a> {
    /// By a `poll` method: in place of the task that called one before.
    Polled,
    /// Waits as a future of its own, which has this number once it is registered.
    Future(&'a mut Option<WaiterId>),
}

impl SmcStream {
    /// The endpoint of a stream that SMC carries.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child that has inherited the stream.
    pub(crate) fn shard(&self) -> io::Result<Option<&Arc<Shard>>> {
        self.smc()
    }

    /// Says whether a runtime polls for the stream's tasks.
    pub(crate) fn set_driven(&self, driven: bool) {
        self.socket().waiters.set_driven(driven);
    }

    /// Polls for a stream in this thread, for as long as that has paid lately. If `yields`, that
    /// ends when tasks of other streams become ready. `None` if nothing was polled: an RNIC
    /// carries the stream, or polling did not pay at all.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child that has inherited the stream.
    pub(crate) fn spin(
        &self,
        direction: Direction,
        yields: bool,
    ) -> io::Result<Option<SpinOutcome>> {
        let Some(shard) = self.smc()? else {
            return Ok(Some(SpinOutcome::Ready {
                after: Duration::ZERO,
            }));
        };
        Ok(waiting::spin(shard, self.socket(), direction, yields))
    }

    /// Has the task woken when reading, or writing, would not wait any more; whether that is
    /// so already. Without an event loop that polls for it (`looped`), the driver does.
    pub(crate) fn register(
        &self,
        shard: &Arc<Shard>,
        direction: Direction,
        waker: &Waker,
        wait: Wait<'_>,
        looped: bool,
    ) -> bool {
        let socket = self.socket();
        let mut state = shard.lock_for(socket);
        let now = shard.coarse();
        if let Some(conn) = socket.conn().filter(|_| !socket.is_polled()) {
            state.set_urgent(conn, !looped);
            if !looped {
                state.drain_and_park(shard, now);
            }
        }
        let ready = match direction {
            Direction::Read => state.is_readable(socket, now),
            Direction::Write => state.is_writable(socket, now),
        };
        if ready {
            return true;
        }
        let replaced = match wait {
            Wait::Polled => socket.waiters.register(direction, waker),
            Wait::Future(id) => {
                let (new, replaced) = socket.waiters.register_future(direction, *id, waker);
                *id = Some(new);
                replaced
            }
        };
        // A waker may run code of the program when it is dropped.
        drop(state);
        drop(replaced);
        false
    }

    /// Whether a task waits in this direction.
    pub(crate) fn is_awaited(&self, direction: Direction) -> bool {
        self.socket().waiters.has_tasks(direction)
    }

    /// Removes a future that waits no more.
    pub(crate) fn forget_waiter(&self, direction: Direction, id: WaiterId) {
        self.socket().waiters.remove_future(direction, id);
    }
}
