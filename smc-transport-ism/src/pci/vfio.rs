//! A PCI function by VFIO: the kernel's way to give a program a device, kept apart by
//! the IOMMU.
//!
//! For ISM it takes a kernel whose `vfio-pci` knows the function: there one `pwrite`
//! to a BAR is one block store. **Not tested with hardware**, see [`super`].

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::access::{DeviceMemory, PciAccess};
use crate::sys::{self, Region};

/// BARs whose place in the device's file is kept.
const BARS: usize = 6;

/// A PCI function opened by VFIO.
#[derive(Debug)]
pub struct Vfio {
    device: File,
    _group: File,
    container: File,
    bars: [Region; BARS],
    addresses: Range<u64>,
    free: Vec<(u64, u64)>,
}

impl Vfio {
    /// Opens the function `name` (such as `0001:00:00.0`) of the group at `group`
    /// (such as `/dev/vfio/7`), both bound to `vfio-pci`. The function sees memory at
    /// addresses within `addresses`, which the IOMMU must allow.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::NotFound`] if the group lacks a device,
    /// [`io::ErrorKind::Unsupported`] without an IOMMU of type 1.
    pub fn open(group: &Path, name: &str, addresses: Range<u64>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
        let container = open(Path::new("/dev/vfio/vfio"))?;
        let group = open(group)?;
        let device = File::from(sys::vfio_device(container.as_fd(), group.as_fd(), name)?);
        let mut bars = [Region::default(); BARS];
        for (index, bar) in (0u32..).zip(&mut bars) {
            *bar = sys::vfio_region(device.as_fd(), index)?;
        }
        Ok(Self {
            device,
            _group: group,
            container,
            bars,
            addresses,
            free: Vec::new(),
        })
    }

    /// Has the function's interrupt `index` readable at an `eventfd` from now on.
    ///
    /// # Errors
    /// The operating system's.
    pub fn interrupt(&mut self, index: u32, eventfd: impl AsFd) -> io::Result<()> {
        sys::vfio_interrupt(self.device.as_fd(), index, eventfd.as_fd())
    }

    /// Offset of an access of `len` bytes in the device's file.
    fn place(&self, bar: u8, offset: u64, len: usize) -> io::Result<u64> {
        let outside = || io::Error::from(io::ErrorKind::InvalidInput);
        let region = self.bars.get(usize::from(bar)).ok_or_else(outside)?;
        let end = offset.checked_add(len as u64).ok_or_else(outside)?;
        if end > region.size {
            return Err(outside());
        }
        region.offset.checked_add(offset).ok_or_else(outside)
    }
}

impl PciAccess for Vfio {
    fn store(&mut self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.place(bar, offset, bytes.len())?;
        // Whole or not at all: a block in two parts would be two commands.
        match self.device.write_at(bytes, place)? {
            len if len == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn load(&mut self, bar: u8, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let place = self.place(bar, offset, into.len())?;
        for (at, unit) in (0u64..).zip(into.chunks_mut(8)) {
            self.device.read_exact_at(unit, place + at * 8)?;
        }
        Ok(())
    }

    fn map(&mut self, memory: &DeviceMemory) -> io::Result<u64> {
        let len = memory.len() as u64;
        // What was unmapped is used again, if it has this very length: there are few.
        let at = match self.free.iter().position(|(_, free)| *free == len) {
            Some(index) => self.free.swap_remove(index).0,
            None => {
                let at = self.addresses.start;
                let end = at.checked_add(len).filter(|end| *end <= self.addresses.end);
                self.addresses.start = end.ok_or(io::ErrorKind::OutOfMemory)?;
                at
            }
        };
        let mapped = sys::vfio_map(self.container.as_fd(), memory, at);
        if mapped.is_err() {
            self.free.push((at, len));
        }
        mapped.map(|()| at)
    }

    fn unmap(&mut self, memory: &DeviceMemory, at: u64) -> io::Result<()> {
        sys::vfio_unmap(self.container.as_fd(), at, memory.len() as u64)?;
        self.free.push((at, memory.len() as u64));
        Ok(())
    }
}
