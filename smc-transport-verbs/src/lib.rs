//! RoCE devices for SMC-R, over libibverbs.
//!
//! ```text
//!   Endpoint ── RdmaCommand, DataTransmit ──► binding::Binding ──► rnic::Rnic
//!            ◄─ RdmaCompletion ────────── poll ◄──────────────── its queues
//!            ◄─ PathEvent ─────────────── poll_path ◄─────────── its events
//!   application ── bytes ───► fill ──► send buffers, which the device reads
//!               ◄─ bytes ──── take ◄── RMBs, which the peer writes
//! ```
//!
//! [`binding`] makes RNICs the engine's: it owns the memory they read and write, keeps
//! receives posted, executes commands and gives completions. It is written against
//! [`rnic::Rnic`], so that it is tested without hardware.
//!
//! [`network`] asks the kernel for interfaces, addresses and routes; [`pnet`] is the
//! table of physical networks; [`paths`] decides by both through which ports and GIDs a
//! connection may go.
//!
//! Without the feature `rdma` that is all there is, and nothing needs to be installed.
//! With it, `rdma` has real devices: it needs libibverbs, and to build also librdmacm
//! and libclang 11 to 15.
//!
//! The feature `soft` is for tests: RNICs in software, which one program joins.
//!
//! Nothing here has a runtime: everything to wait for is a descriptor.
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg(target_os = "linux")]

pub mod binding;
pub mod locking;
#[allow(unsafe_code)]
pub mod memory;
pub mod network;
pub mod paths;
pub mod pnet;
pub mod ports;
#[cfg(feature = "rdma")]
pub mod rdma;
pub mod rnic;
#[cfg(any(test, feature = "soft"))]
pub mod soft;
pub mod sysfs;
