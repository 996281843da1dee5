//! One contract for everything that carries out RDMA commands of an engine: the
//! simulator's fabric, RNICs in software, and RNICs of a host by libibverbs.
//!
//! ```text
//!   rules ── RdmaCommand, bytes ───► Adapters ─┬─ simulator: Fabric
//!         ◄─ RdmaCompletion ────────           └─ verbs: Binding over any Rnic
//! ```
//!
//! What an engine may rely on is in `smc_proto::command` and `smc_proto::completion`.
//! Each of [`rules`] holds two hosts to a part of it, by commands as an engine gives them,
//! and knows nothing of their executor.

mod ends;
mod handles;
#[cfg(all(target_os = "linux", feature = "rdma"))]
mod host;
mod rules;
#[cfg(feature = "simulator")]
mod simulator;
#[cfg(all(target_os = "linux", feature = "software"))]
mod verbs;

use smc_proto::command::{BufferSpans, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{ConnId, DeviceId, LinkId, WrId};
use smc_proto::wire::types::{Gid, Mac};

#[cfg(all(target_os = "linux", feature = "rdma"))]
pub use host::{HostRnic, rnics};
pub use rules::rules;
#[cfg(feature = "simulator")]
pub use simulator::Simulated;
#[cfg(all(target_os = "linux", feature = "software"))]
pub use verbs::{Bindings, Made};

/// The only RNIC of each host.
pub const DEVICE: DeviceId = DeviceId(0);

/// A host, 0 or 1.
pub type Side = usize;

/// Two hosts with an RNIC each, which reach each other.
pub trait Adapters {
    /// Where a host is reached: index of its GID, the GID, and its MAC.
    fn address(&self, side: Side) -> (u16, Gid, Mac);

    /// Carries out a command of a host.
    fn execute(&mut self, side: Side, command: RdmaCommand);

    /// Carries out a [`RdmaCommand::SendLarge`], which comes with its bytes.
    fn send_large(&mut self, side: Side, link: LinkId, wr_id: WrId, bytes: &[u8]);

    /// Passes the next completion of a host to `listener`; false if there is none.
    fn poll(&mut self, side: Side, listener: &mut dyn FnMut(RdmaCompletion<'_>)) -> bool;

    /// Waits until there may be a completion; false if none will come.
    fn wait(&mut self) -> bool;

    /// Lets a moment pass in which everything on its way arrives.
    fn pause(&mut self);

    /// Copies bytes into a send buffer.
    fn fill(&mut self, side: Side, spans: &BufferSpans, bytes: &[u8]);

    /// Copies bytes out of an RMB, unless its eye catcher is damaged.
    fn take(&mut self, side: Side, conn: ConnId, spans: &BufferSpans) -> Option<Vec<u8>>;

    /// Queue pairs and buffers of a host.
    fn possessions(&self, side: Side) -> usize;

    /// Registrations are refused from now on; false if that cannot be arranged here.
    fn refuse_registrations(&mut self) -> bool {
        false
    }

    /// Returns what the hosts did that they must not, if the adapters record it.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A rule of the contract, to which two new hosts are held. It panics if they break it.
pub type Rule<A> = fn(&dyn Fn() -> A);
