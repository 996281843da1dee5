//! What peers send that a test plays by hand: one of version 1, one of version 2 as Linux is,
//! and one of SMC-D.

pub mod linux;
pub mod smcd;
mod v1;

pub use v1::Peer;
