//! Which thread polls the device of shared memory, and when the device is parked.
//!
//! ```text
//!            parked: a peer that rings makes a system call, which wakes a thread
//!    ┌─────────────────────────────────────────────────────────────────────────┐
//!    │ the driver, at the descriptor; while threads wait, one of them, the     │
//!    │ leader, at the peers' futex words                                       │
//!    └──────▲───────────────────────────────────────────────────────┬──────────┘
//!     IDLE_TIME passed without use,                     a thread polls it
//!     or a waiter has to be woken at once                           │
//!    ┌──────┴───────────────────────────────────────────────────────▼──────────┐
//!    │ awake: a peer rings by two stores; the next thread that polls handles   │
//!    │ that, or the driver when the idle timer expires                         │
//!    └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A program that reads and writes all the time makes no system calls, and neither do its peers.
//! A ring of an idle device waits at most twice the idle time.
//!
//! While the device is awake, a thread that waits for one connection polls the head of its DMB,
//! where the peer puts the next message, and the device only now and then: doorbells are one more
//! cache line that the peer's core would have to give away.
//!
//! | module | |
//! |---|---|
//! | `drain` | hands completions to the engine and executes its commands |
//! | `spin` | polls for one connection |
//! | `park` | parks the device, or lets it stay awake until the idle timer |
//! | `urgent` | counts what has to be woken at once |
//! | `leader` | elects the thread that waits at the futex words |

mod drain;
mod leader;
mod park;
mod spin;
#[cfg(test)]
mod tests;
mod urgent;

use std::sync::Arc;

use smc_proto::time::Instant;

use super::lanes::Lanes;
#[cfg(test)]
pub(super) use drain::RECEPTIONS;
use leader::ThreadMark;
pub(super) use park::IDLE_TIME;

/// Attempts to drain a device completely while peers keep it busy.
const ATTEMPTS: usize = 16;

/// Which threads, connections and event loops poll the device or wait for it.
pub(super) struct Polling {
    /// The thread that waits at the peers' futex words.
    leader: Option<ThreadMark>,
    /// Whether the kernel cannot wait at several futex words.
    no_futex_wait: bool,
    /// Threads that sleep until something happens to their connection.
    waiting_threads: usize,
    /// Connections of which everything is to be handled as it arrives: nothing polls for them.
    urgent_connections: usize,
    /// Event loops that poll the device.
    pub(super) loops: usize,
    /// Of these, how many sleep until the device's descriptor is readable.
    pub(super) parked_loops: usize,
    /// Polls of the device by event loops; wraps.
    pub(super) polls: u64,
    /// Whether the driver's poller has the device's descriptor.
    pub(super) driver_polls: bool,
    /// When the driver polls the device, if no thread does before. None while it is parked.
    idle_timer: Option<Instant>,
    /// Whether the device was used since the idle timer was set.
    used: bool,
    /// What threads with lent data paths have to know of this.
    pub(super) lanes: Arc<Lanes>,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            leader: None,
            no_futex_wait: false,
            waiting_threads: 0,
            urgent_connections: 0,
            loops: 0,
            parked_loops: 0,
            polls: 0,
            driver_polls: true,
            idle_timer: None,
            used: false,
            lanes: Arc::default(),
        }
    }
}

impl Polling {
    /// Whether a thread, a connection or an event loop sleeps until the device wakes it.
    #[inline]
    fn is_urgent(&self) -> bool {
        self.must_park() || self.parked_loops > 0
    }

    /// Whether a thread or a connection has to be woken at once, so that the device must not stay
    /// awake unless a thread polls it.
    #[inline]
    pub(super) fn must_park(&self) -> bool {
        self.waiting_threads + self.urgent_connections > 0
    }

    /// Whether nothing depends on rings of peers: all that wait poll the heads of their DMBs.
    #[inline]
    fn only_heads_polled(&self) -> bool {
        !self.must_park() && self.loops == 0
    }

    /// Passes [`Self::only_heads_polled`] on to threads with lent data paths.
    #[inline]
    pub(super) fn update_lanes(&self) {
        self.lanes.set_heads_polled(self.only_heads_polled());
    }

    /// Whether the driver has to poll the device: something waits that no event loop polls for. The
    /// leader does not replace the driver: rings wake it, and what comes over sockets does not.
    pub(super) fn needs_driver(&self) -> bool {
        self.loops == 0 || self.urgent_connections > 0 || self.waiting_threads > 0
    }
}
