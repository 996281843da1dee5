//! `smcx demo` and `smcx sim`: hosts in memory.

#[path = "../common/mod.rs"]
mod common;

mod demo;
mod demo_smcd;
mod failover;
mod sim;
