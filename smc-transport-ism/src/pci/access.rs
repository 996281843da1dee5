//! How a program reaches a PCI function's registers, and how the function reaches the
//! program's memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::IsmError;
use crate::memory::{SharedRegion, system};

/// The BAR that takes moves.
pub const MOVES: u8 = 0;
/// The BAR that takes commands.
pub const COMMANDS: u8 = 2;

/// Access to one PCI function.
///
/// # Contract
/// A store reaches the function whole, as one block, before the call returns, and
/// stores reach it in the order of the calls.
pub trait PciAccess {
    /// Stores bytes, at most 4096, within one page of the BAR.
    ///
    /// # Errors
    /// The operating system's, or the function's refusal.
    fn store(&mut self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Loads bytes; both offset and length are multiples of 8.
    ///
    /// # Errors
    /// See [`Self::store`].
    fn load(&mut self, bar: u8, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Lets the function read and write `memory` from now on; where it finds it.
    ///
    /// # Errors
    /// See [`Self::store`].
    fn map(&mut self, memory: &DeviceMemory) -> io::Result<u64>;

    /// Ends what [`Self::map`] began. The function no longer touches the memory once
    /// this has returned.
    ///
    /// # Errors
    /// See [`Self::store`].
    fn unmap(&mut self, memory: &DeviceMemory, at: u64) -> io::Result<()>;
}

/// Memory that the function reads and writes by itself, whole pages of zeroes at
/// first. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct DeviceMemory(pub(super) Arc<SharedRegion>);

impl DeviceMemory {
    pub(super) fn new(len: u32) -> Result<Self, IsmError> {
        let region = SharedRegion::anonymous(len).map_err(|error| system(&error))?;
        Ok(Self(Arc::new(region)))
    }

    /// Where this process has it mapped, for the function's IOMMU.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.0.address()
    }

    /// Length in bytes; never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is a page at least")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes bytes, as a function does; for models of a function in tests.
    ///
    /// # Errors
    /// [`IsmError::Bounds`].
    pub fn write(&self, offset: u32, bytes: &[u8]) -> Result<(), IsmError> {
        self.0.copy_in(offset, bytes)
    }

    /// Reads bytes, as a function does.
    ///
    /// # Errors
    /// [`IsmError::Bounds`].
    pub fn read(&self, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        self.0.copy_out(offset, into)
    }

    /// Sets bits of a big-endian word and leaves the others, interlocked, as a
    /// function does; those that were set before.
    ///
    /// # Errors
    /// [`IsmError::Bounds`].
    pub fn set_bits(&self, offset: u32, bits: u32) -> Result<u32, IsmError> {
        let word = self.0.word(offset)?;
        Ok(u32::from_be(word.fetch_or(bits.to_be(), Ordering::AcqRel)))
    }
}
