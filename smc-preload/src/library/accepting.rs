//! Accepting: which connections of a listener SMC carries.

use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use smc_sockets::SmcListener;

use super::conn::{Conn, borrowed, lock, poll_one, replace, set_mode};
use super::table::{self, Object};
use super::{config, connecting, errno, report, set};

/// A listener whose connections may be SMC.
///
/// The program's descriptor is one that is readable while there is something to accept; the
/// listening socket has another number.
pub(crate) struct Listener {
    smc: SmcListener,
    tcp: OwnedFd,
    nonblocking: AtomicBool,
    fds: Mutex<Vec<i32>>,
    pid: i32,
}

/// A socket has begun to listen.
pub(crate) fn listens(fd: i32) {
    if config::is_inside() || !config::is_active() || table::has(fd) || !connecting::is_tcp(fd) {
        return;
    }
    let Some(stack) = config::stack() else {
        return;
    };
    let made = config::inside(|| {
        let nonblocking = is_nonblocking(fd);
        let tcp = set::high(rustix::io::dup(borrowed(fd)).ok()?);
        let own = rustix::io::fcntl_dupfd_cloexec(&tcp, report::HIGH).ok()?;
        let smc = SmcListener::on(stack, TcpListener::from(own)).ok()?;
        replace(fd, smc.as_fd().as_raw_fd());
        Some(Listener {
            smc,
            tcp,
            nonblocking: AtomicBool::new(nonblocking),
            fds: Mutex::new(vec![fd]),
            pid: config::pid(),
        })
    });
    if let Some(listener) = made {
        table::put(fd, Object::Listener(Arc::new(listener)));
    }
}

fn is_nonblocking(fd: i32) -> bool {
    let flags = rustix::fs::fcntl_getfl(borrowed(fd));
    flags.is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
}

impl Listener {
    /// The listening socket.
    pub(crate) fn tcp(&self) -> i32 {
        self.tcp.as_raw_fd()
    }

    /// Whether accept(2) returns at once.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets whether accept(2) returns at once.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Gives it a further descriptor.
    pub(crate) fn add_fd(self: &Arc<Self>, fd: i32) {
        lock(&self.fds).push(fd);
        table::put(fd, Object::Listener(self.clone()));
    }

    /// One of its descriptors is closed.
    pub(crate) fn remove_fd(&self, fd: i32) {
        lock(&self.fds).retain(|of| *of != fd);
    }

    /// Accepts a connection: its descriptor.
    pub(crate) fn accept(&self, flags: i32) -> Result<i32, Errno> {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno::INVAL);
        }
        if self.pid != config::pid() {
            return Err(Errno::INVAL);
        }
        let _ = self.smc.set_nonblocking(true);
        let (stream, _) = loop {
            match config::inside(|| self.smc.accept()) {
                Ok(accepted) => break accepted,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if self.is_nonblocking() {
                        return Err(Errno::AGAIN);
                    }
                    poll_one(self.smc.as_raw_fd(), None)?;
                }
                Err(error) => return Err(errno::of(&error)),
            }
        };
        let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
        let tcp = stream.tcp();
        let fd = match flags & libc::SOCK_CLOEXEC {
            0 => rustix::io::dup(tcp)?,
            _ => rustix::io::fcntl_dupfd_cloexec(tcp, 0)?,
        };
        let fd = fd.into_raw_fd();
        set_mode(fd, nonblocking);
        let conn = Conn::accepted(stream, fd, nonblocking);
        if conn.is_served() {
            table::put(fd, Object::Conn(conn));
        }
        Ok(fd)
    }
}
