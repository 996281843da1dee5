//! Memory files that a process hands to programs that it starts, which open them by a path in
//! their environment.
//!
//! ```text
//!   starts programs                             program
//!   Memory::create, inheritable, path_of ─► path in the environment ─► Memory::open_handed
//!                                                other user's, refused ─► its own descriptor of
//!                                                                         that number
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::memory::{Access, Atomics, Memory};

/// The greatest limit of descriptors that matters to the number of one that programs inherit.
const HIGH: u64 = 1 << 16;

/// The path by which other processes of this user open a descriptor of this process, as long as it
/// is open.
#[must_use]
pub fn path_of(file: impl AsFd) -> PathBuf {
    let (process, number) = (std::process::id(), file.as_fd().as_raw_fd());
    PathBuf::from(format!("/proc/{process}/fd/{number}"))
}

/// Makes a descriptor one that programs inherit, if root runs them: a program that becomes another
/// user before it executes a server, such as `setpriv`, could not open one of root's. The number is
/// above those that programs use. Without room, or by another user, returns the descriptor as it
/// was.
#[must_use]
pub fn inheritable(file: OwnedFd) -> OwnedFd {
    if !geteuid().is_root() {
        return file;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(HIGH);
    let above = i32::try_from(limit.min(HIGH) / 4 * 3).unwrap_or(0);
    let Ok(inherited) = fcntl_dupfd_cloexec(&file, above) else {
        return file;
    };
    match fcntl_setfd(&inherited, FdFlags::empty()) {
        Ok(()) => inherited,
        Err(_) => file,
    }
}

impl<T: Atomics> Memory<T> {
    /// Opens the memory file that a path of [`path_of`] names, for reading and writing. If its
    /// process is another user's, opens the descriptor of the same number, which this process has
    /// if it was [`inheritable`].
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn open_handed(path: &Path) -> io::Result<Self> {
        let opened = Self::open(path, Access::Write);
        opened.or_else(|error| match (error.kind(), path.file_name()) {
            (io::ErrorKind::PermissionDenied, Some(number)) => {
                Self::open(&Path::new("/proc/self/fd").join(number), Access::Write)
            }
            _ => Err(error),
        })
    }
}
