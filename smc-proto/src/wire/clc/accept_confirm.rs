//! Accept and Confirm (RFC 7609 A.2.3, A.2.4): one layout, 68 octets in
//! version 1. Each describes the sender's end of the link and the RMB element
//! it gives to the connection.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{FLAG, RawHeader};
use super::{
    ACCEPT_CONFIRM_LENGTH, BufferTooSmall, ClcHeader, ClcKind, ClcParseError, ClcVersion,
    EYE_CATCHER,
};
use crate::wire::types::{
    AlertToken, BufferSize, Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

/// Contents of an Accept or of a Confirm, version 1.
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
    trailer: [u8; 4],
}

//= CLC-010
const _: () = assert!(size_of::<RawAcceptConfirm>() == ACCEPT_CONFIRM_LENGTH);

impl AcceptConfirm {
    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let Ok((raw, _)) = RawAcceptConfirm::ref_from_prefix(octets) else {
            return Err(ClcParseError::BadLength {
                kind: header.kind,
                length: header.length,
            });
        };
        Ok(Self {
            //= CLC-031
            //= CLC-043
            first_contact: header.flags & FLAG != 0,
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
        })
    }

    pub(super) fn emit(&self, kind: ClcKind, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        //= CLC-031
        let flags = if self.first_contact { FLAG } else { 0 };
        let raw = RawAcceptConfirm {
            header: RawHeader::new(kind, ACCEPT_CONFIRM_LENGTH as u16, ClcVersion::V1, flags),
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
            trailer: EYE_CATCHER,
        };
        match raw.write_to_prefix(buffer) {
            Ok(()) => Ok(ACCEPT_CONFIRM_LENGTH),
            Err(_) => Err(BufferTooSmall {
                needed: ACCEPT_CONFIRM_LENGTH,
            }),
        }
    }
}

impl fmt::Display for AcceptConfirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "v1 {} peer {} gid {} mac {} qp {} rmb {} rmbe {} token {} size {} mtu {} psn {}",
            if self.first_contact {
                "first-contact"
            } else {
                "subsequent-contact"
            },
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
        )
    }
}
