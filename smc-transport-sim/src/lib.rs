//! A world for the SMC engine: hosts with RNICs, the wires between them, TCP,
//! and everything that can go wrong, under virtual time and a seed.
//!
//! Nothing here reads a clock, starts a thread or draws true randomness: the same
//! seed and the same calls give the same run, octet for octet. Hosts share
//! nothing; only octets cross.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod app;
pub mod capture;
pub mod clock;
pub mod completion;
pub mod describe;
pub mod fabric;
pub mod fault;
pub mod ladder;
pub mod memory;
pub mod observe;
pub mod random;
pub mod record;
pub mod sim;
pub mod tcp;
