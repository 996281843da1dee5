//! Access to a PCI function: the program's stores and loads in the function's BARs, and the
//! function's reads and writes in the program's memory.
//!
//! [`PciAccess`] is implemented by [`vfio`](super::vfio), and by models of a function in tests.
//! [`Device`](super::Device) drives the ISM function over it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::IsmError;
use crate::memory::{SharedRegion, system};

/// BAR for moves: what is stored there is written to the DMB of a peer.
pub const MOVES: u8 = 0;
/// BAR for commands.
pub const COMMANDS: u8 = 2;

/// Access to one PCI function.
///
/// # Contract
/// Each store reaches the function as one block, before the call returns. Stores reach it in
/// the order of the calls.
pub trait PciAccess {
    /// Stores 1 to 4096 bytes at an offset in a BAR. They do not cross a multiple of 4096.
    ///
    /// # Errors
    /// Error of the operating system, also if the function refused the store.
    fn store(&mut self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Loads bytes from an offset in a BAR. Offset and length are multiples of 8.
    ///
    /// # Errors
    /// Error of the operating system, also if the function refused the load.
    fn load(&mut self, bar: u8, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Lets the function read and write `memory` until [`Self::unmap`]. Returns the address that
    /// the function has to use for it.
    ///
    /// # Errors
    /// Error of the operating system.
    fn map(&mut self, memory: &DeviceMemory) -> io::Result<u64>;

    /// Takes `memory` from the function, which [`Self::map`] has given the address `at`. The
    /// function no longer reads or writes it once this has returned.
    ///
    /// # Errors
    /// Error of the operating system. The function may still use the memory.
    fn unmap(&mut self, memory: &DeviceMemory, at: u64) -> io::Result<()>;
}

/// Memory for a PCI function to read and write. Consists of whole pages, which are zero at
/// first. A clone refers to the same memory.
#[derive(Clone, Debug)]
pub struct DeviceMemory(pub(super) Arc<SharedRegion>);

impl DeviceMemory {
    pub(super) fn new(len: u32) -> Result<Self, IsmError> {
        let region = SharedRegion::anonymous(len).map_err(|error| system(&error))?;
        Ok(Self(Arc::new(region)))
    }

    /// Address of the memory in this process, to map it for the function.
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

    /// Writes bytes as the function does. For models of a function in tests.
    ///
    /// # Errors
    /// [`IsmError::Bounds`] if they do not fit into the memory.
    pub fn write(&self, offset: u32, bytes: &[u8]) -> Result<(), IsmError> {
        self.0.copy_in(offset, bytes)
    }

    /// Reads bytes as the function does. For models of a function in tests.
    ///
    /// # Errors
    /// [`IsmError::Bounds`] if they reach beyond the memory.
    pub fn read(&self, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        self.0.copy_out(offset, into)
    }

    /// Sets bits of a big-endian word atomically, as the function does, and returns the word as it
    /// was before. For models of a function in tests.
    ///
    /// # Errors
    /// [`IsmError::Bounds`] if the memory has no aligned word at this offset.
    pub fn set_bits(&self, offset: u32, bits: u32) -> Result<u32, IsmError> {
        let word = self.0.word(offset)?;
        Ok(u32::from_be(word.fetch_or(bits.to_be(), Ordering::AcqRel)))
    }
}
