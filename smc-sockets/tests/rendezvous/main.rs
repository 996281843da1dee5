//! How a client and a listener agree on SMC: without waiting, among many others, with peers that do
//! not finish, and by the TCP option.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod connecting;
mod crowds;
mod network;
mod option;
mod tcp_option;
mod undecided;
