//! The entries of the messages that list RTokens.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LlcParseError;
use crate::wire::list;
use crate::wire::types::{BoundedList, Gid, LinkNumber, RKey, RToken};

/// Most links an RMB is announced for beside the one that carries the
/// message: eight symmetric links and an asymmetric one make nine (AMB-03).
pub const MAX_OTHER_LINKS: u8 = 8;

/// Most links an RMB is announced for beside the one that carries the message
/// in version 2, which has no CONTINUATIONs.
//= V2-159
pub const MAX_OTHER_LINKS_V2: u8 = 2;

/// An RMB as known on the link that carries the message, and its RToken on the
/// link being added (ADD LINK CONTINUATION, 16 octets).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RTokenPair {
    /// Key of the RMB on the link that carries the message.
    pub reference: RKey,
    /// RToken of the RMB on the new link.
    pub new: RToken,
}

/// The RToken of an RMB on a link named by its number (CONFIRM RKEY, 13
/// octets).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkRToken {
    /// The link.
    pub link: LinkNumber,
    /// The RToken on that link.
    pub rtoken: RToken,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
/// Octets of an [`RTokenPair`].
pub struct RawPair {
    reference: U32,
    rkey: U32,
    address: U64,
}
const _: () = assert!(size_of::<RawPair>() == 16);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
/// Octets of a [`LinkRToken`].
pub struct RawLinkRToken {
    link: u8,
    rkey: U32,
    address: U64,
}
const _: () = assert!(size_of::<RawLinkRToken>() == 13);

/// An entry and its octets.
///
/// Public in a private module: the trait bounds public types, and no others have it.
pub trait Entry: Copy + Default {
    /// The octets.
    type Raw: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Copy;
    /// The entry of these octets.
    fn from_raw(raw: Self::Raw) -> Self;
    /// The octets of the entry.
    fn to_raw(self) -> Self::Raw;
}

impl Entry for RTokenPair {
    type Raw = RawPair;
    fn from_raw(raw: RawPair) -> Self {
        Self {
            reference: RKey(raw.reference.get()),
            new: RToken {
                rkey: RKey(raw.rkey.get()),
                address: raw.address.get(),
            },
        }
    }
    fn to_raw(self) -> RawPair {
        RawPair {
            reference: U32::new(self.reference.0),
            rkey: U32::new(self.new.rkey.0),
            address: U64::new(self.new.address),
        }
    }
}

impl Entry for LinkRToken {
    type Raw = RawLinkRToken;
    fn from_raw(raw: RawLinkRToken) -> Self {
        Self {
            link: LinkNumber(raw.link),
            rtoken: RToken {
                rkey: RKey(raw.rkey.get()),
                address: raw.address.get(),
            },
        }
    }
    fn to_raw(self) -> RawLinkRToken {
        RawLinkRToken {
            link: self.link.0,
            rkey: U32::new(self.rtoken.rkey.0),
            address: U64::new(self.rtoken.address),
        }
    }
}

impl Entry for Gid {
    type Raw = [u8; 16];
    fn from_raw(raw: [u8; 16]) -> Self {
        Self(raw)
    }
    fn to_raw(self) -> [u8; 16] {
        self.0
    }
}

impl Entry for RKey {
    type Raw = U32;
    fn from_raw(raw: U32) -> Self {
        Self(raw.get())
    }
    fn to_raw(self) -> U32 {
        U32::new(self.0)
    }
}

/// The entries at the start of `octets`: as many as are still to be announced, but no
/// more than fit one message.
pub(super) fn parse<E: Entry, const N: usize>(octets: &[u8], left: u8) -> BoundedList<E, N> {
    // The area has room for N entries, so that this cannot fail.
    list::entries(octets, usize::from(left), E::from_raw).unwrap_or_default()
}

/// The octets of the entries, zero where there are none.
pub(super) fn emit<E: Entry, const N: usize>(entries: &BoundedList<E, N>) -> [E::Raw; N] {
    let mut raw = [E::default().to_raw(); N];
    for (raw, entry) in raw.iter_mut().zip(entries) {
        *raw = entry.to_raw();
    }
    raw
}

/// Judges the count at offset 4.
pub(super) fn check_count(kind: u8, count: u8, least: u8, most: u8) -> Result<(), LlcParseError> {
    if count < least || count > most {
        return Err(LlcParseError::CountOutOfRange {
            kind,
            count,
            least,
            most,
        });
    }
    Ok(())
}

impl fmt::Display for RTokenPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.reference, self.new)
    }
}

impl fmt::Display for LinkRToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.link, self.rtoken)
    }
}
