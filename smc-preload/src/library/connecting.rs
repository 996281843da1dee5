//! Connecting: asks whether the other end uses SMC, while TCP connects.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};
use smc_sockets::{SmcStream, descriptors};

use super::conn::{Conn, Phase, borrowed, set_mode};
use super::set::Set;
use super::table::{self, Registration};
use super::{config, defaults, errno, hidden, own_listeners, real, stats};

/// What connect(2) does.
pub(crate) enum Connects {
    /// The library has done the call, and it returns this.
    Done(Result<(), Errno>),
    /// The kernel connects, or returns how that went.
    Kernel,
}

/// Why a connection is TCP that found no room for what it needs.
pub(crate) const NO_ROOM: &str = "no descriptor is left for SMC";

/// Whether a descriptor is a TCP socket.
pub(crate) fn is_tcp(fd: i32) -> bool {
    let fd = borrowed(fd);
    sockopt::socket_type(fd) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(fd) == Ok(Some(rustix::net::ipproto::TCP))
}

/// Whether a descriptor is a TCP socket that neither connects nor listens.
#[allow(unsafe_code)]
fn is_unconnected(fd: i32) -> bool {
    const CLOSED: u8 = 7;
    let (mut state, mut len) = (0_u8, 1);
    // SAFETY: the kernel writes the first byte of TCP's state, as there is room for one.
    let asked = unsafe {
        real::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut state).cast(),
            &raw mut len,
        )
    };
    asked == 0 && state == CLOSED
}

/// Connects a descriptor, or goes on with that.
pub(crate) fn connect(fd: i32, to: SocketAddr) -> Connects {
    if let Some(conn) = table::conn(fd) {
        return again(fd, &conn);
    }
    let done = begin(fd, to);
    table::untrack(fd);
    done
}

/// Begins to connect a descriptor that is no connection of the library.
fn begin(fd: i32, to: SocketAddr) -> Connects {
    // A socket that connects already, or has, is asked how that went.
    let is_unused = table::begins_use(fd);
    if !config::is_active() || table::has(fd) || !(is_unused || is_unconnected(fd)) {
        return Connects::Kernel;
    }
    // A thread that a child of vfork starts for its parent ends with the child.
    if config::is_vforked() {
        return Connects::Kernel;
    }
    own_listeners::connects_anew(fd);
    let to = smc_sockets::destination(borrowed(fd), to);
    let refused = config::policy().map_or_else(
        || Some("the policy cannot be used".to_owned()),
        |policy| policy.connecting(to).err().map(|rule| rule.to_string()),
    );
    if let Some(rule) = refused {
        stats::plain(&rule, false);
        return Connects::Kernel;
    }
    if own_listeners::are_at(to) {
        own_listeners::connects(fd);
        stats::plain("the listener is this process's own", false);
        return Connects::Kernel;
    }
    let Some(stack) = config::stack() else {
        return Connects::Kernel;
    };
    defaults::is_used(fd);
    let Ok(flags) = rustix::fs::fcntl_getfl(borrowed(fd)) else {
        return Connects::Kernel;
    };
    let Ok(own) = hidden::duplicate(fd) else {
        stats::plain(NO_ROOM, true);
        return Connects::Kernel;
    };
    let nonblocking = flags.contains(rustix::fs::OFlags::NONBLOCK);
    if !nonblocking {
        set_mode(fd, true);
    }
    let connecting = config::inside(|| match nonblocking {
        true => SmcStream::begin_connect_listed(stack, own, to),
        false => SmcStream::begin_connect_awaited(stack, own, to),
    });
    let connecting = match connecting {
        Ok(connecting) => connecting,
        Err(error) => {
            restore_mode(fd, nonblocking);
            let has_no_thread = error.kind() == io::ErrorKind::QuotaExceeded;
            if !has_no_thread && !descriptors::is_short_of_room(&error) {
                return Connects::Done(Err(errno::of(&error)));
            }
            // Nothing is left to ask with: it connects already, or does not yet.
            stats::plain(NO_ROOM, true);
            return match nonblocking {
                true => Connects::Done(begin_in_kernel(fd, to)),
                false => Connects::Kernel,
            };
        }
    };
    if connecting.is_plain() {
        drop(connecting);
        restore_mode(fd, nonblocking);
        let is_here = to.ip().to_canonical().is_loopback();
        stats::unasked(stack, is_here, "the peer does not use SMC");
        return kernel(nonblocking);
    }
    let conn = Conn::connecting(connecting, nonblocking);
    conn.add_fd(fd);
    for registration in table::registrations(fd, registrations) {
        Set::take_over(&conn, fd, registration);
    }
    if nonblocking {
        return Connects::Done(Err(Errno::INPROGRESS));
    }
    let time = sockopt::socket_timeout(borrowed(fd), sockopt::Timeout::Send);
    let until = time
        .ok()
        .flatten()
        .and_then(|time| Instant::now().checked_add(time));
    match conn.wait_decided(until) {
        Ok(Phase::Failed) => {
            let error = conn.take_error();
            leave(fd, &conn);
            Connects::Done(Err(Errno::from_raw_os_error(error)))
        }
        // The kernel would connect anew if TCP has ended meanwhile.
        Ok(Phase::Smc) => Connects::Done(conn.connected()),
        Ok(_) => Connects::Kernel,
        // The server has not used it yet.
        Err(Errno::INPROGRESS) if conn.is_connected_late() => Connects::Done(conn.connected()),
        Err(error) => Connects::Done(Err(error)),
    }
}

