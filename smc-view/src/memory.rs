//! Memory files of a fixed size that processes share.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};

/// Shrinking the file below a process that reads it would kill that process.
const SEALS: SealFlags = SealFlags::GROW.union(SealFlags::SHRINK);

/// What may be done with a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading alone.
    Read,
    /// Reading and writing.
    Write,
}

/// A layout of memory that other processes write at any time.
///
/// # Safety
/// The type consists of atomic integers and arrays of them, for which every value is valid and all
/// zero bytes are a start, and its alignment is at most that of a page.
pub unsafe trait Atomics: Sync {}

/// A memory file with the layout `T`, mapped for as long as the value lives.
pub struct Memory<T: Atomics> {
    at: NonNull<T>,
    owner: u32,
}

// SAFETY: the memory consists of atomics, and stays mapped until the value is dropped.
unsafe impl<T: Atomics> Send for Memory<T> {}
// SAFETY: as above.
unsafe impl<T: Atomics> Sync for Memory<T> {}

impl<T: Atomics> Memory<T> {
    /// Creates a memory file of zero bytes, and a descriptor of it, which exec closes. Its size
    /// is sealed. An owner who is `alone` in writing keeps others from mapping it for writing,
    /// where the kernel can do that (Linux 5.1 and later).
    ///
    /// # Errors
    /// What keeps the kernel from making or mapping the file, a limit of file sizes among that.
    pub fn create(name: &str, alone: bool) -> io::Result<(OwnedFd, Self)> {
        let size = size_of::<T>() as u64;
        // The kernel would send a signal that ends the process.
        let limit = getrlimit(Resource::Fsize).current;
        if limit.is_some_and(|most| most < size) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&file, size)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        let memory = Self::map(file.as_fd(), Access::Write)?;
        if alone {
            // Older kernels do without.
            let _ = rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE);
        }
        rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL)?;
        Ok((file, memory))
    }

    /// A file of which the kernel gives memory for so many bytes alone, and a descriptor of it.
    #[cfg(test)]
    pub(crate) fn scarce(name: &str, bytes: usize) -> (OwnedFd, Self) {
        let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        let memory = Self::map(file.as_fd(), Access::Write).unwrap();
        (file, memory)
    }

    /// Opens the memory file that a path names.
    ///
    /// Another user may choose what the path leads to, and change that at any moment. A device, a
    /// FIFO or a file of any other kind is therefore not opened: the file is found and examined
    /// first, and then that file is opened, not what the path leads to by then.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is not one of this kind: a memory file with a
    /// sealed size, which is that of the layout.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        Self::open_file(path, access).map(|(_, memory)| memory)
    }

    /// Opens a memory file as [`Self::open`] does, and returns its descriptor, too.
    pub(crate) fn open_file(path: &Path, access: Access) -> io::Result<(OwnedFd, Self)> {
        let other = || io::Error::from(io::ErrorKind::InvalidData);
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
        let target = std::fs::read_link(&itself)?;
        if !target.as_os_str().as_bytes().starts_with(b"/memfd:") {
            return Err(other());
        }
        let stat = rustix::fs::fstat(&found)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || u64::try_from(stat.st_size) != Ok(size_of::<T>() as u64) {
            return Err(other());
        }
        let mode = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        let file = rustix::fs::open(&itself, mode | OFlags::CLOEXEC, Mode::empty())?;
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|_| other())?;
        // The size could change until here.
        let stat = rustix::fs::fstat(&file)?;
        if !seals.contains(SEALS) || u64::try_from(stat.st_size) != Ok(size_of::<T>() as u64) {
            return Err(other());
        }
        let memory = Self::map(file.as_fd(), access)?;
        Ok((file, memory))
    }

    fn map(file: BorrowedFd<'_>, access: Access) -> io::Result<Self> {
        let access = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let length = size_of::<T>();
        let owner = rustix::fs::fstat(file)?.st_uid;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let at =
            unsafe { rustix::mm::mmap(null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, owner })
    }

    /// Takes memory for all of the file, so that no later write to it can fail.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`]: the kernel has none.
    pub fn back(&self) -> io::Result<()> {
        back(self.at.as_ptr() as usize, size_of::<T>())
    }

    /// The user who made the file.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Leaves the memory mapped for as long as the process lives.
    #[must_use]
    pub fn leak(self) -> &'static T {
        let memory = std::mem::ManuallyDrop::new(self);
        // SAFETY: as in `deref`; nothing unmaps it any more.
        unsafe { memory.at.as_ref() }
    }
}

