//! The ISM function of an s390 machine (PCI 1014:04ED), driven from user space.
//!
//! **No such hardware has been available.** What is here follows descriptions of the
//! function, and is tested against a model of it that checks every command and every
//! store (`tests/contract/model`); where the descriptions leave something open, such as what
//! the function answers to a full event queue, the model is a guess. Take it as a
//! careful beginning, and report what a real one does.
//!
//! ```text
//!  Device ── commands: BAR 2, payload first, header last ──► function
//!     │   ── moves: BAR 0, address = token | element | signal | offset ──►  peer's DMB
//!     │
//!     ├─ summary page ◄── bits and masks ── function
//!     ├─ event queue  ◄── events ────────── function
//!     └─ DMBs         ◄── a peer's moves ── function
//! ```
//!
//! The access itself is a trait, [`PciAccess`]; [`vfio`] is the one for Linux.

mod access;
mod command;
mod function;
mod ism;
mod listing;
mod summary;
pub mod vfio;

pub use access::{COMMANDS, DeviceMemory, MOVES, PciAccess};
pub use function::Device;
pub use listing::{Listed, list};
