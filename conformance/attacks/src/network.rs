//! Network namespaces with a loopback device that is up.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// A network namespace; gone with the last process in it and this value.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Makes a namespace, in which 127.0.0.0/8 and `::1` work.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::PermissionDenied`] without the rights.
    pub fn new() -> io::Result<Self> {
        on_a_thread(|| {
            // SAFETY: descriptors stay shared; only new sockets are of another network.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            bring_loopback_up()?;
            Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
        })
    }

    /// Runs `task` on a thread that is inside; sockets and processes it makes are, too.
    ///
    /// # Errors
    /// Returns the errors of the operating system, and of the task.
    ///
    /// # Panics
    /// If the task panics.
    pub fn enter<T: Send>(&self, task: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_a_thread(|| {
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.0), kind)?;
            task()
        })
    }
}

/// Namespaces are a thread's own: the caller's stays what it is.
fn on_a_thread<T: Send>(task: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(task).join().expect("the thread's task"))
}

fn bring_loopback_up() -> io::Result<()> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // nlmsghdr: length, RTM_NEWLINK, REQUEST | ACK, and zeros; ifinfomsg: zeros, index 1,
    // flags and change: IFF_UP.
    let mut request = Vec::new();
    request.extend_from_slice(&32_u32.to_ne_bytes());
    request.extend_from_slice(&16_u16.to_ne_bytes());
    request.extend_from_slice(&5_u16.to_ne_bytes());
    request.extend_from_slice(&[0; 12]);
    for number in [1_u32, 1, 1] {
        request.extend_from_slice(&number.to_ne_bytes());
    }
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (count, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let error = answer[..count]
        .get(16..20)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes);
    match error {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
