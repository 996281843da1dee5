//! A world for the SMC engine: hosts with RNICs, the wires between them, TCP,
//! and everything that can go wrong, under virtual time and a seed.
//!
//! Nothing here reads a clock, starts a thread or draws true randomness: the same
//! seed and the same calls give the same run, byte for byte. Hosts share
//! nothing; only bytes cross.
//!
//! ```
//! use smc_proto::config::Config;
//! use smc_proto::id::DeviceId;
//! use smc_proto::storage::Limits;
//! use smc_proto::time::Duration;
//! use smc_proto::wire::types::{Gid, Mac, Mtu, PeerId};
//! use smc_transport_sim::fabric::{FabricConfig, PortConfig};
//! use smc_transport_sim::sim::Simulation;
//!
//! let mut simulation = Simulation::new(FabricConfig::default(), 42);
//! let [client, server] = [("client", 1), ("server", 2)].map(|(name, number)| {
//!     let mac = Mac([2, 0, 0, 0, 0, number]);
//!     let port = PortConfig {
//!         device: DeviceId(0),
//!         port: 1,
//!         gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number]),
//!         mac,
//!         mtu: Mtu::M1024,
//!         subnet: 0,
//!     };
//!     let config = Config::new(PeerId::new(number.into(), mac));
//!     simulation.add_host(name, config, Limits::for_connections(4), &[port])
//! });
//! let (near, far) = simulation.connect(client, server);
//! simulation.write(near, b"hello");
//! simulation.run_for(Duration::from_secs(1));
//! assert_eq!(simulation.read(far), b"hello");
//! println!("{}", simulation.trace());
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod app;
/// Former place of the crate `smc-capture`.
#[deprecated(note = "use the crate smc-capture")]
pub mod capture {
    pub use smc_capture::*;
}
pub mod chaos;
pub mod clock;
pub mod completion;
pub mod describe;
pub mod fabric;
pub mod fault;
pub mod invariants;
pub mod ladder;
pub mod memory;
pub mod observe;
pub mod oracle;
pub mod random;
pub mod record;
mod renamed;
pub mod sim;
pub mod tcp;
