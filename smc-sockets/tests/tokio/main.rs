//! Streams and listeners for programs on tokio, with axum and hyper.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod connecting;
mod descriptors;
mod given_up;
#[cfg(all(feature = "axum-0_8", feature = "hyper-util-0_1"))]
mod http;
mod runtimes;
mod streams;
mod support;
mod wakeups;
