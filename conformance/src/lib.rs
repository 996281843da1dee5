//! What tests and benchmarks share. Not published.

pub mod direct;
pub mod script;
