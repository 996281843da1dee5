//! `smcx demo` and `smcx sim`, hosts in memory; and what the command says about itself.

#[path = "../common/mod.rs"]
mod common;

#[cfg(target_os = "linux")]
mod colours;
mod demo;
mod demo_smcd;
mod failover;
mod generate;
mod sim;
