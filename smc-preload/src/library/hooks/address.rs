//! Sockets: connect, listen, accept, addresses, shutdown.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{AF_INET, AF_INET6, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use rustix::io::Errno;

use super::{fds, guard, is_reentrant, status};
use crate::library::conn::Outcome;
use crate::library::connecting::{self, Connects};
use crate::library::table::{self, Object};
use crate::library::{accepting, cancel, config, own_listeners, real};

/// Linux's number of the family of SMC sockets.
const AF_SMC: c_int = 43;
/// Linux's number of the protocol SMC of Internet sockets.
const IPPROTO_SMC: c_int = 256;

/// socket(2): an SMC socket is a TCP socket, whose connections use SMC.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    let (domain, protocol) = match (domain, protocol) {
        (AF_SMC, 0) => (AF_INET, 0),
        (AF_SMC, 1) => (AF_INET6, 0),
        (AF_INET | AF_INET6, IPPROTO_SMC) => (domain, libc::IPPROTO_TCP),
        as_it_is => as_it_is,
    };
    // SAFETY: as the caller's.
    let new = unsafe { real::socket(domain, kind, protocol) };
    if matches!(domain, AF_INET | AF_INET6) && config::is_active() && !config::is_inside() {
        fds::is_new(new);
        let is_stream = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM;
        table::made_here(new, is_stream && matches!(protocol, 0 | libc::IPPROTO_TCP));
    }
    new
}

/// An Internet address.
///
/// # Safety
/// `len` bytes at `address` are readable.
unsafe fn internet(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = len as usize;
    if address.is_null() || len < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family was just seen to be there.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    match family {
        AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: so many bytes are readable.
            let of = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(of.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(of.sin_port))))
        }
        AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: so many bytes are readable.
            let of = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(of.sin6_addr.s6_addr);
            let port = u16::from_be(of.sin6_port);
            let address = SocketAddrV6::new(ip, port, of.sin6_flowinfo, of.sin6_scope_id);
            Some(address.into())
        }
        _ => None,
    }
}

/// connect(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: as the caller's.
    let done = match unsafe { internet(address, len) } {
        Some(to) if config::is_active() && !config::is_inside() => connect_once(fd, to),
        _ => Connects::Kernel,
    };
    match done {
        Connects::Done(result) => status(result.map(|()| 0)),
        // SAFETY: as the caller's.
        Connects::Kernel => unsafe { real::connect(fd, address, len) },
    }
}

/// Connects, which is a cancellation point.
fn connect_once(fd: c_int, to: SocketAddr) -> Connects {
    loop {
        cancel::point();
        let done = guard(|| connecting::connect(fd, to));
        let is_interrupted = matches!(done, Connects::Done(Err(Errno::INTR)));
        if !is_interrupted || !cancel::has_interrupted() {
            return done;
        }
    }
}

/// listen(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if !config::is_inside() {
        guard(|| accepting::will_listen(fd));
    }
    // SAFETY: as the caller's.
    let listens = unsafe { real::listen(fd, backlog) };
    if listens == 0 && !config::is_inside() {
        guard(|| {
            accepting::listens(fd);
            own_listeners::begins(fd);
        });
    }
    listens
}

/// What comes of a connection that was just accepted.
fn after_accept(listener: c_int, fd: c_int, flags: c_int) {
    if fd < 0 || !config::is_active() || config::is_inside() {
        return;
    }
    fds::is_new(fd);
    if config::is_vforked() {
        // It would be among the connections of the parent.
        return;
    }
    guard(|| {
        if !table::has(listener) {
            // From another program, by exec.
            accepting::listens(listener);
        }
        if table::has(listener) {
            accepting::accepted(fd, flags & libc::SOCK_NONBLOCK != 0);
        }
    });
}

/// accept(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller's.
    let new = unsafe { real::accept(fd, address, len) };
    after_accept(fd, new, 0);
    new
}

/// accept4(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller's.
    let new = unsafe { real::accept4(fd, address, len, flags) };
    after_accept(fd, new, flags);
    new
}

/// getpeername(2): of a connection that has ended there is no peer any more, which the TCP socket may
/// still have.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let has_ended = || {
        let conn = table::conn(fd);
        conn.is_some_and(|conn| conn.has_ended())
    };
    if table::has(fd) && !config::is_inside() && guard(has_ended) {
        return status(Err(Errno::NOTCONN));
    }
    // SAFETY: as the caller's.
    unsafe { real::getpeername(fd, address, len) }
}

/// shutdown(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if is_reentrant(fd) {
        return status(Err(Errno::AGAIN));
    }
    while table::has(fd) {
        let outcome = guard(|| match table::get(fd) {
            Some(Object::Conn(conn)) => conn.shutdown(how),
            _ => Outcome::Kernel,
        });
        match outcome {
            Outcome::Done(Err(Errno::INTR)) if cancel::defers() => {}
            Outcome::Done(result) => return status(result.map(|()| 0)),
            Outcome::Kernel => break,
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::shutdown(fd, how) }
}
