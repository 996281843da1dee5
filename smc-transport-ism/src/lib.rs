//! ISM (Internal Shared Memory) devices as SMC-D needs them: one trait, three
//! backends, one contract.
//!
//! ```text
//!               the engine's IsmCommand            IsmCompletion
//!                        │                              ▲
//!                        ▼                              │
//!            ┌────────────────── device::IsmDevice ──────────────────┐
//!            │ register, attach, move, signal      poll: registered, │
//!            │ one-to-one with the commands        signalled, event  │
//!            └──────┬──────────────────┬───────────────────┬─────────┘
//!                   │                  │                   │
//!              in_process            shared               pci
//!           devices of one      processes of one     the s390 function,
//!           program: plain      host: sealed memory  by VFIO: not tested
//!           data, no time,      files, doorbells,    with hardware
//!           no threads          a socket to wait at
//! ```
//!
//! An ISM device lets a peer write into memory that was registered for it, a DMB
//! (Direct Memory Buffer), and signal that it has. SMC-D is nothing but this: bytes are
//! moved behind the DMB's head, and a CDC message with the cursors to its head.
//!
//! [`device::IsmDevice`] specifies what a device does and what every backend guarantees;
//! `tests/contract` holds all three to it. [`in_process`] works wherever Rust's
//! standard library does; the others are for Linux.
//!
//! [`binding::Binding`] connects a device of any backend to an engine: it executes
//! commands, and turns reports of the device into completions.
//!
//! Code that is not safe Rust is in `memory.rs`, which copies to and from memory that a
//! peer writes, in `process.rs`, which keeps a number in a page that a fork empties, and in
//! `sys.rs`, which makes system calls. Nowhere is there a
//! reference to bytes that another process may change.
#![deny(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(not(loom))]
pub mod binding;
#[cfg(all(target_os = "linux", not(loom)))]
#[doc(hidden)]
pub mod descriptors;
pub mod device;
#[cfg(target_os = "linux")]
#[cfg_attr(loom, allow(dead_code, reason = "models use a part of it"))]
mod doorbell;
pub mod in_process;
#[cfg(all(target_os = "linux", not(loom)))]
#[allow(unsafe_code)]
mod memory;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod pci;
#[cfg(all(target_os = "linux", not(loom)))]
#[allow(unsafe_code)]
pub mod process;
#[cfg(all(target_os = "linux", not(loom)))]
mod renamed;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod shared;
#[cfg_attr(
    any(loom, not(target_os = "linux")),
    allow(dead_code, reason = "the backends for Linux use more of it")
)]
mod slots;
#[cfg(target_os = "linux")]
mod sync;
#[cfg(all(target_os = "linux", not(loom)))]
#[allow(unsafe_code)]
mod sys;
