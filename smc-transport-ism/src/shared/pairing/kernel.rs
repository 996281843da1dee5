//! Queries to the kernel about TCP sockets: which listen, and which process has an end of a
//! connection.
//!
//! By socket diagnosis (`sock_diag(7)`), which needs no rights and sees this network
//! namespace. A socket's cookie is a number the kernel gives to no other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::descriptors;

/// `SOCK_DIAG_BY_FAMILY`.
pub(super) const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`.
pub(super) const ERROR: u16 = 2;
/// `NLMSG_DONE`.
pub(super) const DONE: u16 = 3;
/// `NLM_F_REQUEST`.
pub(super) const REQUEST: u16 = 0x001;
/// `NLM_F_DUMP`.
pub(super) const DUMP: u16 = 0x300;
/// Bytes of a `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// Bytes of a `struct inet_diag_msg`.
const MESSAGE: usize = 72;
const TCP: u8 = 6;
const INET: u8 = 2;
const INET6: u8 = 10;
const ESTABLISHED: u8 = 1;
pub(super) const LISTEN: u8 = 10;
/// `INET_DIAG_SKV6ONLY`.
const ATTRIBUTE_V6ONLY: u16 = 11;
/// `INET_DIAG_SOCKOPT`. The options below mean nothing to TCP: processes set them as flags that
/// other processes see by `sock_diag` (docs/shared-memory.md).
const ATTRIBUTE_OPTIONS: u16 = 22;
/// `IP_MULTICAST_LOOP` in the first byte of that attribute, a field of bits.
const MULTICAST_LOOP: u8 = if cfg!(target_endian = "big") {
    1 << 3
} else {
    1 << 4
};
/// `IP_MULTICAST_ALL` in the first byte.
const MULTICAST_ALL: u8 = if cfg!(target_endian = "big") {
    1 << 1
} else {
    1 << 6
};
/// `IP_BIND_ADDRESS_NO_PORT` in the second byte.
const BIND_ADDRESS_NO_PORT: u8 = if cfg!(target_endian = "big") {
    1 << 7
} else {
    1
};
const ENOENT: i32 = 2;

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listening {
    address: IpAddr,
    /// Takes IPv4 connections, although its address is of IPv6.
    both: bool,
    /// Bound to one network interface.
    bound_to_interface: bool,
    pub(super) cookie: u64,
    pub(super) uid: u32,
    /// Whether the Unix socket at which its process pairs may have a random name (SHM-054).
    pub(super) has_spare: bool,
    /// Whether the processes that accept its connections may pair them (SHM-076).
    pub(super) is_marked: bool,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) cookie: u64,
    pub(super) uid: u32,
    /// A process holds it: it is no longer in a listener's queue.
    pub(super) held: bool,
    pub(super) established: bool,
    /// Whether its own name may be a spare one (SHM-054).
    pub(super) has_spare: bool,
    /// Whether it takes calls, or the process that accepted it may still call (SHM-076, SHM-077).
    pub(super) is_marked: bool,
    /// Whether it will take calls, unless it is answered over shared memory (SHM-080).
    pub(super) will_take_calls: bool,
}

impl End {
    /// Whether a process has it that takes calls, or will.
    pub(super) fn takes_calls(&self) -> bool {
        self.held && (self.is_marked || self.will_take_calls)
    }
}

/// A `NETLINK_SOCK_DIAG` socket.
#[derive(Debug)]
pub(super) struct Kernel(OwnedFd);

