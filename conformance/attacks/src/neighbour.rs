//! A process of the same host that pairs by hand and then sends what it likes: the raw
//! messages of `docs/shared-memory.md`, written from that document and not by the crate
//! that is attacked.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// Begins the abstract name of a rendezvous.
const NAME: &str = "@smc-d.";
/// Marks a message.
const MAGIC: u64 = 0x534d_4403;
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a page of doorbells: 128 for each of the two numbers of the sleeper, 128 of
/// groups, 1,024 leaves of 8, rounded up to pages.
const DOORBELLS: u64 = 4 << 10;

/// Kinds of messages.
pub mod kind {
    /// GID, extension; with the sender's doorbells.
    pub const HELLO: u64 = 1;
    /// Token, length, slot, generation; with the DMB.
    pub const OFFER: u64 = 2;
    /// Token.
    pub const WITHDRAW: u64 = 3;
    /// Code, info.
    pub const EVENT: u64 = 4;
    /// Nothing.
    pub const WAKE: u64 = 5;
    /// Cookie, GID, extension.
    pub const ANNOUNCE: u64 = 6;
    /// Cookie, GID, extension, joined.
    pub const MINE: u64 = 7;
    /// Fresh.
    pub const GO: u64 = 8;
}

/// A message: its kind and five fields.
pub type Fields = (u64, [u64; 5]);

/// A channel that was made by hand.
#[derive(Debug)]
pub struct Neighbour {
    /// The TCP connection that was paired.
    pub tcp: TcpStream,
    /// The channel's socket.
    pub channel: OwnedFd,
    /// The first half of the GID that the victim gave.
    pub victim: u64,
}

impl Neighbour {
    /// Pairs a new TCP connection with the listener at `address`, with a fresh channel,
    /// under the GID `gid`.
    ///
    /// # Errors
    /// The operating system's, or what the victim did not do.
    pub fn join(address: SocketAddr, gid: u64) -> io::Result<Self> {
        let tcp = unconnected(address)?;
        let cookie = rustix::net::sockopt::socket_cookie(&tcp)?;
        let channel = call()?;
        send(&channel, (kind::ANNOUNCE, [cookie, gid, 0, 0, 0]), None)?;
        rustix::net::connect(&tcp, &address)?;
        let (mine, _) = expect(&channel, kind::MINE)?;
        send(&channel, (kind::GO, [1, 0, 0, 0, 0]), None)?;
        send(
            &channel,
            (kind::HELLO, [gid, 0, 0, 0, 0]),
            Some(doorbells()?.as_fd()),
        )?;
        expect(&channel, kind::HELLO)?;
        Ok(Self {
            tcp: tcp.into(),
            channel,
            victim: mine.1[1],
        })
    }

    /// Sends the first message of a channel that a [`Host`] has accepted, and takes the
    /// victim's.
    ///
    /// # Errors
    /// The operating system's, or what the victim did not do.
    pub fn greet(&mut self, gid: u64) -> io::Result<()> {
        let hello = (kind::HELLO, [gid, 0, 0, 0, 0]);
        send(&self.channel, hello, Some(doorbells()?.as_fd()))?;
        let (hello, _) = expect(&self.channel, kind::HELLO)?;
        self.victim = hello.1[0];
        Ok(())
    }

    /// Offers a DMB of `len` bytes that is the file `dmb`.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::WouldBlock`] if the victim does not read.
    pub fn offer(&self, token: u64, len: u64, slot: u64, dmb: BorrowedFd<'_>) -> io::Result<()> {
        send(
            &self.channel,
            (kind::OFFER, [token, len, slot, 1, 0]),
            Some(dmb),
        )
    }

    /// Sends any message.
    ///
    /// # Errors
    /// Returns the errors of [`Self::offer`].
    pub fn send(&self, message: Fields) -> io::Result<()> {
        send(&self.channel, message, None)
    }

    /// Takes one message within `timeout`; its descriptor with it.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], [`io::ErrorKind::UnexpectedEof`] at the channel's end.
    pub fn receive(&self, timeout: Duration) -> io::Result<(Fields, Option<OwnedFd>)> {
        receive(&self.channel, timeout)
    }
}

/// A server that pairs by hand.
#[derive(Debug)]
pub struct Host {
    tcp: TcpListener,
    rendezvous: OwnedFd,
}

