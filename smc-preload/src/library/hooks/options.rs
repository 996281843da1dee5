//! Options of sockets: what SMC has of its own is merged with what TCP knows.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use libc::socklen_t;
use rustix::io::Errno;

use super::{guard, is_reentrant, status};
use crate::library::conn::{Conn, Outcome, low_water};
use crate::library::table::{self, Object};
use crate::library::{defaults, errno, real};

/// Answers an option with an integer, of which the caller may take less.
///
/// # Safety
/// The arguments are those that getsockopt(2) demands.
unsafe fn answer(bytes: &[u8], value: *mut c_void, len: *mut socklen_t) -> Result<i32, Errno> {
    if value.is_null() || len.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: as the caller's.
    let room = unsafe { *len } as usize;
    let most = room.min(bytes.len());
    // SAFETY: so many bytes are the caller's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), most) };
    // SAFETY: as the caller's.
    unsafe { *len = socklen_t::try_from(most).unwrap_or(0) };
    Ok(0)
}

/// getsockopt(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::getsockopt(fd, level, name, value, len) };
    }
    if is_reentrant(fd) {
        return status(Err(Errno::AGAIN));
    }
    let own = guard(|| match table::get(fd)? {
        Object::Conn(conn) => own_option(&conn, level, name),
        _ => None,
    });
    if let Some(own) = own {
        // SAFETY: as the caller's.
        return status(unsafe { answer(&own, value, len) });
    }
    // SAFETY: as the caller's.
    let done = unsafe { real::getsockopt(fd, level, name, value, len) };
    if done == 0 && (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
        let state = guard(|| table::conn(fd)?.tcp_state());
        // SAFETY: the kernel has written so many bytes, of which the first one is the state.
        if let Some(state) = state.filter(|_| unsafe { *len } > 0) {
            // SAFETY: as above.
            unsafe { value.cast::<u8>().write(state) };
        }
    }
    done
}

/// What TCP does not know of a connection.
fn own_option(conn: &std::sync::Arc<Conn>, level: c_int, name: c_int) -> Option<Vec<u8>> {
    if level != libc::SOL_SOCKET {
        return None;
    }
    match name {
        libc::SO_ERROR => {
            conn.advance();
            match conn.take_error() {
                // Of a connection that is being made, or that TCP carries, the kernel knows more.
                0 if conn.smc().is_none() => None,
                error => Some(error.to_ne_bytes().to_vec()),
            }
        }
        libc::SO_LINGER => {
            let linger = conn.smc()?.linger().ok()?;
            let seconds = linger.map_or(0, |time| time.as_secs());
            let seconds = c_int::try_from(seconds).unwrap_or(c_int::MAX);
            let mut bytes = c_int::from(linger.is_some()).to_ne_bytes().to_vec();
            bytes.extend(seconds.to_ne_bytes());
            Some(bytes)
        }
        _ => None,
    }
}

/// setsockopt(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if !table::has(fd) {
        defaults::is_set(level, name);
        // SAFETY: as the caller's.
        return unsafe { real::setsockopt(fd, level, name, value, len) };
    }
    if is_reentrant(fd) {
        return status(Err(Errno::AGAIN));
    }
    let outcome = guard(|| match table::get(fd) {
        Some(Object::Conn(conn)) if conn.smc().is_some() && !value.is_null() => {
            // SAFETY: so many bytes are readable.
            let value = unsafe { std::slice::from_raw_parts(value.cast(), len as usize) };
            set_option(&conn, (level, name), value)
        }
        // An undecided client sends no data, so that its connection would not be accepted.
        Some(Object::Listener(_))
            if (level, name) == (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) =>
        {
            Outcome::Done(Ok(()))
        }
        _ => Outcome::Kernel,
    });
    if let Outcome::Done(result) = outcome {
        return status(result.map(|()| 0));
    }
    if !guard(|| table::conn(fd).is_some_and(|conn| conn.smc().is_some())) {
        defaults::is_set(level, name);
    }
    // SAFETY: as the caller's.
    let set = unsafe { real::setsockopt(fd, level, name, value, len) };
    if set == 0 {
        guard(|| follow(fd, level, name));
    }
    set
}

fn int(value: &[u8]) -> Option<c_int> {
    Some(c_int::from_ne_bytes(*value.first_chunk()?))
}

/// Sets what is not the TCP socket's to keep.
fn set_option(conn: &Conn, (level, name): (c_int, c_int), value: &[u8]) -> Outcome<()> {
    let Some(stream) = conn.smc() else {
        return Outcome::Kernel;
    };
    let done = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let (Some(is_on), Some(seconds)) = (int(value), value.get(4..).and_then(int)) else {
                return Outcome::Done(Err(Errno::INVAL));
            };
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            stream.set_linger((is_on != 0).then_some(time))
        }
        (libc::IPPROTO_TCP, libc::TCP_CORK) => match int(value) {
            Some(cork) => stream.set_cork(cork != 0),
            None => return Outcome::Done(Err(Errno::INVAL)),
        },
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => match int(value) {
            Some(inline) => stream.set_urgent_inline(inline != 0),
            None => return Outcome::Done(Err(Errno::INVAL)),
        },
        _ => return Outcome::Kernel,
    };
    Outcome::Done(done.map_err(|error| errno::of(&error)))
}

/// The kernel has set an option that holds for the stream, too: as the kernel has understood it.
fn follow(fd: c_int, level: c_int, name: c_int) {
    use rustix::net::sockopt::{self, Timeout};
    let Some(conn) = table::conn(fd) else {
        return;
    };
    let Some(stream) = conn.smc() else {
        return;
    };
    let tcp = stream.tcp();
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => {
            if let Ok(time) = sockopt::socket_timeout(tcp, Timeout::Recv) {
                let _ = stream.set_read_timeout(time);
            }
        }
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => {
            if let Ok(time) = sockopt::socket_timeout(tcp, Timeout::Send) {
                let _ = stream.set_write_timeout(time);
            }
        }
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => conn.set_low_water(low_water(fd)),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) if sockopt::tcp_nodelay(tcp) == Ok(true) => {
            let _ = stream.set_nodelay(true);
        }
        _ => {}
    }
}
