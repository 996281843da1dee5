//! Octets: everything that stands on a wire, and nothing that decides.
//!
//! Each message is one type in one file. `parse` reads it from octets, `emit`
//! writes it, and `parse(emit(m)) == m`. No message keeps the octets it came
//! from, so that emitting is encoding and never copying. `Display` gives one
//! readable line.

pub mod cdc;
pub mod types;
