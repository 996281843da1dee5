//! The TCP option by which both ends of a connection announce SMC in SYN and SYN-ACK (RFC 7609,
//! section 3.1), for sockets of a kernel that does not send the option itself.
//!
//! No socket call adds a TCP option. A BPF program of type `sock_ops` can: once it is attached to
//! a cgroup, the kernel calls it for the SYN and SYN-ACK of all sockets of processes in the
//! cgroup. This module assembles that program, loads it and attaches it. The program changes only
//! the sockets that were given to [`Marks::opt_in`].
//!
//! ```text
//!  opt_in(socket) ──► map: socket ─► asked          before connect() or listen()
//!                      │        ▲
//!  the kernel ──SYN──► program ─┘ writes the option if asked, records the peer's
//!                      │
//!  verdict(socket) ◄── map: socket ─► asked, answered after connect() or accept()
//! ```
//!
//! A SYN-ACK has the option only if the SYN had it. With SYN cookies the listener keeps nothing
//! of the SYN, so that neither end sees the other's option and the connection stays on TCP.
//!
//! Attaching needs `CAP_BPF` and `CAP_NET_ADMIN`, and Linux 5.10. Using the map needs no
//! privilege: a small privileged process can attach the program and pass the map's descriptor to
//! others, see [`TcpOption::marks`] and [`Marks::try_from`].

mod assembler;
mod cgroup;
mod error;
mod program;
mod sys;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use error::OptionError;

/// Bit of a socket's entry in the map: [`Marks::opt_in`] was called for the socket.
const ASKED: u32 = 1;
/// Bit of a socket's entry in the map: the peer sent the option.
const ANSWERED: u32 = 2;

/// The BPF program, attached to a cgroup. Dropping this detaches it; connections that are open
/// already are not affected.
#[derive(Debug)]
pub struct TcpOption {
    marks: Marks,
    /// The BPF link: closing it detaches the program.
    _link: OwnedFd,
}

/// The BPF map of the sockets that send the option, and of the options that their peers sent.
#[derive(Debug)]
pub struct Marks {
    map: sys::Map,
}

impl TcpOption {
    /// Attaches the program to this process's cgroup.
    ///
    /// # Errors
    /// [`OptionError`] names the step that failed and what is missing for it.
    pub fn attach() -> Result<Self, OptionError> {
        Self::attach_to(cgroup::own()?)
    }

    /// Attaches the program to a cgroup of version 2, given as its open directory.
    ///
    /// # Errors
    /// [`OptionError`] names the step that failed and what is missing for it.
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

    /// The map of the sockets that use the option. Its descriptor ([`AsFd`]) may be passed to
    /// other processes.
    #[must_use]
    pub fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl Marks {
    /// Adds the option to the SYN of this socket, or to the SYN-ACKs of this listener. Has to be
    /// called before `connect` or `listen`; a later call succeeds without effect.
    ///
    /// # Errors
    /// The kernel's error, among others if the descriptor is not a socket's.
    pub fn opt_in(&self, socket: impl AsFd) -> io::Result<()> {
        sys::update(&self.map, socket.as_fd(), ASKED)
    }

    /// Whether both ends of this connected socket have sent the option, that is, both announce
    /// SMC. `false` for a socket without [`Self::opt_in`].
    ///
    /// # Errors
    /// The kernel's error, among others if the descriptor is not a socket's.
    pub fn verdict(&self, socket: impl AsFd) -> io::Result<bool> {
        match sys::look_up(&self.map, socket.as_fd()) {
            Ok(marks) => Ok(marks & (ASKED | ANSWERED) == ASKED | ANSWERED),
            // No entry: `opt_in` was not called for the socket.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Takes over the descriptor of a map that another process has made.
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
