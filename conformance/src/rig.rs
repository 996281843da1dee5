//! What every rig is made of that drives an engine without a network: an RNIC and an ISM
//! device that hold the engine to its contract, and the loop that polls it.
//!
//! ```text
//!            Outputs ──► CLC, TCP, events ──► the rig's peer and judge
//!  Endpoint ────┤
//!            commands ──► Nic, Ism: check ──► done or refused ──► completion
//!                              when: the rig's schedule (at once, held, drawn, explored)
//! ```
//!
//! | rig | engines | schedule |
//! |---|---|---|
//! | [`Rig`] | one of version 2, peer by hand | at once, SENDs held if asked |
//! | [`script`](crate::script) | one of version 1, peer by hand | at once, any kind held or refused |
//! | [`scripts`](crate::scripts) | one, peer of a script | as `script` |
//! | [`smcd::hand`](crate::smcd::hand) | one of SMC-D, peer by hand | at once, control held if asked |
//! | [`replay`](crate::replay) | one, peer of a capture | at once, SENDs held if asked |
//! | [`direct`](crate::direct) | two | at once |
//! | [`twolinks`](crate::twolinks) | two | one step at a time, explored |
//! | [`handshake_machine`](crate::handshake_machine) | two | one step at a time, explored |
//! | [`fuzz`](crate::fuzz) | one or two | drawn from bytes |

mod alone;
pub mod ism;
mod kind;
pub mod memory;
pub mod nic;
mod outputs;
pub mod peer;
mod ports;

pub use alone::{Rig, gid, mac};
pub use ism::Ism;
pub use kind::Kind;
pub use memory::Memory;
pub use nic::{Nic, Numbers, QpState};
pub use outputs::{Output, Outputs, large};
pub use peer::linux;
pub use ports::{ipv4_gid, local_port};
