//! A netlink socket: a request, and all that is answered to it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
    socket_with,
};

use super::malformed;
use super::message::{Attributes, HEADER, Request};

const ERROR: u16 = 2;
const DONE: u16 = 3;
/// More than the kernel puts into one datagram.
const DATAGRAM: usize = 64 * 1024;

/// A socket of one netlink family.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
}

/// A message of an answer.
#[derive(Clone, Debug)]
pub struct Message {
    /// `nlmsg_type`.
    pub kind: u16,
    /// All after the header.
    pub payload: Vec<u8>,
}

impl Message {
    /// The attributes after the family's header of `skip` bytes.
    #[must_use]
    pub fn attributes(&self, skip: usize) -> Attributes<'_> {
        Attributes(self.payload.get(skip..).unwrap_or_default())
    }
}

impl Socket {
    /// A socket of `NETLINK_ROUTE`.
    ///
    /// # Errors
    /// Of `socket`.
    pub fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// A socket of `NETLINK_GENERIC`.
    ///
    /// # Errors
    /// Of `socket`.
    pub fn generic() -> io::Result<Self> {
        Self::open(Some(netlink::GENERIC))
    }

    /// A socket of `NETLINK_SOCK_DIAG`.
    ///
    /// # Errors
    /// Of `socket`.
    pub fn diagnosis() -> io::Result<Self> {
        Self::open(Some(netlink::SOCK_DIAG))
    }

    /// A socket of `NETLINK_RDMA`.
    ///
    /// # Errors
    /// Of `socket`.
    pub fn rdma() -> io::Result<Self> {
        Self::open(Some(netlink::RDMA))
    }

    /// A socket of `NETLINK_XFRM`.
    ///
    /// # Errors
    /// Of `socket`; if the module xfrm_user is not loaded, that there is no such protocol.
    pub fn xfrm() -> io::Result<Self> {
        Self::open(Some(netlink::XFRM))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        Ok(Self { socket })
    }

    /// Sends a request that asks for an acknowledgement or a dump, and collects the
    /// messages up to the end.
    ///
    /// # Errors
    /// What the kernel answered, or of the socket.
    pub fn ask(&self, request: Request) -> io::Result<Vec<Message>> {
        send(&self.socket, &request.finish(), SendFlags::empty())?;
        let mut messages = Vec::new();
        let mut datagram = vec![0; DATAGRAM];
        loop {
            let (count, _) = recv(&self.socket, &mut datagram[..], RecvFlags::empty())?;
            let mut rest = datagram.get(..count).unwrap_or_default();
            while !rest.is_empty() {
                let (message, after) = split(rest).ok_or_else(|| malformed("its length"))?;
                rest = after;
                match message.kind {
                    DONE | ERROR => return error(&message).map(|()| messages),
                    _ => messages.push(message),
                }
            }
        }
    }
}

fn split(bytes: &[u8]) -> Option<(Message, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let payload = bytes.get(HEADER..length)?.to_vec();
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((Message { kind, payload }, rest))
}

/// The error number of an acknowledgement, or of the end of a dump.
fn error(message: &Message) -> io::Result<()> {
    match message
        .payload
        .first_chunk()
        .copied()
        .map(i32::from_ne_bytes)
    {
        None | Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}
