//! Decline (RFC 7609 A.2.5): 28 octets in version 1, 44 in version 2.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{FLAG, RawHeader};
use super::{
    BufferTooSmall, ClcHeader, ClcKind, ClcParseError, ClcVersion, DECLINE_LENGTH,
    DECLINE_V2_LENGTH, EYE_CATCHER,
};
use crate::wire::types::{DiagnosisCode, PeerId, PeerOs};

/// Contents of a Decline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decline {
    /// Version: 1 has the 28 octets of RFC 7609, 2 and more have 44.
    pub version: ClcVersion,
    /// The sender found the link group out of sync: the receiver is to drop
    /// its view of it (octet 7, 0x08).
    pub out_of_sync: bool,
    /// Identity of the sender; zero if it has none.
    pub peer_id: PeerId,
    /// Why. Its values are the sender's own affair: print it, do not act on it.
    pub diagnosis: DiagnosisCode,
    /// Operating system of the sender; zero in version 1. Only the low 4 bits
    /// are sent.
    pub os: PeerOs,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDecline {
    header: RawHeader,
    peer_id: [u8; 8],
    diagnosis: U32,
    os: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDeclineV1 {
    decline: RawDecline,
    trailer: [u8; 4],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDeclineV2 {
    decline: RawDecline,
    // Four words of further diagnosis, which no stack fills.
    reserved: [u8; 16],
    trailer: [u8; 4],
}

//= CLC-010
const _: () = assert!(size_of::<RawDeclineV1>() == DECLINE_LENGTH);
const _: () = assert!(size_of::<RawDeclineV2>() == DECLINE_V2_LENGTH);

impl Decline {
    pub(super) const fn encoded_len(&self) -> usize {
        if self.version.is_v1() {
            DECLINE_LENGTH
        } else {
            DECLINE_V2_LENGTH
        }
    }

    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let Ok((raw, _)) = RawDecline::ref_from_prefix(octets) else {
            return Err(ClcParseError::BadLength {
                kind: header.kind,
                length: header.length,
            });
        };
        Ok(Self {
            version: header.version,
            //= CLC-045
            out_of_sync: header.has_flag(),
            //= CLC-019
            peer_id: PeerId(raw.peer_id),
            //= CLC-044
            diagnosis: DiagnosisCode(raw.diagnosis.get()),
            os: PeerOs(raw.os >> 4),
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len();
        let flags = if self.out_of_sync { FLAG } else { 0 };
        let decline = RawDecline {
            header: RawHeader::new(ClcKind::Decline, needed as u16, self.version, flags),
            peer_id: self.peer_id.0,
            diagnosis: U32::new(self.diagnosis.0),
            os: self.os.0 << 4,
            reserved: [0; 3],
        };
        let written = if self.version.is_v1() {
            RawDeclineV1 {
                decline,
                trailer: EYE_CATCHER,
            }
            .write_to_prefix(buffer)
            .is_ok()
        } else {
            RawDeclineV2 {
                decline,
                reserved: [0; 16],
                trailer: EYE_CATCHER,
            }
            .write_to_prefix(buffer)
            .is_ok()
        };
        if written {
            Ok(needed)
        } else {
            Err(BufferTooSmall { needed })
        }
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Decline {} peer {} diagnosis {}{} os {}",
            self.version,
            self.peer_id,
            self.diagnosis,
            if self.out_of_sync { " out-of-sync" } else { "" },
            self.os
        )
    }
}
