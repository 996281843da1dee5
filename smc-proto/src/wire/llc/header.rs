//! The four octets every LLC message starts with.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{LLC_LENGTH, LlcParseError};
use crate::version::SmcVersion;

/// R: the message is a reply.
const REPLY: u8 = 0x80;
/// What the type octets of version 2 have beyond those of version 1.
pub(super) const VERSION_2: u8 = 0x20;

/// The header in the form of version 1. In version 2 the two octets behind the type are
/// the length; messages are composed with this header and get that form at last.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) kind: u8,
    length: u8,
    /// Reserved but in ADD LINK, whose reason is in the low nibble.
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

/// Judges the length in a header. In version 2 it is in the order of the sender's
/// machine, and serves for nothing else.
//= LLC-001
//= V2-151
pub(super) fn check_length(
    octets: &[u8; LLC_LENGTH],
    version: SmcVersion,
) -> Result<(), LlcParseError> {
    let [_, first, second, ..] = *octets;
    match version {
        SmcVersion::V1 if usize::from(first) != LLC_LENGTH => {
            Err(LlcParseError::BadLength { length: first })
        }
        SmcVersion::V1 => Ok(()),
        SmcVersion::V2 => {
            let length = u16::from_be_bytes([first, second]);
            if usize::from(length.max(length.swap_bytes())) < LLC_LENGTH {
                return Err(LlcParseError::BadLengthV2 { length });
            }
            Ok(())
        }
    }
}

/// Gives a whole message of version 1 the header of version 2. The reason of an ADD LINK
/// has no place there.
//= V2-150
//= V2-151
pub(super) fn become_version_2(message: &mut [u8]) {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    if let [kind, high, low, ..] = message {
        *kind |= VERSION_2;
        [*high, *low] = length.to_be_bytes();
    }
}

/// How `Display` marks a request or a reply.
pub(super) const fn direction(reply: bool) -> &'static str {
    if reply { "reply" } else { "request" }
}
