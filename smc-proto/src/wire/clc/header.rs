//! The eight octets every CLC message starts with (RFC 7609 A.2).

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    ACCEPT_CONFIRM_LENGTH, ACCEPT_CONFIRM_V2_LENGTH, ClcParseError, DECLINE_LENGTH,
    DECLINE_V2_LENGTH, MAX_LENGTH, SMCD_ACCEPT_CONFIRM_LENGTH, SMCD_ACCEPT_CONFIRM_V2_LENGTH,
};

/// Octets of the header.
pub const HEADER_LENGTH: usize = 8;

/// First and last four octets of CLC messages but Accept and Confirm of SMC-D:
/// "SMCR" in EBCDIC.
//= CLC-002
pub const EYE_CATCHER: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xd9];

/// First and last four octets of Accept and Confirm of SMC-D: "SMCD" in EBCDIC.
//= V2-004
pub const EYE_CATCHER_SMCD: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xc4];

/// Whether four octets are an eye catcher; either stands for the other.
//= V2-004
pub(super) const fn is_eye_catcher(octets: [u8; 4]) -> bool {
    matches!(octets, EYE_CATCHER | EYE_CATCHER_SMCD)
}

/// Kind of a CLC message (octet 4).
//= CLC-009
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ClcKind {
    /// Client to server, the first.
    Proposal = 1,
    /// Server to client.
    Accept = 2,
    /// Client to server.
    Confirm = 3,
    /// Either way, the last.
    Decline = 4,
}

impl fmt::Display for ClcKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proposal => "Proposal",
            Self::Accept => "Accept",
            Self::Confirm => "Confirm",
            Self::Decline => "Decline",
        })
    }
}

/// Version of a CLC message (octet 7, high nibble), 1 to 15.
///
/// Versions from 2 on share the version-2 layouts, which is how Linux reads
/// them (AMB-10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ClcVersion(u8);

impl ClcVersion {
    /// Version 1 (RFC 7609).
    //= CLC-007
    pub const V1: Self = Self(1);
    /// Version 2.
    pub const V2: Self = Self(2);

    /// The version `number`, or `None` outside 1 to 15.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            1..=15 => Some(Self(number)),
            _ => None,
        }
    }
    /// The number, 1 to 15.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
    /// Whether messages of this version have the layouts of RFC 7609.
    #[must_use]
    pub const fn is_v1(self) -> bool {
        self.0 == 1
    }
}

impl fmt::Display for ClcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A judged header: what follows, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClcHeader {
    /// Kind of the message.
    pub kind: ClcKind,
    /// Octets of the whole message, header and closing eye catcher included:
    /// 28 to 652, and one the kind can have.
    pub length: u16,
    /// Version of the message.
    pub version: ClcVersion,
    /// Low nibble of octet 7: path codes in a Proposal, else flags.
    pub flags: u8,
}

impl ClcHeader {
    /// Whether an Accept or Confirm is one of SMC-D.
    #[must_use]
    pub const fn is_smcd(&self) -> bool {
        matches!(self.kind, ClcKind::Accept | ClcKind::Confirm) && self.flags & TECHNOLOGY == SMCD
    }

    pub(super) const fn has_flag(&self) -> bool {
        self.flags & FLAG != 0
    }
}

/// Flag of Accept and Confirm: first contact; of Decline: out of sync.
//= V2-006
pub(super) const FLAG: u8 = 0x08;

/// Low two bits of octet 7 of an Accept or Confirm of SMC-D; 0 is SMC-R.
const SMCD: u8 = 0x01;
const TECHNOLOGY: u8 = 0x03;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct RawHeader {
    eye_catcher: [u8; 4],
    kind: u8,
    //= CLC-013
    length: U16,
    version_flags: u8,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_LENGTH);

impl RawHeader {
    /// The header of an Accept or Confirm of SMC-D.
    //= V2-004
    //= V2-005
    pub(super) fn smcd(kind: ClcKind, length: u16, version: ClcVersion, flags: u8) -> Self {
        Self {
            eye_catcher: EYE_CATCHER_SMCD,
            ..Self::new(kind, length, version, flags | SMCD)
        }
    }

    /// The header of a message. `flags` is the low nibble of octet 7.
    pub(super) fn new(kind: ClcKind, length: u16, version: ClcVersion, flags: u8) -> Self {
        Self {
            eye_catcher: EYE_CATCHER,
            kind: kind as u8,
            length: U16::new(length),
            //= V2-001
            version_flags: (version.number() << 4) | (flags & 0x0f),
        }
    }
}

impl ClcHeader {
    /// Judges the first eight octets of a message; more may follow and are
    /// not read.
    ///
    /// Everything that can be known here to be wrong is an error at once, so
    /// that no receiver waits for octets of a message that cannot be.
    ///
    /// # Errors
    /// [`ClcParseError`]: `TooShort`, `EyeCatcher`, `UnknownType`,
    /// `VersionZero`, `UnknownTechnology` (Accept or Confirm) or `BadLength`.
    pub fn parse(octets: &[u8]) -> Result<Self, ClcParseError> {
        let Ok((raw, _)) = RawHeader::ref_from_prefix(octets) else {
            return Err(ClcParseError::TooShort {
                have: octets.len(),
                needed: HEADER_LENGTH,
            });
        };
        //= CLC-002
        //= CLC-004
        if !is_eye_catcher(raw.eye_catcher) {
            return Err(ClcParseError::EyeCatcher {
                offset: 0,
                found: raw.eye_catcher,
            });
        }
        //= CLC-009
        let kind = match raw.kind {
            1 => ClcKind::Proposal,
            2 => ClcKind::Accept,
            3 => ClcKind::Confirm,
            4 => ClcKind::Decline,
            kind => return Err(ClcParseError::UnknownType { kind }),
        };
        let Some(version) = ClcVersion::new(raw.version_flags >> 4) else {
            return Err(ClcParseError::VersionZero);
        };
        let length = raw.length.get();
        let octets = usize::from(length);
        //= V2-005
        let technology = raw.version_flags & TECHNOLOGY;
        if matches!(kind, ClcKind::Accept | ClcKind::Confirm) && technology > SMCD {
            return Err(ClcParseError::UnknownTechnology { kind, technology });
        }
        //= V2-003
        let possible = match (kind, version.is_v1()) {
            // 52 octets, up to 40 skipped, up to eight prefixes; in version 2
            // always 40 for ISM, the rest by the offers.
            (ClcKind::Proposal, true) => matches!(octets, 52..=228),
            (ClcKind::Proposal, false) => matches!(octets, 84..=MAX_LENGTH),
            //= CLC-010
            //= D-021
            (ClcKind::Accept | ClcKind::Confirm, true) => match technology {
                SMCD => octets == SMCD_ACCEPT_CONFIRM_LENGTH,
                _ => octets == ACCEPT_CONFIRM_LENGTH,
            },
            //= V2-055
            (ClcKind::Accept | ClcKind::Confirm, false) => match technology {
                SMCD => matches!(octets, SMCD_ACCEPT_CONFIRM_V2_LENGTH..=MAX_LENGTH),
                _ => matches!(octets, ACCEPT_CONFIRM_V2_LENGTH..=MAX_LENGTH),
            },
            (ClcKind::Decline, true) => octets == DECLINE_LENGTH,
            //= V2-070
            (ClcKind::Decline, false) => octets == DECLINE_V2_LENGTH,
        };
        if !possible {
            return Err(ClcParseError::BadLength { kind, length });
        }
        Ok(Self {
            kind,
            length,
            version,
            flags: raw.version_flags & 0x0f,
        })
    }
}
