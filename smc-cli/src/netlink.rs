//! Messages of netlink, by which the kernel says what its own SMC does.
//!
//! ```text
//!   nlmsghdr: length u32, type u16, flags u16, sequence u32, port u32 │ body │ padding to 4
//!   body of generic netlink: command u8, version u8, reserved u16 │ attributes
//!   attribute: length u16, type u16 │ value │ padding to 4
//! ```
//!
//! All numbers are in the byte order of the host. What is shorter than it says is left out with all
//! that follows it.

use std::io;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink,
};

/// `NLM_F_REQUEST | NLM_F_ACK`: the answer ends with a message about the outcome.
const ACKNOWLEDGED: u16 = 5;
/// `NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH`.
pub(crate) const DUMP: u16 = 0x301;
/// `NLMSG_ERROR`, and the end of a dump.
const ENDS: [u16; 2] = [2, 3];
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Bytes of the header of generic netlink.
const GENERIC: usize = 4;
/// Bytes of an attribute's header.
const ATTRIBUTE: usize = 4;
/// Flags among the bits of an attribute's type.
const TYPE: u16 = 0x3fff;
/// Most datagrams of an answer that are read.
const DATAGRAMS: usize = 1 << 16;

/// A message: `body` behind the header.
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = HEADER + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Number of the request, and port.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Sends a request, and gives each datagram of the answer to `take`, until that returns that it was
/// the last one.
///
/// # Errors
/// The kernel's, a time without an answer among them.
pub(crate) fn ask(
    protocol: Protocol,
    request: &[u8],
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(protocol),
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(2)))?;
    rustix::net::send(&socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..DATAGRAMS {
        let (length, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || take(buffer.get(..length).unwrap_or_default()) {
            break;
        }
    }
    Ok(())
}

/// Gives each message of a datagram, by its type and body, to `take`; whether the datagram is the
/// last one of an answer.
pub(crate) fn each(datagram: &[u8], mut take: impl FnMut(u16, &[u8])) -> bool {
    let mut rest = datagram;
    while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
        let Some(body) = rest.get(HEADER..length) else {
            return true;
        };
        let kind = u16_at(rest, 4).unwrap_or(0);
        if ENDS.contains(&kind) {
            return true;
        }
        take(kind, body);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// Attributes, each by its type and value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(ATTRIBUTE..length)?;
        let kind = u16_at(rest, 2)? & TYPE;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Text up to its first zero byte, without anything that a terminal would act on.
pub(crate) fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    smc_view::printable(bytes)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A number of 4 or of 8 bytes, as the kernel has room for it.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    u64_at(bytes, 0).or_else(|| u32_at(bytes, 0).map(u64::from))
}

/// Families of generic netlink are asked for at `GENL_ID_CTRL`, by `CTRL_CMD_GETFAMILY`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Asks a family of generic netlink, by its name, for all that a command lists. `take` gets the body
/// of each message, behind the header of generic netlink.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] without the family; others of the kernel.
pub(crate) fn list(family: &str, command: u8, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let number = family_number(family)?;
    let request = message(number, DUMP, &[command, 1, 0, 0]);
    ask(netlink::GENERIC, &request, |datagram| {
        each(datagram, |kind, body| {
            if let (true, Some(attributes)) = (kind == number, body.get(GENERIC..)) {
                take(attributes);
            }
        })
    })
}

/// The number that the kernel has given a family.
fn family_number(family: &str) -> io::Result<u16> {
    let mut number = None;
    ask(netlink::GENERIC, &family_request(family), |datagram| {
        each(datagram, |kind, body| {
            let body = body.get(GENERIC..).unwrap_or_default();
            let id = attributes(body).find(|(kind, _)| *kind == FAMILY_ID);
            if kind == CONTROL {
                number = number.or(id.and_then(|(_, value)| u16_at(value, 0)));
            }
        })
    })?;
    number.ok_or(io::ErrorKind::NotFound.into())
}

fn family_request(family: &str) -> Vec<u8> {
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    // With its end mark.
    let length = ATTRIBUTE + family.len() + 1;
    body.extend((length as u16).to_ne_bytes());
    body.extend(FAMILY_NAME.to_ne_bytes());
    body.extend(family.as_bytes());
    body.push(0);
    body.resize(body.len().next_multiple_of(4), 0);
    message(CONTROL, ACKNOWLEDGED, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_asked_for_by_its_name_with_an_end_mark() {
        let request = family_request("SMC");
        assert_eq!(u32_at(&request, 0), Some(28));
        assert_eq!(
            (u16_at(&request, 4), u16_at(&request, 6)),
            (Some(16), Some(5))
        );
        assert_eq!(&request[16..20], [3, 1, 0, 0]);
        assert_eq!(
            (u16_at(&request, 20), u16_at(&request, 22)),
            (Some(8), Some(2))
        );
        assert_eq!(&request[24..], b"SMC\0");
    }

    #[test]
    fn lengths_that_lie_end_what_is_read() {
        for lie in [0_u16, 3, 9, u16::MAX] {
            let mut bytes = vec![8, 0, 1, 0, 1, 2, 3, 4];
            bytes.extend(lie.to_ne_bytes());
            bytes.extend([2, 0, 5, 6]);
            assert_eq!(attributes(&bytes).count(), 1, "{lie}");
        }
        for lie in [0_u32, 15, 21, u32::MAX] {
            let mut datagram = message(7, DUMP, &[1; 4]);
            datagram.extend(lie.to_ne_bytes());
            datagram.extend([0; 16]);
            let mut seen = 0;
            assert!(each(&datagram, |_, _| seen += 1), "{lie}");
            assert_eq!(seen, 1, "{lie}");
        }
        // The type may have flags.
        let nested = [4, 0, 1, 0x80];
        assert_eq!(attributes(&nested).next(), Some((1, &[][..])));
        assert_eq!(number(&[1, 0, 0, 0]), number(&[1, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(number(&[1, 0, 0]), None);
    }
}