impl Host {
    /// Listens on 127.0.0.1, with a rendezvous.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open() -> io::Result<Self> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let name = format!("smc-d.3.{:016x}", sockopt::socket_cookie(&tcp)?);
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let rendezvous = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        rustix::net::bind(&rendezvous, &name)?;
        rustix::net::listen(&rendezvous, 128)?;
        Ok(Self { tcp, rendezvous })
    }

    /// Where clients connect to.
    ///
    /// # Errors
    /// The operating system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts a connection, whose client has called and now goes on; whether the client makes
    /// a channel, on which its first message is left unread.
    ///
    /// # Errors
    /// The operating system's, or what the client did not do.
    pub fn accept(&self, gid: u64) -> io::Result<(Neighbour, bool)> {
        let channel = rustix::net::accept_with(&self.rendezvous, SocketFlags::CLOEXEC)?;
        expect(&channel, kind::ANNOUNCE)?;
        let (tcp, _) = self.tcp.accept()?;
        let cookie = sockopt::socket_cookie(&tcp)?;
        send(&channel, (kind::MINE, [cookie, gid, 0, 0, 0]), None)?;
        let (go, _) = expect(&channel, kind::GO)?;
        let neighbour = Neighbour {
            tcp,
            channel,
            victim: 0,
        };
        Ok((neighbour, go.1[0] != 0))
    }
}

/// A memory file as DMBs have to be: `len` bytes of zeroes, sealed.
///
/// # Errors
/// The operating system's.
pub fn dmb(len: u64) -> io::Result<OwnedFd> {
    sealed(len, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

/// A memory file as doorbells have to be: every page is there.
///
/// # Errors
/// The operating system's.
pub fn doorbells() -> io::Result<OwnedFd> {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    let fd = file(DOORBELLS)?;
    rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, DOORBELLS)?;
    rustix::fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

fn sealed(len: u64, seals: SealFlags) -> io::Result<OwnedFd> {
    let fd = file(len)?;
    rustix::fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

fn file(len: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("attack", flags)?;
    rustix::fs::ftruncate(&fd, len)?;
    Ok(fd)
}

/// A TCP socket that is not connected.
///
/// # Errors
/// The operating system's.
pub fn unconnected(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Abstract names of rendezvous in this network namespace, as any process can list them.
///
/// # Errors
/// The operating system's.
pub fn names() -> io::Result<Vec<String>> {
    let list = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let names = list
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7));
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with(NAME))
        .map(|name| name[1..].to_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Calls the only rendezvous of this network namespace.
///
/// # Errors
/// The operating system's, or [`io::ErrorKind::NotFound`] if there is not exactly one.
pub fn call() -> io::Result<OwnedFd> {
    match &names()?[..] {
        [name] => call_name(name),
        names => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} rendezvous", names.len()),
        )),
    }
}

/// Calls a rendezvous by its abstract name.
///
/// # Errors
/// The operating system's.
pub fn call_name(name: &str) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

/// Calls at an abstract name, without a wait for room in the kernel's queue.
///
/// # Errors
/// The operating system's.
pub fn call_name_at_once(name: &str) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    rustix::net::connect(&socket, &name)?;
    Ok(socket)
}

/// Sends a message, with a descriptor if there is one; never waits.
///
/// # Errors
/// The operating system's.
pub fn send(socket: impl AsFd, message: Fields, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let (kind, fields) = message;
    let mut bytes = Vec::with_capacity(48);
    bytes.extend_from_slice(&((MAGIC << 32) | kind).to_ne_bytes());
    for field in fields {
        bytes.extend_from_slice(&field.to_ne_bytes());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fd.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
    Ok(())
}

/// Takes one message within `timeout`.
///
/// # Errors
/// Returns the errors of [`Neighbour::receive`]; [`io::ErrorKind::InvalidData`] if it is no
/// message.
pub fn receive(socket: impl AsFd, timeout: Duration) -> io::Result<(Fields, Option<OwnedFd>)> {
    let end = Instant::now() + timeout;
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    let left = end.saturating_duration_since(Instant::now());
    let timeout = rustix::time::Timespec::try_from(left).map_err(io::Error::other)?;
    if rustix::event::poll(&mut polled, Some(&timeout))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut bytes = [0; 49];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(&socket, &mut parts, &mut control, flags)?.bytes;
    let fd = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (units, _) = bytes.as_chunks::<8>();
    let mut fields = units.iter().map(|unit| u64::from_ne_bytes(*unit));
    let head = fields.next().unwrap_or_default();
    if received != 48 || head >> 32 != MAGIC {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let fields = std::array::from_fn(|_| fields.next().unwrap_or_default());
    Ok(((head & 0xffff_ffff, fields), fd))
}

/// Takes the next message, which has to be of this kind.
fn expect(socket: impl AsFd, kind: u64) -> io::Result<(Fields, Option<OwnedFd>)> {
    let (message, fd) = receive(socket, TIMEOUT)?;
    if message.0 != kind {
        return Err(io::Error::other(format!("{message:?} instead of {kind}")));
    }
    Ok((message, fd))
}