/// Takes memory for some bytes of a memory file that is mapped for writing, without changing them. A
/// write to a page that has no memory yet ends the process (SIGBUS) where the kernel has none to give:
/// with `vm.overcommit_memory=2` that is an ordinary state. Kernels before Linux 5.14, and filters of
/// system calls that do not know this one, cannot be asked: the bytes count as backed there.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`]: the kernel has no memory for them.
fn back(begin: usize, bytes: usize) -> io::Result<()> {
    let page = page_size();
    let (from, end) = (begin / page * page, (begin + bytes).next_multiple_of(page));
    let at = std::ptr::with_exposed_provenance_mut(from);
    // SAFETY: the kernel makes pages and changes no byte; it refuses what is not mapped.
    match unsafe { rustix::mm::madvise(at, end - from, Advice::LinuxPopulateWrite) } {
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => Ok(()),
        Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// Takes memory for a part of a memory file, as [`Memory::back`] does for all of it.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`]: the kernel has none.
pub(crate) fn back_part<R>(part: &R) -> io::Result<()> {
    back(std::ptr::from_ref(part) as usize, size_of::<R>())
}

/// Takes memory for a place among others, and for those that lie in the rest of its last page. Returns
/// the number of places that have memory then, from this one on: 0 if the kernel has none for it, or if
/// there is no such place.
pub(crate) fn back_places<R>(places: &[R], first: usize) -> usize {
    let Some(rest @ [place, ..]) = places.get(first..) else {
        return 0;
    };
    if back_part(place).is_err() {
        return 0;
    }
    let begin = std::ptr::from_ref(place) as usize;
    let end = (begin + size_of::<R>()).next_multiple_of(page_size());
    ((end - begin) / size_of::<R>()).min(rest.len())
}

/// The parts of a memory file that have pages. All others read as zeros, but a mapping that is read
/// there takes a page, which the reader is charged for, and whose lack ends it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pages {
    /// Where each part begins and ends, in their order.
    parts: Vec<(u64, u64)>,
}

impl Pages {
    /// The pages of a file at this moment. Its owner may take pages out at any later one.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        let mut parts = Vec::new();
        let mut end = 0;
        loop {
            let begin = match rustix::fs::seek(&file, SeekFrom::Data(end)) {
                Ok(begin) => begin,
                // Nothing follows.
                Err(Errno::NXIO) => return Ok(Self { parts }),
                Err(error) => return Err(error.into()),
            };
            end = rustix::fs::seek(&file, SeekFrom::Hole(begin))?;
            if end <= begin {
                return Ok(Self { parts });
            }
            parts.push((begin, end));
        }
    }

    /// Whether all that lies in a part of a layout has pages.
    pub(crate) fn have<T: Atomics, R>(&self, memory: &Memory<T>, part: &R) -> bool {
        self.have_first(memory, part, size_of::<R>())
    }

    /// Whether so many bytes from the beginning of a part of a layout have pages.
    pub(crate) fn have_first<T: Atomics, R>(
        &self,
        memory: &Memory<T>,
        part: &R,
        bytes: usize,
    ) -> bool {
        let base = memory.at.as_ptr() as usize;
        let begin = (std::ptr::from_ref(part) as usize).saturating_sub(base) as u64;
        let end = begin + bytes as u64;
        let at = self.parts.partition_point(|(_, end)| *end <= begin);
        let part = self.parts.get(at);
        part.is_some_and(|(from, to)| *from <= begin && end <= *to)
    }
}

impl<T: Atomics> Deref for Memory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped with this size until `self` is dropped, aligned to a page, sealed
        // against shrinking, and of atomics only, for which every value is valid.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Atomics> Drop for Memory<T> {
    fn drop(&mut self) {
        let at = self.at.as_ptr().cast();
        // SAFETY: mapped by `map` with this size; no reference outlives `self`. An error
        // leaves the memory mapped, which harms nothing.
        let _ = unsafe { rustix::mm::munmap(at, size_of::<T>()) };
    }
}

impl<T: Atomics> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