impl Kernel {
    pub(super) fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(netlink::SOCK_DIAG);
        let make = || rustix::net::socket_with(family, kind, flags, protocol);
        Ok(Self(descriptors::keep(make)?))
    }

    /// The end at `local` of the connection to `remote`, if this host has it.
    pub(super) fn end(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<End>> {
        let mut found = None;
        self.ask((REQUEST, !0), (local, remote), |record| {
            // If there is none, the kernel answers with a listener that would take one.
            let same = record.local_port == local.port() && record.remote_port == remote.port();
            if record.state != LISTEN && same {
                let held = record.inode != 0;
                let established = record.state == ESTABLISHED;
                found = Some(End {
                    cookie: record.cookie,
                    uid: record.uid,
                    held,
                    established,
                    has_spare: record.has_spare,
                    is_marked: record.is_marked,
                    will_take_calls: record.will_take_calls,
                });
            }
        })?;
        Ok(found)
    }

    /// The socket that would take a connection to `remote` now; of a `SO_REUSEPORT` group, any one.
    pub(super) fn listener(&self, remote: SocketAddr) -> io::Result<Option<Listening>> {
        let any = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut found = None;
        let unspecified = SocketAddr::new(any, 0);
        self.ask((REQUEST, !0), (remote, unspecified), |record| {
            if record.state == LISTEN {
                found = Some(record.listening());
            }
        })?;
        Ok(found)
    }

    /// The sockets that may take a connection to `remote`. One bound to the very address hides those
    /// bound to any address, unless a socket is bound to an interface: then all are returned.
    pub(super) fn listeners(&self, remote: SocketAddr) -> io::Result<Vec<Listening>> {
        let mut all = Vec::new();
        for any in [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ] {
            let (local, none) = (SocketAddr::new(any, remote.port()), SocketAddr::new(any, 0));
            self.ask((REQUEST | DUMP, 1 << LISTEN), (local, none), |record| {
                if record.state == LISTEN && record.local_port == remote.port() {
                    all.push(record.listening());
                }
            })?;
        }
        Ok(candidates(all, remote.ip()))
    }

    /// Sends a request, and calls `take` for each record of the answer.
    fn ask(
        &self,
        (flags, states): (u16, u32),
        (local, remote): (SocketAddr, SocketAddr),
        mut take: impl FnMut(Record),
    ) -> io::Result<()> {
        let dump = flags & DUMP != 0;
        let request = request(flags, states, local, remote);
        rustix::net::send(&self.0, &request, SendFlags::empty())?;
        // As many records as the kernel puts into one datagram, or one.
        let (mut many, mut one) = (Vec::new(), [0; 1 << 10]);
        let bytes = match dump {
            true => {
                many.resize(32 << 10, 0);
                many.as_mut_slice()
            }
            false => one.as_mut_slice(),
        };
        loop {
            // The kernel answers before `send` returns, and goes on in each `recv`.
            let (len, _) = rustix::net::recv(&self.0, &mut *bytes, RecvFlags::DONTWAIT)?;
            let mut rest = bytes.get(..len).unwrap_or_default();
            while let Some((kind, body, next)) = split(rest) {
                match kind {
                    BY_FAMILY => Record::parse(body).into_iter().for_each(&mut take),
                    DONE => return Ok(()),
                    ERROR => return failure(body),
                    _ => {}
                }
                rest = next;
            }
            if !dump {
                return Ok(());
            }
        }
    }
}

/// The listening sockets of a port that may take a connection to `address`.
fn candidates(all: Vec<Listening>, address: IpAddr) -> Vec<Listening> {
    let exact = |at: &Listening| at.address == address;
    let any = |at: &Listening| match at.address {
        IpAddr::V4(own) => own.is_unspecified() && address.is_ipv4(),
        IpAddr::V6(own) => own.is_unspecified() && (at.both || address.is_ipv6()),
    };
    // The kernel may prefer a socket that is bound to an interface to all others.
    let by_interface = all
        .iter()
        .any(|at| at.bound_to_interface && (exact(at) || any(at)));
    let narrow = all.iter().any(exact) && !by_interface;
    all.into_iter()
        .filter(|at| exact(at) || (!narrow && any(at)))
        .collect()
}

/// One socket in an answer.
struct Record {
    state: u8,
    local_port: u16,
    remote_port: u16,
    local: IpAddr,
    interface: u32,
    cookie: u64,
    uid: u32,
    inode: u32,
    v6only: bool,
    has_spare: bool,
    is_marked: bool,
    will_take_calls: bool,
}

