//! Bytes: everything that is on a wire, and nothing that decides.
//!
//! Each message is one type in one file. `parse` reads it from bytes, `emit`
//! writes it, and `parse(emit(m)) == m`. No message keeps the bytes it came
//! from, so that emitting is encoding and never copying. `Display` gives one
//! readable line.

use core::fmt;

mod address;
pub mod cdc;
pub mod cdc_ism;
pub mod clc;
pub mod ism_event;
mod list;
pub mod llc;
pub mod tcp_option;
pub mod types;

#[cfg(test)]
mod testing;

/// A message does not fit the bytes it was to be written to. Nothing was
/// written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferTooSmall {
    /// Bytes the message takes.
    pub needed: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message takes {} bytes", self.needed)
    }
}

impl core::error::Error for BufferTooSmall {}

/// Lets `write` fill the first `needed` bytes of `buffer`, if there are as many.
fn emit_exactly<'a, T>(
    needed: usize,
    buffer: &'a mut [u8],
    write: impl FnOnce(&'a mut [u8]) -> Option<T>,
) -> Result<usize, BufferTooSmall> {
    match buffer.get_mut(..needed).and_then(write) {
        Some(_) => Ok(needed),
        None => Err(BufferTooSmall { needed }),
    }
}
