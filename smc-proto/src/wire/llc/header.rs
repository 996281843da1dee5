//! The four octets every LLC message starts with.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LLC_LENGTH;

/// R: the message is a reply.
const REPLY: u8 = 0x80;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) kind: u8,
    length: u8,
    /// Reserved but in ADD LINK, whose reason stands in the low nibble.
    pub(super) reason: u8,
    pub(super) flags: u8,
}

impl RawHeader {
    /// The header of a message with `flags` beside R.
    pub(super) const fn new(kind: u8, reply: bool, flags: u8) -> Self {
        Self {
            kind,
            length: LLC_LENGTH as u8,
            reason: 0,
            flags: if reply { flags | REPLY } else { flags },
        }
    }

    //= LLC-003
    pub(super) const fn is_reply(&self) -> bool {
        self.flags & REPLY != 0
    }
}

/// How `Display` marks a request or a reply.
pub(super) const fn direction(reply: bool) -> &'static str {
    if reply { "reply" } else { "request" }
}