impl Record {
    fn parse(body: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            body.get(at..at + 4)?
                .first_chunk()
                .map(|bytes| u32::from_ne_bytes(*bytes))
        };
        let port = |at: usize| {
            body.get(at..at + 2)?
                .first_chunk()
                .map(|bytes| u16::from_be_bytes(*bytes))
        };
        let local = match *body.first()? {
            INET => IpAddr::V4(Ipv4Addr::from(*body.get(8..)?.first_chunk()?)),
            _ => IpAddr::V6(Ipv6Addr::from(*body.get(8..)?.first_chunk()?)).to_canonical(),
        };
        let byte = |wanted, at: usize| {
            let mut all = attributes(body.get(MESSAGE..).unwrap_or_default());
            let found = all.find_map(|(kind, value)| Some(value).filter(|_| kind == wanted));
            found.and_then(|value: &[u8]| value.get(at).copied())
        };
        let v6only = byte(ATTRIBUTE_V6ONLY, 0) == Some(1);
        let lacks = |option| byte(ATTRIBUTE_OPTIONS, 0).is_some_and(|bits| bits & option == 0);
        let (has_spare, will_take_calls) = (lacks(MULTICAST_LOOP), lacks(MULTICAST_ALL));
        let is_marked =
            byte(ATTRIBUTE_OPTIONS, 1).is_some_and(|bits| bits & BIND_ADDRESS_NO_PORT != 0);
        Some(Self {
            state: *body.get(1)?,
            local_port: port(4)?,
            remote_port: port(6)?,
            local,
            interface: word(40)?,
            cookie: u64::from_ne_bytes(*body.get(44..)?.first_chunk()?),
            uid: word(64)?,
            inode: word(68)?,
            v6only,
            has_spare,
            is_marked,
            will_take_calls,
        })
    }

    fn listening(&self) -> Listening {
        let both = self.local.is_ipv6() && !self.v6only;
        let bound_to_interface = self.interface != 0;
        Listening {
            address: self.local,
            both,
            bound_to_interface,
            cookie: self.cookie,
            uid: self.uid,
            has_spare: self.has_spare,
            is_marked: self.is_marked,
        }
    }
}

/// Types and values of attributes.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d, ..] = *rest else { return None };
        let len = usize::from(u16::from_ne_bytes([a, b])).max(4);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]), value))
    })
}

/// Splits an answer's first message off: its type, its body, and the rest.
pub(super) fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..len)?;
    Some((
        kind,
        body,
        bytes.get(len.next_multiple_of(4)..).unwrap_or_default(),
    ))
}

