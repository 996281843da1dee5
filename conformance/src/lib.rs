//! What tests and benchmarks share. Not published.

pub mod campaign;
pub mod close_machine;
pub mod cursors;
pub mod direct;
pub mod exhaustion;
pub mod explore;
pub mod fuzz;
pub mod handshake_machine;
pub mod judge;
pub mod layout;
pub mod ledger;
pub mod linux_urgent;
pub mod mutants;
pub mod replay;
pub mod rig;
pub mod script;
pub mod scripts;
pub mod smcd;
pub mod twolinks;
pub mod versions;
pub mod wait_state;
pub mod world;

/// Paths of `smc-proto` for its sources that are compiled here, too (see [`cursors`]).
mod wire {
    pub(crate) mod types {
        pub(crate) use smc_proto::wire::types::Cursor;
    }
}

/// The example in the README compiles.
#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
pub struct Readme;
