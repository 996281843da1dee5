//! Streams and listeners as a program sees them, over shared memory, RNICs and TCP.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod as_tcp;
mod buffers;
mod epoll_events;
mod fallback;
mod options;
mod policy;
mod policy_example;
mod signals;
mod streams;
mod urgent;
mod why;
