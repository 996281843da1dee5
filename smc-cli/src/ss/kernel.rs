//! Sockets of the kernel's own SMC, by `sock_diag`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink;

use super::row::{Cursor, Details, Link, Memory, Mode, Row};
use crate::netlink::{
    DUMP, Refusal, ask, attributes, message, messages, read_until_unchanged, text, u16_at, u32_at,
    u64_at,
};

/// `AF_SMC`.
const FAMILY: u8 = 43;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// Bytes of the request behind its header, and of a record before its attributes.
const REQUEST: usize = 52;
const RECORD: usize = 64;
/// Attributes that are asked for: connection, link and memory.
const EXTENSIONS: u8 = 1 | 2 | 8;

/// The sockets, and why they are not all: mostly that the kernel has no SMC.
pub(super) fn rows() -> (Vec<Row>, Result<(), Refusal>) {
    read_until_unchanged(|| {
        let mut rows = Vec::new();
        let asked = ask(netlink::SOCK_DIAG, &request(), |kind, body| {
            add(kind, body, &mut rows);
        });
        (rows, asked.map_err(absent))
    })
}

/// The kernel knows no sockets of this family, or none that has a module for `sock_diag`.
const fn absent(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Kernel(Errno::NOENT | Errno::INVAL) => Refusal::Absent,
        other => other,
    }
}

/// The request of all sockets.
#[must_use]
pub fn request() -> Vec<u8> {
    let mut body = [0; REQUEST];
    let [family, _, _, extensions, ..] = &mut body;
    (*family, *extensions) = (FAMILY, EXTENSIONS);
    message(BY_FAMILY, DUMP, &body)
}

/// Adds the sockets of a datagram.
pub fn parse(datagram: &[u8], rows: &mut Vec<Row>) {
    for (kind, body) in messages(datagram) {
        add(kind, &body, rows);
    }
}

/// Adds the socket of a message.
fn add(kind: u16, body: &[u8], rows: &mut Vec<Row>) {
    if kind == BY_FAMILY {
        rows.extend(record(body));
    }
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
    for (kind, value) in attributes(message.get(RECORD..).unwrap_or_default()) {
        attribute(&mut row, kind, value);
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
