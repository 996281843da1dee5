//! Memory files that a process passes to the programs that it starts, by a path in their environment.
//!
//! ```text
//!   parent                                    program
//!   Memory::create, inheritable
//!   path_of: /proc/PARENT/fd/N ── exec ─────► Memory::open_handed opens that path;
//!                                             refused, as the parent is another user's:
//!                                             opens its own descriptor N, which it inherited
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::memory::{Access, Atomics, Memory};

/// Upper bound of the descriptor limit from which the number of an inherited descriptor is derived.
const MAX_LIMIT: u64 = 1 << 16;

/// The path by which other processes of this user can open a descriptor of this process, as long as
/// it is open: `/proc/PID/fd/N`.
#[must_use]
pub fn path_of(file: impl AsFd) -> PathBuf {
    let (process, number) = (std::process::id(), file.as_fd().as_raw_fd());
    PathBuf::from(format!("/proc/{process}/fd/{number}"))
}

/// Replaces a descriptor by one that programs inherit, if this process is root's. A program that
/// becomes another user before it executes a server, such as `setpriv`, could not open the path of a
/// process of root. The new number is at three quarters of the descriptor limit, above those that
/// programs use. Returns the descriptor unchanged for other users, and if there is no free number.
#[must_use]
pub fn inheritable(file: OwnedFd) -> OwnedFd {
    if !geteuid().is_root() {
        return file;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(MAX_LIMIT);
    let above = i32::try_from(limit.min(MAX_LIMIT) / 4 * 3).unwrap_or(0);
    let Ok(inherited) = fcntl_dupfd_cloexec(&file, above) else {
        return file;
    };
    match fcntl_setfd(&inherited, FdFlags::empty()) {
        Ok(()) => inherited,
        Err(_) => file,
    }
}

impl<T: Atomics> Memory<T> {
    /// Opens the memory file at a path of [`path_of`], for reading and writing. If the kernel refuses,
    /// as the other process is another user's, opens the descriptor of this process with the same
    /// number, which it has inherited if it was [`inheritable`].
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
