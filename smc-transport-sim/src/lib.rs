//! Deterministic fabric for the SMC engine.

pub mod capture;
