//! Takes the names of listeners and clients that do not exist yet: cookies of sockets are given one after
//! the other, in a range of their own on each processor.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Names taken ahead of each processor's next cookie.
const AHEAD: u64 = 1_000;

/// Takes the names, prints `squatting`, and keeps them until its input ends.
pub(super) fn run(_: &[String]) -> io::Result<()> {
    let mut names = Vec::new();
    let allowed = sched_getaffinity(None)?;
    for processor in (0..CpuSet::MAX_CPU).filter(|at| allowed.is_set(*at)) {
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one)?;
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let next = sockopt::socket_cookie(&socket)? + 1;
        for cookie in next..next + AHEAD {
            names.extend(take(&format!("smc-d.3.{cookie:016x}"))?);
            names.extend(take(&format!("smc-d-client.3.{cookie:016x}"))?);
        }
    }
    println!("squatting");
    super::super::roles::await_line("go")
}

/// Takes a name, and answers nothing there; nothing if another process has it.
fn take(name: &str) -> io::Result<Option<OwnedFd>> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    match rustix::net::bind(&socket, &name) {
        Ok(()) => Ok(Some(socket)),
        Err(rustix::io::Errno::ADDRINUSE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
