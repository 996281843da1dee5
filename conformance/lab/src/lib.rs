//! A laboratory with real kernels: two virtual machines joined by a wire, each with
//! Linux, AF_SMC and a soft-RoCE device, and scenarios carried out between them.
//!
//! ```text
//!  smc-lab (this machine)                        one process, no root
//!    │ packages ─► images ─► two QEMUs, TCG      unpacked, nothing is installed
//!    │
//!    ├──orders──► guest a: smc-lab-guest as init ─┐ AF_SMC, TCP or our programs
//!    │                                            │◄─ eth0: frames, all captured
//!    ├──orders──► guest b: smc-lab-guest as init ─┘
//!    │
//!    └─ judges: bytes, the kernel's own view, its log, the captures; writes the table
//! ```
//!
//! [`scenarios`] are data: what either end does, step by step, and what is expected to
//! carry it. [`conversation`] carries steps out over anything that is a
//! [`conversation::Conversation`]. [`netlink`] is how kernels are configured and asked.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod conversation;
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

pub mod netlink;
pub mod orders;
pub mod pattern;
pub mod scenarios;
