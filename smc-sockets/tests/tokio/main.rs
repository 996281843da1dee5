//! Streams and listeners for programs on tokio, with axum and hyper.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod descriptors;
#[cfg(all(feature = "axum", feature = "hyper-util"))]
mod http;
mod streams;
