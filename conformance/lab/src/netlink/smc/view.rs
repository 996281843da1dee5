//! `sock_diag`: what carries each SMC socket, and why not SMC.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::super::message::{DUMP, Request};
use super::super::socket::{Message, Socket};

const BY_FAMILY: u16 = 20;
const AF_SMC: u8 = 43;
/// Connection and link group, of what can be asked for.
const EXTENSIONS: u8 = 1 | 2;
/// The memory of SMC-D besides.
const ALL_EXTENSIONS: u8 = EXTENSIONS | 8;
/// `smc_diag_req`: family u8, pad u8[2], extensions u8, socket identity of 48 bytes.
const REQUEST: usize = 52;
/// Up to the attributes: family, state, mode, pad, socket identity, uid u32, inode u64.
const MESSAGE: usize = 64;
const INODE: usize = 56;
const FALLBACK: u16 = 5;
const LINK_GROUP: u16 = 2;

/// What carries a socket's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carried {
    /// SMC-R.
    SmcR,
    /// SMC-D.
    SmcD,
    /// TCP: the reason, and the one that the peer gave.
    Tcp(u32, u32),
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmcR => f.write_str("SMC-R"),
            Self::SmcD => f.write_str("SMC-D"),
            Self::Tcp(reason, 0) => write!(f, "TCP {reason:#010x}"),
            Self::Tcp(reason, peer) => write!(f, "TCP {reason:#010x}/{peer:#010x}"),
        }
    }
}

/// A socket in the kernel's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketView {
    /// Inode number, which `fstat` reports for its descriptor, too.
    pub inode: u64,
    /// The state's number.
    pub state: u8,
    /// What carries it.
    pub carried: Carried,
    /// The link's number within its group, if SMC-R.
    pub link: Option<u8>,
}

/// All SMC sockets.
///
/// # Errors
/// Of the kernel; if the module smc_diag is not loaded, that there is no such file.
pub fn sockets() -> io::Result<Vec<SocketView>> {
    Ok(ask(EXTENSIONS)?.iter().filter_map(view).collect())
}

/// The records of all SMC sockets, with everything that can be asked for.
///
/// # Errors
/// Errors of [`sockets`].
pub fn records() -> io::Result<Vec<Vec<u8>>> {
    let messages = ask(ALL_EXTENSIONS)?;
    Ok(messages.into_iter().map(|at| at.payload).collect())
}

fn ask(extensions: u8) -> io::Result<Vec<Message>> {
    let mut header = [0; REQUEST];
    header[0] = AF_SMC;
    header[3] = extensions;
    Socket::diagnosis()?.ask(Request::new(BY_FAMILY, DUMP, &header))
}

fn view(message: &Message) -> Option<SocketView> {
    let [_, state, mode, _] = *message.payload.first_chunk()?;
    let inode = u64::from_ne_bytes(*message.payload.get(INODE..)?.first_chunk()?);
    let attributes = message.attributes(MESSAGE);
    let carried = match mode {
        0 => Carried::SmcR,
        2 => Carried::SmcD,
        _ => {
            let fallback = attributes.get(FALLBACK)?;
            let reason = u32::from_ne_bytes(*fallback.first_chunk()?);
            let peer = u32::from_ne_bytes(*fallback.get(4..)?.first_chunk()?);
            Carried::Tcp(reason, peer)
        }
    };
    let link = attributes
        .get(LINK_GROUP)
        .and_then(|group| group.first().copied());
    Some(SocketView {
        inode,
        state,
        carried,
        link,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::message::{HEADER, Request};
    use super::{Carried, FALLBACK, MESSAGE, Message, view};

    #[test]
    fn a_socket_that_fell_back_is_reported_with_both_reasons() {
        let mut header = [0; MESSAGE];
        header[..3].copy_from_slice(&[43, 1, 1]);
        header[56..].copy_from_slice(&77_u64.to_ne_bytes());
        let mut reasons = 0x0500_0000_u32.to_ne_bytes().to_vec();
        reasons.extend_from_slice(&0x0303_0000_u32.to_ne_bytes());
        let bytes = Request::new(20, 0, &header)
            .attribute(FALLBACK, &reasons)
            .finish();
        let message = Message {
            kind: 20,
            payload: bytes[HEADER..].to_vec(),
        };
        let seen = view(&message).expect("a view");
        assert_eq!(seen.inode, 77);
        assert_eq!(seen.carried, Carried::Tcp(0x0500_0000, 0x0303_0000));
        assert_eq!(seen.carried.to_string(), "TCP 0x05000000/0x03030000");
        let cut = Message {
            kind: 20,
            payload: bytes[HEADER..HEADER + 60].to_vec(),
        };
        assert_eq!(view(&cut), None);
    }
}
