//! Waiters that have to be woken by what happens: threads and connections that are counted, so that
//! the device is not left awake while one of them sleeps.

use std::sync::Arc;

use smc_proto::id::ConnId;

use super::super::{Shard, State};
use crate::socket::Socket;

impl State {
    /// Counts a thread that begins to wait for its connection, or stops waiting.
    pub(crate) fn count_waiting_thread(&mut self, begins: bool) {
        let threads = &mut self.polling.waiting_threads;
        *threads = if begins {
            threads.saturating_add(1)
        } else {
            threads.saturating_sub(1)
        };
        self.polling.update_lanes();
    }

    /// Sets whether the driver polls for a connection, because its event loop polls the device of
    /// another stack.
    pub(crate) fn set_driven(&mut self, shard: &Arc<Shard>, socket: &Socket, driven: bool) {
        if let Some(conn) = socket.conn().filter(|_| !socket.is_polled()) {
            self.set_urgent(conn, driven);
            if driven {
                self.drain_and_park(shard, shard.coarse());
            }
        }
    }

    /// Sets whether a connection needs the driver: what happens to it is then handled as it
    /// arrives, which keeps the device parked, and not when its stream is next used.
    pub(crate) fn set_urgent(&mut self, conn: ConnId, urgent: bool) {
        let Some(entry) = self.entry_mut(conn) else {
            return;
        };
        if std::mem::replace(&mut entry.urgent, urgent) == urgent {
            return;
        }
        let urgent_connections = &mut self.polling.urgent_connections;
        if urgent {
            *urgent_connections = urgent_connections.saturating_add(1);
            self.restore_rings();
        } else {
            *urgent_connections = urgent_connections.saturating_sub(1);
            self.polling.update_lanes();
        }
    }
}
