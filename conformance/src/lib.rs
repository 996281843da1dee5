//! What tests and benchmarks share. Not published.

pub mod direct;

/// The example in the README compiles.
#[doc = include_str!("../../README.md")]
#[cfg(doctest)]
pub struct Readme;
