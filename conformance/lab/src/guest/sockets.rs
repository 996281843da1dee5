//! Sockets of the kernel's: AF_SMC and TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with, sockopt,
};

use crate::conversation::Conversation;
use crate::orders::Family;

/// `AF_SMC`; with protocol 0 its connections are of IPv4.
const AF_SMC: AddressFamily = AddressFamily::from_raw(43);

/// A connection of the kernel's.
#[derive(Debug)]
pub(super) struct Connection(pub(super) TcpStream);

/// A listening socket of the kernel's.
#[derive(Debug)]
pub(super) struct Listener(TcpListener);

impl Listener {
    pub(super) fn new(
        family: Family,
        address: SocketAddrV4,
        backlog: i32,
        buffers: Option<u32>,
    ) -> io::Result<Self> {
        let socket = open(family, buffers)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(
            &socket,
            &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port()),
        )?;
        listen(&socket, backlog)?;
        Ok(Self(TcpListener::from(socket)))
    }

    pub(super) fn accept(&self, timeout: Duration) -> io::Result<Connection> {
        wait(&self.0, PollFlags::IN, timeout)?;
        let socket = accept_with(&self.0, SocketFlags::CLOEXEC)?;
        Connection::new(TcpStream::from(socket), timeout)
    }
}

impl Connection {
    pub(super) fn open(
        family: Family,
        address: SocketAddrV4,
        buffers: Option<u32>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = open(family, buffers)?;
        connect(&socket, &address)?;
        Self::new(TcpStream::from(socket), timeout)
    }

    fn new(stream: TcpStream, timeout: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self(stream))
    }

    /// The number that the kernel's diagnosis knows the socket by.
    pub(super) fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.0)?.st_ino)
    }
}

fn open(family: Family, buffers: Option<u32>) -> io::Result<std::os::fd::OwnedFd> {
    let family = match family {
        Family::Smc => AF_SMC,
        Family::Tcp => AddressFamily::INET,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(size) = buffers {
        let size = usize::try_from(size).map_err(io::Error::other)?;
        sockopt::set_socket_send_buffer_size(&socket, size)?;
        sockopt::set_socket_recv_buffer_size(&socket, size)?;
    }
    Ok(socket)
}

fn wait(socket: &impl AsFd, events: PollFlags, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(socket, events)], Some(&timeout))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

impl Conversation for Connection {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }

    fn send_urgent(&self, byte: u8) -> io::Result<()> {
        send(&self.0, &[byte], SendFlags::OOB)?;
        Ok(())
    }

    fn receive_urgent(&self, timeout: Duration) -> io::Result<u8> {
        wait(&self.0, PollFlags::PRI, timeout)?;
        let mut byte = [0];
        match recv(&self.0, &mut byte[..], RecvFlags::OOB)? {
            (1, _) => Ok(byte[0]),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn abort(&self) -> io::Result<()> {
        // The kernel's sockets are only reset by an end that leaves bytes unread.
        Err(io::ErrorKind::Unsupported.into())
    }

    fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}
