//! Accept and Confirm of SMC-R (RFC 7609 A.2.3, A.2.4): one layout, 68 octets
//! in version 1, more in version 2. Each describes the sender's end of the
//! link and the RMB element it gives to the connection.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::first_contact::Technology;
use super::header::{FLAG, RawHeader};
use super::parts::{Parts, put};
use super::{
    ACCEPT_CONFIRM_LENGTH, ACCEPT_CONFIRM_V2_LENGTH, BufferTooSmall, ClcHeader, ClcKind,
    ClcParseError, ClcVersion, EYE_CATCHER, FirstContactExtension, GidList,
};
use crate::version::SERVES_V2;
use crate::wire::emit_exactly;
use crate::wire::types::{
    AlertToken, BufferSize, Eid, Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

/// Contents of an Accept or of a Confirm of SMC-R.
///
/// A reserved MTU code and an element index of 0 survive: whether they matter
/// depends on first contact (CLC-041, CLC-074 to CLC-076), which is not for
/// the codec to judge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AcceptConfirm {
    /// First contact of a link group (octet 7, 0x08). RFC 7609 has the bit in
    /// Accept only; Linux sets it in Confirm as well, and so it is read and
    /// written in both.
    pub first_contact: bool,
    /// Identity of the sender.
    pub peer_id: PeerId,
    /// GID of the sender's end of the link.
    pub gid: Gid,
    /// MAC of the sender's end of the link.
    pub mac: Mac,
    /// Queue pair of the sender's end of the link.
    pub qpn: Qpn,
    /// Start of the sender's RMB, as valid over that link.
    pub rtoken: RToken,
    /// Element of that RMB, 1 to 255.
    pub rmbe_index: RmbeIndex,
    /// Token of the connection, which the receiver returns in its CDC
    /// messages.
    pub alert_token: AlertToken,
    /// Size of the element.
    pub buffer_size: BufferSize,
    /// Path MTU the sender can use.
    pub mtu: Mtu,
    /// First packet sequence number the sender will use on the queue pair.
    pub psn: Psn,
    /// What version 2 adds; `None` in version 1.
    pub v2: Option<AcceptConfirmV2>,
}

/// What version 2 adds to an Accept or Confirm of SMC-R.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AcceptConfirmV2 {
    /// EID that the server chose; the Confirm repeats it (V2-051).
    pub eid: Eid,
    /// On first contact; not sent without, and the default then.
    pub extension: FirstContactExtension,
    /// GIDs of the client: in a Confirm on first contact; not sent otherwise,
    /// and empty then.
    pub gids: GidList,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawAcceptConfirm {
    header: RawHeader,
    peer_id: [u8; 8],
    gid: [u8; 16],
    mac: [u8; 6],
    qpn: [u8; 3],
    rkey: U32,
    rmbe_index: u8,
    alert_token: U32,
    size_mtu: u8,
    reserved_51: u8,
    address: U64,
    reserved_60: u8,
    psn: [u8; 3],
}
//= CLC-010
const _: () = assert!(size_of::<RawAcceptConfirm>() + 4 == ACCEPT_CONFIRM_LENGTH);

//= V2-050
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawV2 {
    eid: [u8; 32],
    reserved_96: [u8; 8],
}
const _: () = assert!(ACCEPT_CONFIRM_V2_LENGTH == ACCEPT_CONFIRM_LENGTH + size_of::<RawV2>());

impl AcceptConfirm {
    /// What version 2 adds, as far as it is written.
    fn written_v2(&self) -> Option<&AcceptConfirmV2> {
        self.v2.as_ref().filter(|_| SERVES_V2)
    }

