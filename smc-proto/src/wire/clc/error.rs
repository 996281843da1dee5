//! What can be wrong with the octets of a CLC message.

use core::fmt;

use super::ClcKind;

/// Why octets are not a CLC message. The receiver treats all but `TooShort`
/// as a protocol error and ends the TCP connection (RFC 7609 C.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ClcParseError {
    /// The octets end before the header or the message does.
    TooShort {
        /// Octets there were.
        have: usize,
        /// Octets it takes, as far as known by now.
        needed: usize,
    },
    /// No eye catcher where a message starts or ends.
    EyeCatcher {
        /// Offset in the message of the four octets.
        offset: usize,
        /// The four octets.
        found: [u8; 4],
    },
    /// The type octet (offset 4) is not 1 to 4.
    UnknownType {
        /// The type octet.
        kind: u8,
    },
    /// The version nibble (offset 7) is 0.
    VersionZero,
    /// Neither SMC-R nor SMC-D was chosen (offset 7, low two bits).
    UnknownTechnology {
        /// The kind of the message: Accept or Confirm.
        kind: ClcKind,
        /// The low two bits, 2 or 3.
        technology: u8,
    },
    /// No message of this kind, version and flags has this Length (offset 5).
    BadLength {
        /// The kind of the message.
        kind: ClcKind,
        /// The Length.
        length: u16,
    },
    /// The offset to the subnet area (offset 38) is not one a Proposal can
    /// have: above 40, or in version 2 other than 40.
    SubnetOffset {
        /// The offset, counted from octet 40.
        offset: u16,
    },
    /// More than eight IPv6 prefixes.
    TooManyPrefixes {
        /// The count.
        count: u8,
    },
    /// The Length of a Proposal differs from what its offsets and counts add
    /// up to.
    ProposalLength {
        /// The Length (offset 5).
        length: u16,
        /// The sum, as far as the parts could be read.
        expected: u16,
    },
    /// The version-2 extension does not directly follow the version-1 part.
    V2ExtensionOffset {
        /// The offset (offset 50), counted from octet 52.
        offset: u16,
        /// What it has to be.
        expected: u16,
    },
    /// More than eight EIDs in the version-2 extension.
    TooManyEids {
        /// The count.
        count: u8,
    },
    /// More than eight ISM GIDs in the version-2 extension.
    TooManyIsmGids {
        /// The count.
        count: u8,
    },
    /// More than eight GIDs in a Confirm.
    TooManyGids {
        /// The count.
        count: u8,
    },
    /// The SMC-D version-2 extension does not directly follow the EIDs.
    SmcdExtensionOffset {
        /// The offset, counted from octet 8 of the version-2 extension.
        offset: u16,
        /// What it has to be.
        expected: u16,
    },
}

impl fmt::Display for ClcParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { have, needed } => {
                write!(f, "CLC message of {have} octets, needs {needed}")
            }
            Self::EyeCatcher {
                offset,
                found: [a, b, c, d],
            } => write!(
                f,
                "{a:02x}{b:02x}{c:02x}{d:02x} at offset {offset}, must be e2d4c3d9 or e2d4c3c4"
            ),
            Self::UnknownType { kind } => write!(f, "CLC type {kind}, must be 1 to 4"),
            Self::VersionZero => write!(f, "CLC version 0, must be 1 or more"),
            Self::UnknownTechnology { kind, technology } => {
                write!(f, "CLC {kind} with technology {technology}, must be 0 or 1")
            }
            Self::BadLength { kind, length } => {
                write!(f, "CLC {kind} cannot have length {length}")
            }
            Self::SubnetOffset { offset } => {
                write!(f, "Proposal subnet offset {offset} is out of range")
            }
            Self::TooManyPrefixes { count } => {
                write!(f, "Proposal with {count} IPv6 prefixes, at most 8")
            }
            Self::ProposalLength { length, expected } => write!(
                f,
                "Proposal of length {length}, its parts need {expected} octets"
            ),
            Self::V2ExtensionOffset { offset, expected } => write!(
                f,
                "Proposal version-2 extension offset {offset}, must be {expected}"
            ),
            Self::TooManyEids { count } => write!(f, "Proposal with {count} EIDs, at most 8"),
            Self::TooManyIsmGids { count } => {
                write!(f, "Proposal with {count} ISM GIDs, at most 8")
            }
            Self::TooManyGids { count } => write!(f, "Confirm with {count} GIDs, at most 8"),
            Self::SmcdExtensionOffset { offset, expected } => write!(
                f,
                "Proposal SMC-D extension offset {offset}, must be {expected}"
            ),
        }
    }
}

impl core::error::Error for ClcParseError {}