fn failure(body: &[u8]) -> io::Result<()> {
    let code = body
        .first_chunk()
        .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    match code.saturating_neg() {
        0 | ENOENT => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Bytes of a request.
const REQUEST_LENGTH: usize = HEADER + 56;

fn request(flags: u16, states: u32, local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_LENGTH] {
    let mut bytes = [0; REQUEST_LENGTH];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        if let Some(to) = bytes.get_mut(at..at + field.len()) {
            to.copy_from_slice(field);
        }
        at += field.len();
    };
    put(&(REQUEST_LENGTH as u32).to_ne_bytes());
    put(&BY_FAMILY.to_ne_bytes());
    put(&flags.to_ne_bytes());
    // The number of the request, and no port.
    put(&1u32.to_ne_bytes());
    put(&0u32.to_ne_bytes());
    let family = if local.is_ipv4() { INET } else { INET6 };
    put(&[family, TCP, 0, 0]);
    put(&states.to_ne_bytes());
    put(&local.port().to_be_bytes());
    put(&remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        match address {
            IpAddr::V4(address) => {
                put(&address.octets());
                put(&[0; 12]);
            }
            IpAddr::V6(address) => put(&address.octets()),
        }
    }
    // Any interface.
    put(&0u32.to_ne_bytes());
    // No cookie is asked for: any socket.
    put(&[0xff; 8]);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::{Kernel, Listening, candidates};

    fn cookie(socket: impl std::os::fd::AsFd) -> u64 {
        rustix::net::sockopt::socket_cookie(socket).unwrap()
    }

    #[test]
    fn both_ends_of_a_connection_are_known() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let kernel = Kernel::open().unwrap();
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let [near, far] = [client.local_addr().unwrap(), client.peer_addr().unwrap()];
            let end = kernel.end(near, far).unwrap().unwrap();
            assert_eq!(
                (end.cookie, end.held, end.established),
                (cookie(&client), true, true)
            );
            let queued = kernel.end(far, near).unwrap().unwrap();
            assert!(!queued.held, "it was not accepted");
            let server = listener.accept().unwrap().0;
            let end = kernel.end(far, near).unwrap().unwrap();
            assert_eq!((end.cookie, end.held), (cookie(&server), true));
            assert_eq!(
                (queued.cookie, end.uid),
                (end.cookie, rustix::process::getuid().as_raw())
            );
            let other = SocketAddr::new(near.ip(), near.port() ^ 1);
            assert_eq!(kernel.end(far, other).unwrap(), None, "not the listener");
        }
    }

    #[test]
    fn listeners_are_those_that_may_take_the_connection() {
        let kernel = Kernel::open().unwrap();
        let cookies = |address: &str, port| {
            let remote = SocketAddr::new(address.parse().unwrap(), port);
            let found = kernel.listeners(remote).unwrap();
            let likely = kernel.listener(remote).unwrap();
            assert_eq!(
                likely.map(|at| at.cookie),
                found.first().map(|at| at.cookie)
            );
            found.iter().map(|at| at.cookie).collect::<Vec<_>>()
        };
        let any = TcpListener::bind("[::]:0").unwrap();
        let port = any.local_addr().unwrap().port();
        assert_eq!(cookies("127.0.0.1", port), [cookie(&any)], "both families");
        assert_eq!(cookies("::1", port), [cookie(&any)]);
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = four.local_addr().unwrap().port();
        assert_eq!(cookies("127.0.0.1", port), [cookie(&four)]);
        assert_eq!(cookies("127.0.0.2", port), []);
        assert_eq!(cookies("::1", port), []);
        let mapped = TcpListener::bind("[::ffff:127.0.0.1]:0").unwrap();
        let port = mapped.local_addr().unwrap().port();
        assert_eq!(cookies("127.0.0.1", port), [cookie(&mapped)]);
    }

    #[test]
    fn the_very_address_comes_before_any() {
        let at = |address: &str, cookie| Listening {
            address: address.parse().unwrap(),
            both: false,
            bound_to_interface: false,
            cookie,
            has_spare: false,
            is_marked: false,
            uid: 0,
        };
        let all = vec![
            at("0.0.0.0", 1),
            at("127.0.0.1", 2),
            at("::", 3),
            at("127.0.0.2", 4),
        ];
        let cookies = |all: &[Listening], address: &str| {
            let found = candidates(all.to_vec(), address.parse().unwrap());
            found.iter().map(|at| at.cookie).collect::<Vec<_>>()
        };
        assert_eq!(cookies(&all, "127.0.0.1"), [2]);
        assert_eq!(cookies(&all, "127.0.0.9"), [1], "`::` is for IPv6 only");
        assert_eq!(cookies(&all, "::1"), [3]);
        let mut bound_to_interface = all.clone();
        bound_to_interface[0].bound_to_interface = true;
        assert_eq!(
            cookies(&bound_to_interface, "127.0.0.1"),
            [1, 2],
            "either, as it comes"
        );
        let mut both = all;
        both[2].both = true;
        assert_eq!(cookies(&both, "127.0.0.9"), [1, 3]);
    }
}