/// Gives a socket the program's mode, after [`set_mode`] for a connection that is begun.
fn restore_mode(fd: i32, nonblocking: bool) {
    if !nonblocking {
        set_mode(fd, false);
    }
}

/// A connection that the kernel makes.
fn kernel(nonblocking: bool) -> Connects {
    match nonblocking {
        true => Connects::Done(Err(Errno::INPROGRESS)),
        false => Connects::Kernel,
    }
}

/// Has the kernel connect a socket that does not block, unless it does so already.
fn begin_in_kernel(fd: i32, to: SocketAddr) -> Result<(), Errno> {
    match rustix::net::connect(borrowed(fd), &to) {
        Err(Errno::ALREADY) => Err(Errno::INPROGRESS),
        begun => begun,
    }
}

/// Gives a socket whose connection failed back to the program, unconnected as connect(2) leaves
/// it: otherwise a read would return the end of a stream where it fails with `ENOTCONN`.
fn leave(fd: i32, conn: &Arc<Conn>) {
    // Another thread may have closed it meanwhile.
    if table::conn(fd).is_some_and(|of| Arc::ptr_eq(&of, conn)) {
        conn.remove_fd(fd);
        table::take(fd);
        let _ = rustix::net::connect_unspec(borrowed(fd));
    }
}

/// connect(2) once more: it returns how the first one went.
fn again(fd: i32, conn: &Arc<Conn>) -> Connects {
    let phase = match conn.is_nonblocking() {
        true => Ok(conn.advance()),
        false => conn.wait_decided(None),
    };
    match phase {
        Err(error) => Connects::Done(Err(error)),
        Ok(Phase::Pending) if conn.is_connected_late() => Connects::Done(conn.connected()),
        Ok(Phase::Pending) => Connects::Done(Err(Errno::ALREADY)),
        Ok(Phase::Failed) => {
            let error = match conn.take_error() {
                0 => Errno::CONNABORTED,
                error => Errno::from_raw_os_error(error),
            };
            leave(fd, conn);
            Connects::Done(Err(error))
        }
        Ok(Phase::Smc) => Connects::Done(conn.connected()),
        Ok(_) => Connects::Kernel,
    }
}

/// The registrations of a descriptor in all epoll sets of this process, as the kernel lists them.
pub(crate) fn registrations(fd: i32) -> Vec<Registration> {
    let mut all = Vec::new();
    let Ok(directory) = std::fs::read_dir("/proc/self/fdinfo") else {
        return all;
    };
    for entry in directory.flatten() {
        let name = entry.file_name();
        let Some(set) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        all.extend(text.lines().filter_map(|line| registration(line, fd, set)));
    }
    all
}

/// A registration in a line of `fdinfo` of an epoll set, if it is that of a descriptor.
fn registration(line: &str, fd: i32, set: i32) -> Option<Registration> {
    let rest = line.strip_prefix("tfd:")?;
    let mut words = rest.split_whitespace();
    let of: i32 = words.next()?.parse().ok()?;
    if of != fd || words.next()? != "events:" {
        return None;
    }
    let events = u32::from_str_radix(words.next()?, 16).ok()?;
    let data = words.next()?.strip_prefix("data:");
    let data = match data {
        Some("") | None => words.next()?,
        Some(data) => data,
    };
    let data = u64::from_str_radix(data, 16).ok()?;
    Some(Registration { set, events, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_read_as_the_kernel_writes_them() {
        let line = "tfd:       12 events: 8000201d data: 7f00000000ff  pos:0 ino:61af sdev:7";
        let expected = Registration {
            set: 3,
            events: 0x8000_201d,
            data: 0x7f00_0000_00ff,
        };
        assert_eq!(registration(line, 12, 3), Some(expected));
        assert_eq!(registration(line, 1, 3), None);
        assert_eq!(registration("pos:\t0", 12, 3), None);
    }
}
