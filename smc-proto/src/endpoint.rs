//! The facade: every input, every output, and nothing that decides.

mod commands;
mod conn;
mod error;
mod events;
mod inputs;
#[cfg(feature = "smc-d")]
mod lending;
mod outputs;
#[cfg(feature = "smc-d")]
mod polling;
mod queries;
#[cfg(feature = "smc-d")]
mod smcd;
mod timeouts;

pub use conn::ConnMut;
pub use error::{AnswerError, OpenError};
#[cfg(feature = "smc-d")]
pub use lending::LentConnection;
#[cfg(feature = "smc-d")]
pub use polling::PollOutcome;
pub use queries::{LinkStatus, Readiness, Usage};

pub use crate::command::BufferSpans;
use crate::config::Config;
use crate::core::Core;
pub use crate::data_path::ReadOutcome;
use crate::data_path::{DataPath, Deferred};
use crate::engine::Engine;
#[allow(deprecated)]
#[cfg(feature = "smc-d")]
pub use crate::renamed::Looked;
#[allow(deprecated)]
pub use crate::renamed::Taken;
pub use crate::rendezvous::{ClcError, ClcProgress, ConnOptions, Next, Proposed, ProposedV2};
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::trace::Tap;

/// One SMC stack: any number of connections, link groups and RNICs.
///
/// Methods are of four kinds.
///
/// - **Inputs** (`handle_*`) report what happened in the world. They never fail
///   because of the peer, and each does a bounded amount of work.
/// - **Commands** (`connect`, `listen`, `accept`, `decline`, and everything on
///   [`ConnMut`]) are the application's.
/// - **Outputs** (`poll_*`) are drained until they give nothing, after any of
///   the above: CLC bytes, TCP commands, RDMA commands per device, events.
///   What they give is derived from state when asked: an output that is not
///   polled is not lost and does not pile up.
/// - **Queries** change nothing.
#[derive(Clone, Debug)]
pub struct Endpoint<S> {
    core: Core,
    storage: S,
}

/// What happened to a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TcpEvent {
    /// The peer sent FIN.
    PeerFin,
    /// The peer sent RST.
    PeerReset,
    /// The connection timed out or failed in another way.
    Failed,
}

impl<S: Storage> Endpoint<S> {
    /// A stack with these settings and tables.
    ///
    /// `random_seed` must be unpredictable to peers and differ between starts:
    /// alert tokens and packet sequence numbers come from it.
    pub const fn new(config: Config, random_seed: u64, storage: S) -> Self {
        Self {
            core: Core::new(config, random_seed),
            storage,
        }
    }

    /// The tables, for tests that count requests and inject failures of allocation.
    #[cfg(feature = "allocation-failures")]
    pub const fn storage(&mut self) -> &mut S {
        &mut self.storage
    }

    #[cfg(feature = "trace")]
    pub(crate) const fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    #[cfg(feature = "trace")]
    pub(crate) const fn storage_ref(&self) -> &S {
        &self.storage
    }

    fn engine(&mut self, now: Instant) -> Engine<'_> {
        let engine = Engine::new(&mut self.core, for_call(&mut self.storage));
        engine.groups.data.core.begin(now);
        engine
    }

    #[inline(always)]
    fn unchanged_engine(&mut self) -> Engine<'_> {
        Engine::new(&mut self.core, for_call(&mut self.storage))
    }

    /// The tables that the data path needs; the others are not touched
    /// once this is inlined.
    #[inline(always)]
    fn data_path(&mut self) -> DataPath<'_> {
        DataPath::new(&mut self.core, for_call(&mut self.storage))
    }

    /// The data path for a step on the fast path, which makes no events; none while an observer
    /// wants them, for which the general path is taken.
    #[inline(always)]
    fn fast_path(&mut self) -> Option<DataPath<'_>> {
        let (tables, tap) = for_call(&mut self.storage);
        if tap.is_on() {
            return None;
        }
        Some(DataPath::new(&mut self.core, (tables, Tap::OFF)))
    }

    #[cold]
    #[inline(never)]
    fn execute(&mut self, deferred: Deferred) {
        self.unchanged_engine().groups.execute(deferred);
    }
}
