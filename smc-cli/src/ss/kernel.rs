//! Sockets of the kernel's own SMC, by `sock_diag`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::row::{Cursor, Details, Link, Memory, Mode, Row};

/// `AF_SMC`.
const FAMILY: u8 = 43;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
const DUMP: u16 = 0x301;
/// `NLMSG_ERROR`, and the end of a dump.
const ENDS: [u16; 2] = [2, 3];
/// Bytes of the request behind its header, and of a record before its attributes.
const REQUEST: usize = 52;
const RECORD: usize = 64;
/// Attributes that are asked for: connection, link and memory.
const EXTENSIONS: u8 = 1 | 2 | 8;
/// Most messages of an answer that are read.
const MESSAGES: usize = 1 << 16;

/// The sockets, or why there are none to be had: mostly that the kernel has no SMC.
///
/// # Errors
/// The kernel's.
pub(super) fn rows() -> io::Result<Vec<Row>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(2)))?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let (mut rows, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    for _ in 0..MESSAGES {
        let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || parse(buffer.get(..length).unwrap_or_default(), &mut rows) {
            break;
        }
    }
    Ok(rows)
}

/// The request of all sockets.
#[must_use]
pub fn request() -> Vec<u8> {
    let length = 16 + REQUEST;
    let mut request = Vec::with_capacity(length);
    request.extend((length as u32).to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    // Number of the request, and port.
    request.extend([0; 8]);
    request.extend([FAMILY, 0, 0, EXTENSIONS]);
    request.resize(length, 0);
    request
}

/// Adds the sockets of a datagram; whether it is the last one.
pub fn parse(datagram: &[u8], rows: &mut Vec<Row>) -> bool {
    let mut rest = datagram;
    while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
        let Some(message) = rest.get(16..length) else {
            return true;
        };
        let kind = u16_at(rest, 4).unwrap_or(0);
        if ENDS.contains(&kind) {
            return true;
        }
        if kind == BY_FAMILY {
            rows.extend(record(message));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

fn record(message: &[u8]) -> Option<Row> {
    let &[family, state, mode, _, ..] = message else {
        return None;
    };
    if family != FAMILY {
        return None;
    }
    let port = |at: usize| {
        Some(u16::from_be_bytes(
            message.get(at..at + 2)?.try_into().ok()?,
        ))
    };
    let mut row = Row {
        state,
        uid: u32_at(message, 52)?,
        inode: u64_at(message, 56)?,
        local: SocketAddr::new(address(message, 8)?, port(4)?),
        peer: SocketAddr::new(address(message, 24)?, port(6)?),
        interface: u32_at(message, 40)?,
        mode: match mode {
            0 => Mode::SmcR,
            1 => Mode::Tcp(0, 0),
            2 => Mode::SmcD,
            _ => Mode::Unknown,
        },
        shut: [false; 2],
        details: None,
        link: None,
        memory: None,
        owner: None,
        sentence: None,
        remedy: None,
        bytes: None,
    };
    let mut rest = message.get(RECORD..).unwrap_or_default();
    while let Some(length) = u16_at(rest, 0).map(usize::from) {
        let Some(value) = rest.get(4..length) else {
            break;
        };
        attribute(&mut row, u16_at(rest, 2).unwrap_or(0), value);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(row)
}

fn attribute(row: &mut Row, kind: u16, value: &[u8]) {
    match kind {
        1 => row.details = details(value),
        2 => row.link = link(value),
        3 => {
            let bits = value.first().copied().unwrap_or(0);
            row.shut = [bits & 1 != 0, bits & 2 != 0];
        }
        4 => row.memory = memory(value),
        5 => {
            if let (Mode::Tcp(..), Some(own), Some(peer)) =
                (row.mode, u32_at(value, 0), u32_at(value, 4))
            {
                row.mode = Mode::Tcp(own, peer);
            }
        }
        _ => {}
    }
}

fn details(value: &[u8]) -> Option<Details> {
    let cursor = |at: usize| {
        Some(Cursor {
            wrap: u16_at(value, at + 2)?,
            count: u32_at(value, at + 4)?,
        })
    };
    let flags = value.get(48..52)?;
    Some(Details {
        token: u32_at(value, 0)?,
        buffers: [u32_at(value, 4)?, u32_at(value, 8)?, u32_at(value, 12)?],
        received: [cursor(16)?, cursor(24)?],
        sent: [cursor(32)?, cursor(40)?],
        flags: [
            [*flags.first()?, *flags.get(1)?],
            [*flags.get(2)?, *flags.get(3)?],
        ],
        progress: [cursor(52)?, cursor(60)?, cursor(68)?],
    })
}

fn link(value: &[u8]) -> Option<Link> {
    Some(Link {
        link: *value.first()?,
        device: text(value.get(1..65)?),
        port: *value.get(65)?,
        gids: [text(value.get(66..106)?), text(value.get(106..146)?)],
        is_server: *value.get(146)? != 0,
    })
}

fn memory(value: &[u8]) -> Option<Memory> {
    Some(Memory {
        group: u32_at(value, 0)?,
        peer_gid: u64_at(value, 8)?,
        gid: u64_at(value, 16)?,
        token: u64_at(value, 24)?,
        peer_token: u64_at(value, 32)?,
    })
}

/// The address of four words, which is one of IPv4 if the last three are zero.
fn address(message: &[u8], at: usize) -> Option<IpAddr> {
    let octets: [u8; 16] = message.get(at..at + 16)?.try_into().ok()?;
    let [a, b, c, d, rest @ ..] = octets;
    Some(match rest {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => Ipv4Addr::new(a, b, c, d).into(),
        _ => Ipv6Addr::from(octets).into(),
    })
}

/// Text up to its first zero byte, without anything that a terminal would act on.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    smc_view::printable(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
