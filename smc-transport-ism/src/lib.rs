//! ISM (Internal Shared Memory) devices as SMC-D needs them: a trait and three
//! backends under one contract.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod device;
pub mod in_process;
mod slots;
