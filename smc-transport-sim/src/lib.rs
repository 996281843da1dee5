//! Deterministic fabric for the SMC engine.
