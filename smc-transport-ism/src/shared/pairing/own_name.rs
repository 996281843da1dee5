//! The name at which a client is called by whichever process has accepted its connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::Shutdown;

use super::kernel::Kernel;
use super::{belongs, client_name_of, mark, spare};
use crate::descriptors;
use crate::process::Process;
use crate::shared::socket::Socket;

/// Calls that the kernel keeps until they are received.
const BACKLOG: i32 = 16;
/// Calls received at a time.
const AT_ONCE: usize = 16;

/// A client's own name. Without it no process can call: a client that gives up closes it first.
#[derive(Debug)]
pub(super) struct OwnName {
    socket: OwnedFd,
    /// The one that opened it.
    process: Process,
}

impl OwnName {
    /// Listens at a name made of the cookie of `tcp`, or at a spare one where a process of
    /// another user has taken that in advance.
    ///
    /// # Errors
    /// The operating system's.
    //= SHM-076
    //= SHM-054
    pub(super) fn open(tcp: impl AsFd) -> io::Result<Self> {
        let socket = Socket::unconnected()?;
        spare::bind(&socket, &tcp, client_name_of)?;
        rustix::net::listen(&socket, BACKLOG)?;
        mark::mark_client(tcp)?;
        let process = Process::current();
        Ok(Self { socket, process })
    }

    /// Receives calls of processes that may speak for the socket at the other end of the
    /// connection: only such a process can have accepted it. Others are dropped.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn receive(
        &self,
        kernel: &Kernel,
        (near, far): (SocketAddr, SocketAddr),
    ) -> io::Result<Vec<(Socket, u32)>> {
        let mut calls = Vec::new();
        for _ in 0..AT_ONCE {
            let accept = || rustix::net::accept_with(&self.socket, Socket::FLAGS);
            match descriptors::keep(accept) {
                Ok(socket) => calls.push(socket),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let end = kernel.end(far, near)?.filter(|end| end.held);
        //= SHM-006
        let mut right = Vec::new();
        for socket in calls {
            let uid = crate::sys::peer_uid(&socket)?;
            if end.is_some_and(|end| belongs(uid, end.uid)) {
                right.push((Socket::new(socket), uid));
            }
        }
        Ok(right)
    }
}

impl AsFd for OwnName {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        // A child that was forked meanwhile has a copy of the descriptor: no process is to wait
        // at it for an answer.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        for _ in 0..=BACKLOG {
            if rustix::net::accept_with(&self.socket, Socket::FLAGS).is_err() {
                break;
            }
        }
    }
}
