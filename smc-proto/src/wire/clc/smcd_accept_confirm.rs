//! Accept and Confirm of SMC-D: the sender's device and the DMB it gives to
//! the connection.

use core::fmt;

use zerocopy::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::first_contact::Technology;
use super::header::{FLAG, RawHeader};
use super::parts::{Parts, put};
use super::{
    BufferTooSmall, ClcHeader, ClcKind, ClcParseError, ClcVersion, EYE_CATCHER_SMCD,
    FirstContactExtension, SMCD_ACCEPT_CONFIRM_LENGTH, SMCD_ACCEPT_CONFIRM_V2_LENGTH,
};
use crate::version::SERVES_V2;
use crate::wire::emit_exactly;
use crate::wire::types::{BufferSize, Chid, DmbToken, Eid, IsmGid};

/// Contents of an Accept or of a Confirm of SMC-D.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SmcdAcceptConfirm {
    /// First contact of a link group (octet 7, 0x08).
    pub first_contact: bool,
    /// GID of the sender's device; of an emulated one the first 64 bits.
    pub gid: u64,
    /// The sender's DMB.
    pub token: DmbToken,
    /// Element of that DMB; 0 in use.
    pub dmbe_index: u8,
    /// Size of the element.
    pub buffer_size: BufferSize,
    /// The sender's name for the link group, four octets that are not checked.
    pub link_id: [u8; 4],
    /// What version 2 adds; `None` in version 1.
    pub v2: Option<SmcdAcceptConfirmV2>,
}

/// What version 2 adds to an Accept or Confirm of SMC-D.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SmcdAcceptConfirmV2 {
    /// Channel ID of the device that was chosen.
    pub chid: Chid,
    /// EID that was chosen.
    pub eid: Eid,
    /// Other half of the GID of an emulated device; zero for a real one.
    pub gid_ext: u64,
    /// On first contact; not sent without, and the default then.
    pub extension: FirstContactExtension,
}

//= D-020
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawCommon {
    header: RawHeader,
    gid: U64,
    token: U64,
    dmbe_index: u8,
    size: u8,
    reserved_26: [u8; 2],
    link_id: [u8; 4],
}
const _: () = assert!(size_of::<RawCommon>() == 32);

//= D-021
const RESERVED_V1: usize = 12;
const _: () = assert!(SMCD_ACCEPT_CONFIRM_LENGTH == size_of::<RawCommon>() + RESERVED_V1 + 4);

//= D-022
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawV2 {
    chid: U16,
    eid: [u8; 32],
    gid_ext: U64,
}
const _: () =
    assert!(SMCD_ACCEPT_CONFIRM_V2_LENGTH == size_of::<RawCommon>() + size_of::<RawV2>() + 4);

impl SmcdAcceptConfirm {
    /// The sender's device; its channel is sent in version 2 only.
    #[must_use]
    pub fn device(&self) -> IsmGid {
        let v2 = self.v2.unwrap_or_default();
        IsmGid {
            gid: self.gid,
            gid_ext: v2.gid_ext,
            chid: v2.chid,
        }
    }

    /// What version 2 adds, as far as it is written.
    fn written_v2(&self) -> Option<&SmcdAcceptConfirmV2> {
        self.v2.as_ref().filter(|_| SERVES_V2)
    }

    pub(super) fn encoded_len(&self) -> usize {
        match self.written_v2() {
            None => SMCD_ACCEPT_CONFIRM_LENGTH,
            Some(v2) if self.first_contact => v2
                .extension
                .encoded_len(Technology::SmcD)
                .saturating_add(SMCD_ACCEPT_CONFIRM_V2_LENGTH),
            Some(_) => SMCD_ACCEPT_CONFIRM_V2_LENGTH,
        }
    }

    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let mut parts = Parts::new(header, octets);
        let raw: RawCommon = parts.read()?;
        let first_contact = header.has_flag();
        let v2 = if header.version.is_v1() {
            None
        } else if !SERVES_V2 {
            parts.pass_over();
            Some(SmcdAcceptConfirmV2::default())
        } else {
            Some(SmcdAcceptConfirmV2::parse(&mut parts, first_contact)?)
        };
        Ok(Self {
            first_contact,
            gid: raw.gid.get(),
            token: DmbToken(raw.token.get()),
            dmbe_index: raw.dmbe_index,
            buffer_size: BufferSize::from_code(raw.size >> 4),
            link_id: raw.link_id,
            v2,
        })
    }

    pub(super) fn emit(&self, kind: ClcKind, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len();
        emit_exactly(needed, buffer, |buffer| {
            self.write(kind, needed as u16, buffer)
        })
    }

    fn write<'a>(&self, kind: ClcKind, length: u16, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let version = match self.written_v2() {
            None => ClcVersion::V1,
            Some(_) => ClcVersion::V2,
        };
        let flags = if self.first_contact { FLAG } else { 0 };
        let raw = RawCommon {
            header: RawHeader::smcd(kind, length, version, flags),
            gid: U64::new(self.gid),
            token: U64::new(self.token.0),
            dmbe_index: self.dmbe_index,
            size: self.buffer_size.code() << 4,
            reserved_26: [0; 2],
            link_id: self.link_id,
        };
        let rest = put(buffer, &raw)?;
        let rest = match self.written_v2() {
            None => put(rest, &[0u8; RESERVED_V1])?,
            Some(v2) => v2.write(rest, self.first_contact)?,
        };
        put(rest, &EYE_CATCHER_SMCD)
    }
}

impl SmcdAcceptConfirmV2 {
    fn parse(parts: &mut Parts<'_>, first_contact: bool) -> Result<Self, ClcParseError> {
        let raw: RawV2 = parts.read()?;
        Ok(Self {
            chid: Chid(raw.chid.get()),
            eid: Eid(raw.eid),
            gid_ext: raw.gid_ext.get(),
            //= V2-055
            extension: if first_contact {
                FirstContactExtension::parse(parts, Technology::SmcD)?
            } else {
                FirstContactExtension::default()
            },
        })
    }

    fn write<'a>(&self, buffer: &'a mut [u8], first_contact: bool) -> Option<&'a mut [u8]> {
        let raw = RawV2 {
            chid: U16::new(self.chid.0),
            eid: self.eid.0,
            gid_ext: U64::new(self.gid_ext),
        };
        let rest = put(buffer, &raw)?;
        if first_contact {
            self.extension.write(rest, Technology::SmcD)
        } else {
            Some(rest)
        }
    }
}

impl fmt::Display for SmcdAcceptConfirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.v2.is_some() { "v2" } else { "v1" };
        let contact = super::accept_confirm::contact(self.first_contact);
        write!(
            f,
            "SMC-D {version} {contact} gid 0x{:016x} dmb {} dmbe {} size {} link-id ",
            self.gid, self.token, self.dmbe_index, self.buffer_size,
        )?;
        for octet in self.link_id {
            write!(f, "{octet:02x}")?;
        }
        if let Some(v2) = &self.v2 {
            write!(
                f,
                " chid {} gid-ext 0x{:016x} eid {}",
                v2.chid, v2.gid_ext, v2.eid
            )?;
            if self.first_contact {
                write!(f, " {}", v2.extension)?;
            }
        }
        Ok(())
    }
}
