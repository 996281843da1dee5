//! Connections that were declined and whose streams were dropped, before the client's first CLC
//! message has come: TCP would answer it by a reset, which may cost the client what was written
//! to it. The driver keeps them until it has come and is dropped.
//!
//! ```text
//!   client                       driver                          application
//!     ◄──────────── Decline ───── evicted ─────────────────────► stream: TCP
//!     ◄──────────── FIN ───────── kept ◄──────────────────────── dropped
//!     ─ Proposal ──────────────►  dropped; closed
//! ```

use std::collections::{BTreeSet, HashMap};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};

use super::promises::clc_timeout;
use super::{Driver, Token};
use crate::shard::has_ended;
use crate::socket::Socket;
use crate::undecided::{Admission, Undecided};

/// All of them, by the low half of their numbers. They are bounded in number, and count by their
/// source as the undecided do.
pub(super) struct Draining {
    admitted: Undecided,
    all: HashMap<u32, Drained>,
    /// When their time is up.
    deadlines: BTreeSet<(Instant, u32)>,
}

struct Drained {
    socket: Arc<Socket>,
    number: u64,
    until: Instant,
}

impl Draining {
    pub(super) fn new(most: usize) -> Self {
        Self {
            admitted: Undecided::new(most),
            all: HashMap::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// When the next one's time is up.
    pub(super) fn next(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Closes one.
    fn close(&mut self, key: u32) {
        if let Some(drained) = self.all.remove(&key) {
            self.deadlines.remove(&(drained.until, key));
            self.admitted.remove(drained.number);
        }
    }
}

impl Driver {
    /// Takes over connections whose streams were dropped; whether any are to be drained still.
    //= SHM-064
    pub(super) fn drain_dropped(&mut self, now: Instant) -> bool {
        for socket in self.shard.take_dropped() {
            if !is_drained(&socket) {
                self.drain(socket, now);
            }
        }
        !self.draining.all.is_empty()
    }

    fn drain(&mut self, socket: Arc<Socket>, now: Instant) {
        let Ok(client) = socket.tcp.peer_addr() else {
            return;
        };
        let source = self.source(&socket.tcp, client);
        let number = loop {
            match self.draining.admitted.admit(source, now) {
                Admission::Admitted(number) => break number,
                Admission::Evict(number) => self.draining.close(number as u32),
                Admission::Wait(_) => return,
            }
        };
        // As the stream's end would have done. It fails only for what TCP has ended.
        let _ = socket.tcp.shutdown(Shutdown::Write);
        let (key, until) = (number as u32, now + clc_timeout());
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        // Without it, the connection is closed when its time is up.
        let data = Token::Draining(key).data();
        let _ = epoll::add(&self.shard.poller, &*socket, data, flags);
        let drained = Drained {
            socket,
            number,
            until,
        };
        self.draining.deadlines.insert((until, key));
        self.draining.all.insert(key, drained);
        // The next turn sets the timer for it.
        self.shard.ring();
    }

    /// Bytes have come, or the end.
    pub(super) fn on_draining_readable(&mut self, key: u32) {
        let drained = self.draining.all.get(&key);
        if drained.is_some_and(|drained| is_drained(&drained.socket)) {
            self.draining.close(key);
        }
    }

    /// Closes connections whose clients have let their time pass.
    pub(super) fn draining_due(&mut self, now: Instant) {
        while let Some((until, key)) = self.draining.deadlines.first().copied()
            && until <= now
        {
            self.draining.close(key);
        }
    }
}

/// Drops CLC messages that have come; whether no others can come.
fn is_drained(socket: &Socket) -> bool {
    let ended = has_ended(socket);
    !matches!(socket.pass_opening(ended), Ok(false))
}
