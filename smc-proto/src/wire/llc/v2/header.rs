//! The four octets every LLC message of version 2 starts with.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{LLC_LENGTH, LlcParseError};
use crate::wire::BufferTooSmall;

/// What the type octets of version 2 have beyond those of version 1.
const VERSION_2: u8 = 0x20;
/// R: the message is a reply.
const REPLY: u8 = 0x80;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) kind: u8,
    length: [u8; 2],
    pub(super) flags: u8,
}
const _: () = assert!(size_of::<RawHeader>() == 4);

impl RawHeader {
    /// The header of a message of `length` octets with `flags` beside R.
    //= V2-151
    pub(super) const fn new(kind: u8, length: usize, reply: bool, flags: u8) -> Self {
        Self {
            kind,
            length: (length as u16).to_be_bytes(),
            flags: if reply { flags | REPLY } else { flags },
        }
    }

    pub(super) const fn is_reply(&self) -> bool {
        self.flags & REPLY != 0
    }
}

/// Judges the length in the header, which is in the order of the sender's
/// machine. It serves for nothing else.
//= V2-151
pub(super) fn check_header(octets: &[u8; LLC_LENGTH]) -> Result<(), LlcParseError> {
    let [_, high, low, ..] = *octets;
    let length = u16::from_be_bytes([high, low]);
    if usize::from(length.max(length.swap_bytes())) < LLC_LENGTH {
        return Err(LlcParseError::BadLengthV2 { length });
    }
    Ok(())
}

/// A message of version 1 in the form of version 2; its reason, if it has one,
/// has no place there.
//= V2-150
pub(super) const fn version_2(mut octets: [u8; LLC_LENGTH], length: usize) -> [u8; LLC_LENGTH] {
    let [kind, high, low, ..] = &mut octets;
    *kind |= VERSION_2;
    [*high, *low] = (length as u16).to_be_bytes();
    octets
}

/// Writes a message that is as in version 1 but for its header.
pub(super) fn emit_common(
    octets: [u8; LLC_LENGTH],
    buffer: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    match buffer.first_chunk_mut::<LLC_LENGTH>() {
        Some(buffer) => {
            *buffer = version_2(octets, LLC_LENGTH);
            Ok(LLC_LENGTH)
        }
        None => Err(BufferTooSmall { needed: LLC_LENGTH }),
    }
}
