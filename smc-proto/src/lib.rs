//! SMC-R (RFC 7609) and SMC-D as a sans-IO engine: data in, data out.
//!
#![doc = include_str!("../README.md")]
//!
//! # The loop
//!
//! An [`Endpoint`](endpoint::Endpoint) is one SMC stack. Its embedder
//!
//! 1. reports to it what happened: [`handle_clc`](endpoint::Endpoint::handle_clc) for
//!    bytes of a TCP connection in rendezvous,
//!    [`handle_rdma`](endpoint::Endpoint::handle_rdma) for completions and
//!    received messages, [`handle_timeout`](endpoint::Endpoint::handle_timeout)
//!    for time;
//! 2. then drains what it wants done, each until it gives nothing:
//!    [`poll_clc`](endpoint::Endpoint::poll_clc),
//!    [`poll_tcp`](endpoint::Endpoint::poll_tcp),
//!    [`poll_rdma`](endpoint::Endpoint::poll_rdma) per device (before it, if the
//!    adapter posts several work requests in one go,
//!    [`poll_data`](endpoint::Endpoint::poll_data)),
//!    [`poll_event`](endpoint::Endpoint::poll_event);
//! 3. and sleeps until [`poll_timeout`](endpoint::Endpoint::poll_timeout).
//!
//! With several RNICs, each is polled for its own commands, also after it was
//! removed: [`RdmaCommand`](command::RdmaCommand) says which those are.
//! [`RdmaCompletion`](completion::RdmaCompletion) says in which order what arrived on
//! several links must be reported, on which failover depends. Which ports there are for
//! further links the engine learns from the paths of connections and from
//! [`handle_path`](endpoint::Endpoint::handle_path); it adds, replaces and deletes links
//! by itself, and reports them by [`Event::LinkUp`](event::Event::LinkUp) and
//! [`Event::LinkDown`](event::Event::LinkDown).
//!
//! Payload never passes through the engine. A writer fills
//! [`send_space`](endpoint::ConnMut::send_space) in its own memory and commits;
//! a reader copies [`readable`](endpoint::ConnMut::readable) out of it and
//! consumes; [`write`](endpoint::ConnMut::write) and
//! [`read`](endpoint::ConnMut::read) do both in one call. The engine says which
//! bytes an RNIC must write where.
//!
//! # SMC-D
//!
//! What changes for an embedder with ISM devices:
//!
//! - It offers them: [`Config::offers`](config::Config::offers), and
//!   [`IsmPath`](path::IsmPath)s in the [`Paths`](path::Paths) given to `connect` and
//!   `accept`. Whether a connection becomes SMC-R or SMC-D is the engine's choice.
//! - Each device is polled by [`poll_ism`](endpoint::Endpoint::poll_ism) where an RNIC
//!   is by `poll_rdma`. An [`IsmCommand`](command::IsmCommand) is executed before the
//!   endpoint is called again; answers, signals and events are shown to
//!   [`handle_ism`](endpoint::Endpoint::handle_ism).
//! - The send buffer may be the peer's memory itself
//!   ([`IsmPath::attaches`](path::IsmPath::attaches)). A writer fills `send_space` as
//!   ever, where `AttachDmb` mapped it, and nothing is copied after that; the space
//!   comes back when the peer has read.
//! - There are no links and no LLC: a connection is established right after the
//!   Confirm. A device that is gone is reported by
//!   [`DeviceRemoved`](path::PathEvent::DeviceRemoved), that of a peer by
//!   [`PeerVanished`](completion::IsmCompletion::PeerVanished).
//!
//! ```
//! use smc_proto::command::IsmCommand;
//! use smc_proto::completion::IsmCompletion;
//! use smc_proto::endpoint::Endpoint;
//! use smc_proto::id::DeviceId;
//! use smc_proto::storage::Storage;
//! use smc_proto::time::Instant;
//! # use smc_proto::{id::BufferId, wire::types::{DmbToken, IsmGid}};
//!
//! /// What a driver of ISM devices can do, as far as this example goes.
//! trait Driver {
//!     fn register(&mut self, dmb: BufferId, length: u32, peer: IsmGid) -> Option<DmbToken>;
//!     fn signal(&mut self, of: BufferId, head: &[u8; 32]) -> bool;
//!     /// A DMB that was signalled, and its head.
//!     fn signalled(&mut self) -> Option<(BufferId, [u8; 32])>;
//! }
//!
//! fn drive<S: Storage>(engine: &mut Endpoint<S>, now: Instant, driver: &mut impl Driver) {
//!     let device = DeviceId(0);
//!     while let Some((buffer, cdc)) = driver.signalled() {
//!         engine.handle_ism(now, IsmCompletion::Signalled { buffer, cdc });
//!     }
//!     while let Some(command) = engine.poll_ism(now, device) {
//!         let answer = match command {
//!             IsmCommand::RegisterDmb { buffer, length, peer, .. } => {
//!                 match driver.register(buffer, length, peer) {
//!                     Some(token) => IsmCompletion::DmbRegistered { buffer, token },
//!                     None => IsmCompletion::Refused { buffer },
//!                 }
//!             }
//!             IsmCommand::Signal { conn, buffer, cdc } => {
//!                 if driver.signal(buffer, &cdc) {
//!                     continue;
//!                 }
//!                 IsmCompletion::MoveFailed { conn }
//!             }
//!             // The others likewise.
//!             _ => continue,
//!         };
//!         engine.handle_ism(now, answer);
//!     }
//! }
//! ```
//!
//! # What it promises
//!
//! - **No panic is reachable from the wire.** The crate forbids `unsafe`, denies
//!   indexing, unchecked arithmetic, `unwrap` and `panic!`, and a program that
//!   uses all of it and nothing else has no panic symbol left. Derived `Debug`
//!   output, which is for tests, is not part of that.
//! - **A peer cannot break the engine.** What it does wrong becomes a Decline, an
//!   abnormal close or the end of its link group; other groups are untouched.
//!   Every list a peer can grow is bounded, and so is the work of every call
//!   ([`last_steps`](endpoint::Endpoint::last_steps)).
//! - **Every requirement is cited.** Comments like `//= CLC-014` name the
//!   requirement of RFC 7609 that a line decides, and the test that proves it.
//!
//! # Where things are
//!
//! Bytes are in [`wire`], one message per file; decisions are with the state
//! they touch: `rendezvous/` (CLC), `link_group/` (links, buffers, LLC, failover),
//! [`connection`] (cursors, window, urgent data, close); every number is in
//! [`config`]; [`endpoint`] is the only facade.
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

pub mod adapter;
pub mod command;
pub mod completion;
pub mod config;
pub mod connection;
mod connection_record;
mod core;
mod data_path;
mod devices;
pub mod endpoint;
mod engine;
pub mod event;
mod fingerprint;
pub mod id;
mod link_group;
pub mod path;
mod ports;
mod queue;
mod rand;
mod renamed;
mod rendezvous;
mod slots;
pub mod stats;
pub mod storage;
pub mod time;
#[cfg(feature = "trace")]
pub mod trace;
#[cfg(not(feature = "trace"))]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "no observer gets the events"
)]
mod trace;
pub mod version;
pub mod wire;
