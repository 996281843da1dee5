//! The SMC-D part of the version-2 extension.

use core::fmt;

use zerocopy::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ClcParseError, IsmGidEntry, IsmGidList, Parts, put};
use crate::wire::types::{Chid, Eid};

/// The SMC-D devices that a Proposal offers in version 2.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SmcdOffer {
    /// System EID of the client, if it uses one.
    pub seid: Option<Eid>,
    /// The devices, but for that of the ISM area.
    pub devices: IsmGidList,
}

//= D-011
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawSmcdExtension {
    seid: [u8; 32],
    reserved: [u8; 16],
}
const _: () = assert!(size_of::<RawSmcdExtension>() == 48);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawEntry {
    gid: U64,
    chid: U16,
}
const _: () = assert!(size_of::<RawEntry>() == 10);

impl SmcdOffer {
    pub(super) fn parse(
        has_seid: bool,
        count: u8,
        parts: &mut Parts<'_>,
    ) -> Result<Self, ClcParseError> {
        let raw: RawSmcdExtension = parts.read()?;
        let entries = parts.list(count, |raw: RawEntry| IsmGidEntry {
            gid: raw.gid.get(),
            chid: Chid(raw.chid.get()),
        })?;
        Ok(Self {
            seid: has_seid.then_some(Eid(raw.seid)),
            devices: IsmGidList::from_entries(entries),
        })
    }

    pub(super) fn encoded_len(&self) -> usize {
        self.devices
            .entries()
            .len()
            .saturating_mul(size_of::<RawEntry>())
            .saturating_add(size_of::<RawSmcdExtension>())
    }

    pub(super) fn write<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let raw = RawSmcdExtension {
            seid: self.seid.unwrap_or_default().0,
            reserved: [0; 16],
        };
        let mut rest = put(buffer, &raw)?;
        for entry in self.devices.entries() {
            let raw = RawEntry {
                gid: U64::new(entry.gid),
                chid: U16::new(entry.chid.0),
            };
            rest = put(rest, &raw)?;
        }
        Some(rest)
    }
}

impl fmt::Display for SmcdOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seid) = self.seid {
            write!(f, "seid {seid} ")?;
        }
        write!(f, "ism-gids {}", self.devices)
    }
}
