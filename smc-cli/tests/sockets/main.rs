//! Commands that use the sockets and devices of this machine.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod child;
mod decode_live;
mod devices;
mod links;
mod metrics;
mod net;
mod perf;
mod policy;
mod prometheus;
mod proxy;
mod run;
mod ss;
mod stats;
mod top;
mod trace;
mod why;
