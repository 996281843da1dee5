//! Streams and listeners as a program sees them, over shared memory, RNICs and TCP.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod as_tcp;
mod buffers;
mod driver;
mod epoll_events;
mod event_loop;
mod fallback;
mod flags;
mod hostile;
mod options;
mod page_faults;
mod policy;
mod policy_example;
mod readiness;
mod rnics;
mod signals;
mod streams;
mod tcp_ends;
mod urgent;
mod why;
