//! The TCP option that says "I speak SMC", in SYN and SYN-ACK, without a kernel's SMC.
//!
//! No socket call adds a TCP option. A BPF program for socket operations can: attached
//! to a cgroup, it is called for the SYN and the SYN-ACK of the sockets of processes in
//! it. This module assembles that program, loads it and attaches it. It touches no
//! socket but those that were given to [`Marks::opt_in`].
//!
//! ```text
//!  opt_in(socket) ──► map: socket ─► asked          before connect() or listen()
//!                      │        ▲
//!  the kernel ──SYN──► program ─┘ writes the option if asked, notes the peer's
//!                      │
//!  verdict(socket) ◄── map: socket ─► asked, answered after connect() or accept()
//! ```
//!
//! A SYN-ACK has the option only if the SYN had it, and under SYN cookies, when the
//! listener forgets what the SYN said, neither side learns of it.
//!
//! Attaching needs `CAP_BPF` and `CAP_NET_ADMIN`, and Linux 5.10. Whoever holds the map
//! needs nothing: a small privileged process can attach and hand the map's descriptor
//! on, see [`TcpOption::marks`] and [`Marks::try_from`].

mod assembler;
mod cgroup;
mod error;
mod program;
mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use error::OptionError;

/// User space asked for the option.
const ASKED: u32 = 1;
/// The peer sent it.
const ANSWERED: u32 = 2;

/// The program, attached to a cgroup. Dropped, it is detached; connections that it
/// helped to open stay as they are.
#[derive(Debug)]
pub struct TcpOption {
    marks: Marks,
    /// While this is open, the program is attached.
    _link: OwnedFd,
}

/// Which sockets use the option, and what is known of their peers.
#[derive(Debug)]
pub struct Marks {
    map: sys::Map,
}

impl TcpOption {
    /// Attaches the program to this process's cgroup.
    ///
    /// # Errors
    /// [`OptionError`]: it names what is missing.
    pub fn attach() -> Result<Self, OptionError> {
        Self::attach_to(cgroup::own()?)
    }

    /// Attaches the program to a cgroup of version 2, given as its directory.
    ///
    /// # Errors
    /// [`OptionError`]: it names what is missing.
    pub fn attach_to(cgroup: impl AsFd) -> Result<Self, OptionError> {
        let step = |doing| move |error| OptionError::from_call(doing, error);
        let types = sys::load_types(&program::types()).map_err(step("loading types"))?;
        let map = sys::create_map(types.as_fd()).map_err(step("making the map"))?;
        let code = program::assemble(map.as_fd());
        let loaded = sys::load_program(&code).map_err(step("loading the program"))?;
        let link = sys::attach(loaded.as_fd(), cgroup.as_fd()).map_err(step("attaching"))?;
        Ok(Self {
            marks: Marks { map },
            _link: link,
        })
    }

    /// The sockets that it is for. The descriptor of it ([`AsFd`]) may be handed to
    /// other processes.
    #[must_use]
    pub fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl Marks {
    /// From now on this socket's SYN, or the SYN-ACKs of this listener, have the option.
    /// Call it before `connect` or `listen`: later is silently too late.
    ///
    /// # Errors
    /// Of the kernel: the descriptor is none of a socket, among others.
    pub fn opt_in(&self, socket: impl AsFd) -> io::Result<()> {
        sys::update(&self.map, socket.as_fd(), ASKED)
    }

    /// Whether the peer of this connected socket sent the option, after this side asked
    /// for it: whether both speak SMC.
    ///
    /// # Errors
    /// Of the kernel: the descriptor is none of a socket, among others.
    pub fn verdict(&self, socket: impl AsFd) -> io::Result<bool> {
        match sys::look_up(&self.map, socket.as_fd()) {
            Ok(marks) => Ok(marks & (ASKED | ANSWERED) == ASKED | ANSWERED),
            // Never asked for.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A map that another process made, and handed on.
impl TryFrom<OwnedFd> for Marks {
    type Error = io::Error;

    fn try_from(map: OwnedFd) -> io::Result<Self> {
        sys::Map::try_from(map).map(|map| Self { map })
    }
}

impl AsFd for Marks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
