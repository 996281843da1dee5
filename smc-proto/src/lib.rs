//! Sans-IO SMC-R protocol engine (RFC 7609).
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

#[cfg(any(test, feature = "alloc"))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod command;
pub mod completion;
pub mod config;
pub mod connection;
mod connection_record;
pub mod endpoint;
mod engine;
pub mod event;
mod fingerprint;
pub mod id;
mod link_group;
pub mod path;
mod rand;
mod rendezvous;
mod slots;
pub mod stats;
pub mod storage;
pub mod time;
pub mod wire;
