//! Any program of the victim's user that passes descriptors between its processes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Passes 16 descriptors, which stay in flight. Prints `passed`, or `refused ERROR`.
///
/// # Errors
/// The operating system's, but for the passing itself.
pub fn run() -> io::Result<()> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (one, _two) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    let outcome = (0..16).try_for_each(|_| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [one.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&one, &[IoSlice::new(b"x")], &mut control, flags).map(|_| ())
    });
    match outcome {
        Ok(()) => println!("passed"),
        Err(error) => println!("refused {error}"),
    }
    Ok(())
}
