//! ISM (Internal Shared Memory) devices as SMC-D needs them: a trait and three
//! backends under one contract.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod device;
#[cfg(target_os = "linux")]
mod doorbell;
pub mod in_process;
#[cfg(all(target_os = "linux", not(loom)))]
mod memory;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod pci;
#[cfg(all(target_os = "linux", not(loom)))]
pub mod shared;
mod slots;
#[cfg(target_os = "linux")]
mod sync;
#[cfg(all(target_os = "linux", not(loom)))]
mod sys;
