//! A connection as its stream, the driver and the endpoint share it.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_transport_ism::shared::SpinBudget;

use crate::carrier::Carrier;
use crate::readiness::Readiness;
use crate::shard::Place;
use crate::waiting::Direction;

/// A connection: its TCP connection, and what has become of it.
pub(crate) struct Socket {
    pub(crate) tcp: TcpStream,
    pub(crate) nonblocking: AtomicBool,
    /// On TCP, a Decline of the peer may still stand before the application's octets.
    pub(crate) watching: AtomicBool,
    readiness: OnceLock<Readiness>,
    status: Mutex<Status>,
}

/// What has become of a connection.
pub(crate) struct Status {
    /// Its handle at the endpoint, while that has one.
    pub(crate) conn: Option<ConnId>,
    /// Its place, until the endpoint has forgotten it.
    pub(crate) place: Option<Place>,
    /// What carries it, once that is decided.
    pub(crate) carrier: Option<Carrier>,
    /// How the SMC connection ended, once it has.
    pub(crate) closed: Option<CloseReason>,
    /// Octets that had arrived when the peer's memory went away.
    pub(crate) left: VecDeque<u8>,
    /// Behind them the stream ended in order.
    pub(crate) ended: bool,
    pub(crate) spin: SpinBudget,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) write_timeout: Option<Duration>,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream, carrier: Option<Carrier>, spin: SpinBudget) -> Self {
        Self {
            tcp,
            nonblocking: AtomicBool::new(false),
            watching: AtomicBool::new(false),
            readiness: OnceLock::new(),
            status: Mutex::new(Status {
                conn: None,
                place: None,
                carrier,
                closed: None,
                left: VecDeque::new(),
                ended: false,
                spin,
                read_timeout: None,
                write_timeout: None,
            }),
        }
    }

    /// Its status; whoever holds the endpoint's lock, too, has taken that first.
    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Notes that somebody found nothing to do in this direction. Callers hold the
    /// endpoint's lock since.
    pub(crate) fn mark(&self, direction: Direction) {
        if let Some(ready) = self.readiness.get() {
            match direction {
                Direction::Read => ready.set_readable(false),
                Direction::Write => ready.set_writable(false),
            }
        }
    }

    /// What is polled for the stream, if anybody ever asked for it.
    pub(crate) fn readiness(&self) -> Option<&Readiness> {
        self.readiness.get()
    }

    /// What is polled for the stream, made when it is first wanted. Callers hold the
    /// endpoint's lock; this is how it is at this moment.
    pub(crate) fn ready_fd(&self, readable: bool, writable: bool) -> io::Result<&Readiness> {
        if let Some(readiness) = self.readiness.get() {
            return Ok(readiness);
        }
        let new = Readiness::new()?;
        new.set_readable(readable);
        new.set_writable(writable);
        if self.status().closed.is_some() {
            new.hang_up();
        }
        Ok(self.readiness.get_or_init(|| new))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
