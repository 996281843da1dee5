//! Attacks by unprivileged processes of another user on programs that use `smc-sockets`.
//!
//! ```text
//!   network namespace of its own (the kernel's listing of sockets shows no other test)
//!   ┌──────────────────────────────────────────────────────────────────────────┐
//!   │  victim            honest clients            attacker                    │
//!   │  uid n, cgroup     uid n + 1                 uid n + 2                   │
//!   │  echo server       connect, echo, verify     a function of `attackers`   │
//!   └──────────────────────────────────────────────────────────────────────────┘
//!   the test: starts them, lets the attack run, demands that no honest client failed,
//!   and that 1 s later the victim possesses what it possessed before
//! ```
//!
//! A [`World`] is one such namespace with its users. Processes are this crate's program
//! `smc-attack-role`, which takes the role that its first argument names. Attackers speak
//! the raw messages of `docs/shared-memory.md` through a [`Neighbour`](neighbour::Neighbour).
//!
//! Other users and network namespaces need root. Without root [`World::new`] returns
//! nothing, and the test prints that it was skipped; with `CI=true` in the environment it
//! fails instead.
#![cfg(target_os = "linux")]

pub mod attackers;
mod cgroup;
pub mod neighbour;
mod network;
mod possessions;
mod process;
pub mod roles;
mod world;

pub use network::Network;
pub use possessions::{LAG, Possessions};
pub use process::Process;
pub use roles::honest::Report;
pub use world::{Limits, World};
