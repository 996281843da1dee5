//! The generic netlink family `SMC_GEN_NETLINK`.

use std::io;

use super::super::malformed;
use super::super::message::{ACK, DUMP, Request};
use super::super::socket::{Message, Socket};
use crate::orders::Counts;

/// `genlmsghdr`: command u8, version u8, reserved u16.
const HEADER: usize = 4;
/// The family that knows the others.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

const LINK_GROUPS: u8 = 2;
const STATISTICS: u8 = 7;
const FALLBACKS: u8 = 8;
const UEIDS: u8 = 9;
const ADD_UEID: u8 = 10;
const FLUSH_UEIDS: u8 = 12;
/// The nests that answers are in.
const NEST_LINK_GROUP: u16 = 2;
const NEST_STATISTICS: u16 = 7;
const NEST_FALLBACK: u16 = 8;
/// A UEID's text.
const UEID: u16 = 1;
const UEID_LENGTH: usize = 32;

/// The kernel's SMC, as an administrator sees it.
#[derive(Debug)]
pub struct Smc {
    socket: Socket,
    family: u16,
}

impl Smc {
    /// Finds the family.
    ///
    /// # Errors
    /// If the module smc is not loaded, among others.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::generic()?;
        let request =
            Request::new(CONTROL, ACK, &[GET_FAMILY, 1, 0, 0]).text(FAMILY_NAME, "SMC_GEN_NETLINK");
        let answer = socket.ask(request)?;
        let family = answer
            .first()
            .and_then(|message| message.attributes(HEADER).u16(FAMILY_ID));
        let family = family.ok_or_else(|| malformed("no family"))?;
        Ok(Self { socket, family })
    }

    /// Adds a user-defined EID, padded with blanks.
    ///
    /// # Errors
    /// Of the kernel: malformed, too many, there already.
    pub fn add_ueid(&self, ueid: &str) -> io::Result<()> {
        let text = format!("{ueid:<UEID_LENGTH$}");
        self.socket
            .ask(self.request(ADD_UEID, ACK).text(UEID, &text))
            .map(drop)
    }

    /// Removes all of them.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn flush_ueids(&self) -> io::Result<()> {
        self.socket.ask(self.request(FLUSH_UEIDS, ACK)).map(drop)
    }

    /// Returns the entries there are, without the padding.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn ueids(&self) -> io::Result<Vec<String>> {
        let messages = self.dump(UEIDS)?;
        let texts = messages
            .iter()
            .filter_map(|message| message.attributes(HEADER).get(UEID));
        Ok(texts.map(text).collect())
    }

    /// What was counted since the module was loaded, and the link groups there are.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        for message in self.dump(STATISTICS)? {
            if let Some(nest) = message.attributes(HEADER).nest(NEST_STATISTICS) {
                let errors = |kind| nest.u64(kind).unwrap_or_default();
                counts.handshake_errors = (errors(3), errors(4));
            }
        }
        for message in self.dump(FALLBACKS)? {
            let Some(nest) = message.attributes(HEADER).nest(NEST_FALLBACK) else {
                continue;
            };
            if let (Some(kind), Some(code), Some(count)) = (nest.u8(1), nest.u32(4), nest.u16(5))
                && count > 0
            {
                counts.fallbacks.push((kind == 1, code, count));
            }
        }
        for message in self.dump(LINK_GROUPS)? {
            let Some(nest) = message.attributes(HEADER).nest(NEST_LINK_GROUP) else {
                continue;
            };
            if let (Some(id), Some(kind), Some(connections)) =
                (nest.u32(1), nest.u8(3), nest.u32(6))
            {
                counts.link_groups.push((id, kind, connections));
            }
        }
        Ok(counts)
    }

    fn dump(&self, command: u8) -> io::Result<Vec<Message>> {
        self.socket.ask(self.request(command, DUMP))
    }

    fn request(&self, command: u8, flags: u16) -> Request {
        Request::new(self.family, flags, &[command, 1, 0, 0])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches(['\0', ' '])
        .to_owned()
}