    pub(super) fn encoded_len(&self, kind: ClcKind) -> usize {
        match self.written_v2() {
            None => ACCEPT_CONFIRM_LENGTH,
            Some(v2) if self.first_contact => v2
                .first_contact_len(kind)
                .saturating_add(ACCEPT_CONFIRM_V2_LENGTH),
            Some(_) => ACCEPT_CONFIRM_V2_LENGTH,
        }
    }

    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let mut parts = Parts::new(header, octets);
        let raw: RawAcceptConfirm = parts.read()?;
        let first_contact = header.has_flag();
        let v2 = if header.version.is_v1() {
            None
        } else if !SERVES_V2 {
            parts.pass_over();
            Some(AcceptConfirmV2::default())
        } else {
            Some(AcceptConfirmV2::parse(
                &mut parts,
                first_contact,
                header.kind,
            )?)
        };
        Ok(Self {
            //= CLC-031
            //= CLC-043
            first_contact,
            //= CLC-019
            peer_id: PeerId(raw.peer_id),
            //= CLC-032
            gid: Gid(raw.gid),
            mac: Mac(raw.mac),
            qpn: Qpn::from_octets(raw.qpn),
            //= CLC-034
            rtoken: RToken {
                rkey: RKey(raw.rkey.get()),
                address: raw.address.get(),
            },
            rmbe_index: RmbeIndex(raw.rmbe_index),
            //= CLC-036
            alert_token: AlertToken(raw.alert_token.get()),
            //= CLC-038
            buffer_size: BufferSize::from_code(raw.size_mtu >> 4),
            //= CLC-039
            mtu: Mtu::from_code(raw.size_mtu),
            //= CLC-042
            psn: Psn::from_octets(raw.psn),
            v2,
        })
    }

    pub(super) fn emit(&self, kind: ClcKind, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len(kind);
        emit_exactly(needed, buffer, |buffer| {
            self.write(kind, needed as u16, buffer)
        })
    }

    fn write<'a>(&self, kind: ClcKind, length: u16, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let version = match self.written_v2() {
            None => ClcVersion::V1,
            Some(_) => ClcVersion::V2,
        };
        //= CLC-031
        let flags = if self.first_contact { FLAG } else { 0 };
        let raw = RawAcceptConfirm {
            header: RawHeader::new(kind, length, version, flags),
            peer_id: self.peer_id.0,
            gid: self.gid.0,
            mac: self.mac.0,
            qpn: self.qpn.octets(),
            rkey: U32::new(self.rtoken.rkey.0),
            rmbe_index: self.rmbe_index.0,
            alert_token: U32::new(self.alert_token.0),
            size_mtu: (self.buffer_size.code() << 4) | self.mtu.code(),
            //= CLC-005
            reserved_51: 0,
            address: U64::new(self.rtoken.address),
            reserved_60: 0,
            psn: self.psn.octets(),
        };
        let mut rest = put(buffer, &raw)?;
        if let Some(v2) = self.written_v2() {
            rest = v2.write(rest, self.first_contact, kind)?;
        }
        put(rest, &EYE_CATCHER)
    }
}

impl AcceptConfirmV2 {
    /// Octets of what is there on first contact only.
    //= V2-053
    fn first_contact_len(&self, kind: ClcKind) -> usize {
        let gids = match kind {
            ClcKind::Confirm => self.gids.encoded_len(),
            _ => 0,
        };
        self.extension
            .encoded_len(Technology::SmcR)
            .saturating_add(gids)
    }

    fn parse(
        parts: &mut Parts<'_>,
        first_contact: bool,
        kind: ClcKind,
    ) -> Result<Self, ClcParseError> {
        let raw: RawV2 = parts.read()?;
        let mut v2 = Self {
            eid: Eid(raw.eid),
            ..Self::default()
        };
        //= V2-055
        if first_contact {
            v2.extension = FirstContactExtension::parse(parts, Technology::SmcR)?;
            if kind == ClcKind::Confirm {
                v2.gids = GidList::parse(parts)?;
            }
        }
        Ok(v2)
    }

    fn write<'a>(
        &self,
        buffer: &'a mut [u8],
        first_contact: bool,
        kind: ClcKind,
    ) -> Option<&'a mut [u8]> {
        let raw = RawV2 {
            eid: self.eid.0,
            reserved_96: [0; 8],
        };
        let mut rest = put(buffer, &raw)?;
        if first_contact {
            rest = self.extension.write(rest, Technology::SmcR)?;
            if kind == ClcKind::Confirm {
                rest = self.gids.write(rest)?;
            }
        }
        Some(rest)
    }
}

/// How `Display` marks a first contact.
pub(super) const fn contact(first: bool) -> &'static str {
    if first {
        "first-contact"
    } else {
        "subsequent-contact"
    }
}

impl fmt::Display for AcceptConfirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} peer {} gid {} mac {} qp {} rmb {} rmbe {} token {} size {} mtu {} psn {}",
            if self.v2.is_some() { "v2" } else { "v1" },
            contact(self.first_contact),
            self.peer_id,
            self.gid,
            self.mac,
            self.qpn,
            self.rtoken,
            self.rmbe_index,
            self.alert_token,
            self.buffer_size,
            self.mtu,
            self.psn
        )?;
        if let Some(v2) = &self.v2 {
            write!(f, " eid {}", v2.eid)?;
            if self.first_contact {
                write!(f, " {}", v2.extension)?;
            }
            if !v2.gids.as_slice().is_empty() {
                write!(f, " gids {}", v2.gids)?;
            }
        }
        Ok(())
    }
}
