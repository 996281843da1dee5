//! Several processes: forked children, other users, other environments, and limits.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod accepting;
mod clc_clients;
mod fork;
mod limits;
mod policy_files;
mod two;
