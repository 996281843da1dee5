//! Abstract names of Unix sockets that listen, and the users that own them.
//!
//! By socket diagnosis for Unix sockets (`unix_diag`), which names users since Linux 5.3;
//! where the kernel has none, by `/proc/net/unix`, which does not.

use std::collections::HashMap;
use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::kernel::{BY_FAMILY, DONE, DUMP, ERROR, HEADER, LISTEN, REQUEST, attributes, split};

const UNIX: u8 = 1;
const SHOW_NAME: u32 = 0x01;
const SHOW_UID: u32 = 0x40;
/// Bytes before the attributes of an answer.
const MESSAGE: usize = 16;
const NAME: u16 = 0;
const UID: u16 = 7;
/// Length of a request with its header, in bytes.
const LENGTH: u32 = 40;

/// Users by the name of a socket, without its leading zero; `None` where the kernel does
/// not name the user.
pub(super) type Holders = HashMap<Vec<u8>, Option<u32>>;

/// All abstract names of this network namespace at which a socket listens.
pub(super) fn holders() -> Holders {
    diagnosed().unwrap_or_else(|_| listed())
}

fn diagnosed() -> io::Result<Holders> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    let protocol = Some(netlink::SOCK_DIAG);
    let make = || rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
    let socket = crate::descriptors::keep(make)?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut holders = Holders::new();
    let mut bytes = vec![0; 32 << 10];
    loop {
        let (len, _) = rustix::net::recv(&socket, &mut bytes[..], RecvFlags::DONTWAIT)?;
        let mut rest = bytes.get(..len).unwrap_or_default();
        while let Some((kind, body, next)) = split(rest) {
            match kind {
                BY_FAMILY => holders.extend(holder(body)),
                DONE => return Ok(holders),
                ERROR => return Err(io::ErrorKind::Unsupported.into()),
                _ => {}
            }
            rest = next;
        }
    }
}

fn holder(body: &[u8]) -> Option<(Vec<u8>, Option<u32>)> {
    let (mut name, mut uid) = (None, None);
    for (kind, value) in attributes(body.get(MESSAGE..)?) {
        match (kind, value) {
            // An abstract name begins with a zero.
            (NAME, [0, abstract_name @ ..]) => name = Some(abstract_name.to_vec()),
            (UID, value) => uid = value.first_chunk().map(|at| u32::from_ne_bytes(*at)),
            _ => {}
        }
    }
    Some((name?, uid))
}

fn request() -> Vec<u8> {
    let mut bytes = LENGTH.to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend((REQUEST | DUMP).to_ne_bytes());
    bytes.extend([1u32, 0].map(u32::to_ne_bytes).concat());
    debug_assert_eq!(bytes.len(), HEADER);
    bytes.extend([UNIX, 0, 0, 0]);
    // States; no single inode; what to show; no cookie.
    let rest = [1 << LISTEN, 0, SHOW_NAME | SHOW_UID, u32::MAX, u32::MAX];
    bytes.extend(rest.map(u32::to_ne_bytes).concat());
    bytes
}

fn listed() -> Holders {
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    // An abstract name begins with an at sign there, and ends the line.
    let name = |line: &[u8]| {
        let at = line.windows(2).position(|pair| pair == b" @")?;
        line.get(at + 2..).map(<[u8]>::to_vec)
    };
    lines.filter_map(name).map(|name| (name, None)).collect()
}

#[cfg(test)]
mod tests {
    use rustix::net::SocketAddrUnix;

    use super::{diagnosed, listed};
    use crate::shared::socket::Socket;

    #[test]
    fn both_tables_have_a_name_while_a_socket_listens_at_it() {
        let name = format!("smc-d.test.names.{}", std::process::id()).into_bytes();
        let socket = Socket::unconnected().unwrap();
        let address = SocketAddrUnix::new_abstract_name(&name).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(diagnosed().unwrap().get(&name), Some(&Some(own)));
        assert_eq!(listed().get(&name), Some(&None));
        drop(socket);
        assert!(!diagnosed().unwrap().contains_key(&name));
        assert!(!listed().contains_key(&name));
    }
}
