//! What the buffers of a host are made of.

use core::fmt::Debug;
use core::ops::Range;

use smc_proto::command::{EYE_CATCHER, Segment};

/// Bytes of a buffer, or what stands in their place.
pub trait Memory: Clone + Debug + Default {
    /// Memory of `length` zeros.
    fn zeros(length: usize) -> Self;

    /// Puts zeros into a range.
    fn clear(&mut self, range: Range<usize>);

    /// Puts zeros everywhere.
    fn clear_all(&mut self);

    /// Puts bytes at a position.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

/// Writes an eye catcher at the start of an element.
pub(super) fn mark(memory: &mut impl Memory, at: usize) {
    memory.put(at, &EYE_CATCHER);
}

/// No memory: what is written is lost, and nothing is read.
impl Memory for () {
    fn zeros(_: usize) -> Self {}

    fn clear(&mut self, _: Range<usize>) {}

    fn clear_all(&mut self) {}

    fn put(&mut self, _: usize, _: &[u8]) {}
}

impl Memory for Vec<u8> {
    fn zeros(length: usize) -> Self {
        vec![0; length]
    }

    fn clear(&mut self, range: Range<usize>) {
        self[range].fill(0);
    }

    fn clear_all(&mut self) {
        self.fill(0);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self[at..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Bytes in pieces of a buffer, if they are all there.
#[must_use]
pub fn gather(memory: &[u8], pieces: &[Segment]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let start = piece.offset as usize;
        bytes.extend_from_slice(memory.get(start..start + piece.length as usize)?);
    }
    Some(bytes)
}

/// Copies bytes into pieces of a buffer, as many as there is room for: how many, if these are all
/// in the buffer.
#[must_use]
pub fn scatter(memory: &mut [u8], pieces: &[Segment], bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    for piece in pieces {
        let (head, tail) = rest.split_at(rest.len().min(piece.length as usize));
        let start = piece.offset as usize;
        memory
            .get_mut(start..start + head.len())?
            .copy_from_slice(head);
        rest = tail;
    }
    Some(bytes.len() - rest.len())
}
