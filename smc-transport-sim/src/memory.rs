//! The memory of one host: buffers, and what remote hosts may do with them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use smc_proto::command::{BufferKind, EYE_CATCHER, Segment};
use smc_proto::wire::types::RKey;

use crate::fabric::BufferKey;

/// Buffers of one host.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    buffers: BTreeMap<BufferKey, Buffer>,
}

/// One buffer.
#[derive(Clone, Debug, Hash)]
pub struct Buffer {
    kind: BufferKind,
    bytes: Vec<u8>,
}

/// Why bytes could not be read or written. Each is a mistake of this host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryError {
    /// There is no such buffer.
    NoBuffer,
    /// The range leaves the buffer.
    OutOfRange,
    /// The bytes do not fill the range.
    LengthDiffers,
}

impl Memory {
    /// Provides zeroed memory, replacing what the key named before.
    pub fn allocate(&mut self, key: BufferKey, kind: BufferKind, elements: u8, element_size: u32) {
        let length = usize::from(elements) * element_size as usize;
        let buffer = Buffer {
            kind,
            bytes: vec![0; length],
        };
        self.buffers.insert(key, buffer);
    }

    /// Gives memory back; false if there was none.
    pub fn free(&mut self, key: BufferKey) -> bool {
        self.buffers.remove(&key).is_some()
    }

    /// Kind and length of a buffer.
    #[must_use]
    pub fn describe(&self, key: BufferKey) -> Option<(BufferKind, u64)> {
        let buffer = self.buffers.get(&key)?;
        Some((buffer.kind, buffer.bytes.len() as u64))
    }

    /// Number of buffers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether there is no buffer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Zeroes one element, then writes the eye catcher if asked to.
    ///
    /// # Errors
    /// If there is no such buffer or the range leaves it.
    pub fn clear_element(
        &mut self,
        key: BufferKey,
        offset: u32,
        length: u32,
        eye_catcher: bool,
    ) -> Result<(), MemoryError> {
        let buffer = self.buffers.get_mut(&key).ok_or(MemoryError::NoBuffer)?;
        let element = range_mut(&mut buffer.bytes, offset.into(), length.into())?;
        element.fill(0);
        if eye_catcher {
            element
                .get_mut(..EYE_CATCHER.len())
                .ok_or(MemoryError::OutOfRange)?
                .copy_from_slice(&EYE_CATCHER);
        }
        Ok(())
    }

    /// Whether an eye catcher is at `offset`.
    #[must_use]
    pub fn has_eye_catcher(&self, key: BufferKey, offset: u32) -> bool {
        let head = self
            .buffers
            .get(&key)
            .map(|buffer| range(&buffer.bytes, offset.into(), EYE_CATCHER.len() as u64));
        matches!(head, Some(Ok(head)) if head == EYE_CATCHER)
    }

    /// Copies bytes into pieces of a buffer, in order; they must fill the pieces.
    ///
    /// # Errors
    /// If the buffer is missing, a piece leaves it, or the lengths differ; then
    /// nothing was copied.
    pub fn fill(
        &mut self,
        key: BufferKey,
        spans: [Segment; 2],
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        let buffer = self.buffers.get_mut(&key).ok_or(MemoryError::NoBuffer)?;
        for span in spans {
            range(&buffer.bytes, span.offset.into(), span.length.into())?;
        }
        let [first, second] = spans;
        if u64::from(first.length) + u64::from(second.length) != bytes.len() as u64 {
            return Err(MemoryError::LengthDiffers);
        }
        let (head, tail) = bytes.split_at(first.length as usize);
        for (span, bytes) in [(first, head), (second, tail)] {
            range_mut(&mut buffer.bytes, span.offset.into(), span.length.into())?
                .copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Appends copies of pieces of a buffer to `into`, in order. The memory itself is never
    /// borrowed: a remote host may write it at any time.
    ///
    /// # Errors
    /// If the buffer is missing or a piece leaves it; then `into` is unchanged.
    pub fn copy_out(
        &self,
        key: BufferKey,
        spans: [Segment; 2],
        into: &mut Vec<u8>,
    ) -> Result<(), MemoryError> {
        let buffer = self.buffers.get(&key).ok_or(MemoryError::NoBuffer)?;
        let [first, second] = spans;
        let first = range(&buffer.bytes, first.offset.into(), first.length.into())?;
        let second = range(&buffer.bytes, second.offset.into(), second.length.into())?;
        into.extend_from_slice(first);
        into.extend_from_slice(second);
        Ok(())
    }

    /// Places the bytes of a remote host after the checks of the region.
    fn place(&mut self, key: BufferKey, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let buffer = self.buffers.get_mut(&key).ok_or(MemoryError::NoBuffer)?;
        range_mut(&mut buffer.bytes, offset, bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Hashes all contents.
    pub fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        self.buffers.hash(hasher);
    }
}

fn range(bytes: &[u8], offset: u64, length: u64) -> Result<&[u8], MemoryError> {
    let end = offset.checked_add(length).ok_or(MemoryError::OutOfRange)?;
    if end > bytes.len() as u64 {
        return Err(MemoryError::OutOfRange);
    }
    Ok(&bytes[offset as usize..end as usize])
}

fn range_mut(bytes: &mut [u8], offset: u64, length: u64) -> Result<&mut [u8], MemoryError> {
    let end = offset.checked_add(length).ok_or(MemoryError::OutOfRange)?;
    if end > bytes.len() as u64 {
        return Err(MemoryError::OutOfRange);
    }
    Ok(&mut bytes[offset as usize..end as usize])
}

/// Registrations in one protection domain.
#[derive(Clone, Debug, Default, Hash)]
pub struct Regions {
    by_key: BTreeMap<RKey, Region>,
}

/// One registration.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Region {
    /// What is registered.
    pub buffer: BufferKey,
    /// Virtual address of its first byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Whether a remote host may write.
    pub remote_write: bool,
}

impl Regions {
    /// Adds a registration; false if the key is taken.
    pub fn add(&mut self, rkey: RKey, region: Region) -> bool {
        if self.by_key.contains_key(&rkey) {
            return false;
        }
        self.by_key.insert(rkey, region);
        true
    }

    /// Removes the registration of a buffer; false if there was none.
    pub fn remove(&mut self, buffer: BufferKey) -> bool {
        let before = self.by_key.len();
        self.by_key.retain(|_, region| region.buffer != buffer);
        self.by_key.len() != before
    }

    /// What a key stands for.
    #[must_use]
    pub fn find(&self, rkey: RKey) -> Option<&Region> {
        self.by_key.get(&rkey)
    }

    /// Whether a buffer is registered.
    #[must_use]
    pub fn holds(&self, buffer: BufferKey) -> bool {
        self.by_key.values().any(|region| region.buffer == buffer)
    }

    /// Number of registrations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Executes the WRITE of a remote host: the key must be registered here for
    /// remote writing and the bytes must stay in its range. False means a
    /// remote access error and nothing written.
    pub fn write(&self, memory: &mut Memory, rkey: RKey, address: u64, bytes: &[u8]) -> bool {
        let offset = || {
            let region = self.by_key.get(&rkey)?;
            let offset = address.checked_sub(region.address)?;
            let end = offset.checked_add(bytes.len() as u64)?;
            (region.remote_write && end <= region.length).then_some((region.buffer, offset))
        };
        offset().is_some_and(|(buffer, offset)| memory.place(buffer, offset, bytes).is_ok())
    }
}
