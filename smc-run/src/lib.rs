//! What `smcx run` and the library that it preloads agree on.
//!
//! [`variables`] names the environment variables by which `smcx run` configures the
//! library. [`statistics`] is the table in shared memory in which every process counts its
//! connections, and from which `smcx run` reports them.
#![cfg(target_os = "linux")]

pub mod statistics;
pub mod variables;
