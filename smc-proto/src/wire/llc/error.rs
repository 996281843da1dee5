//! What can be wrong with the octets of an LLC message.

use core::fmt;

/// Why octets are not an LLC message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LlcParseError {
    /// Fewer octets than 44.
    TooShort {
        /// Octets there were.
        have: usize,
    },
    /// The length octet (offset 1) is not 44.
    BadLength {
        /// The length octet.
        length: u8,
    },
    /// The length of a version-2 message (offset 1) is below 44 in either order
    /// of its octets.
    BadLengthV2 {
        /// The length, read big-endian.
        length: u16,
    },
    /// An ADD LINK of version 2 that ends within its extension.
    ShortExtension {
        /// Octets of the message: 45 to 71.
        have: usize,
    },
    /// An unknown type that is optional (high bits 10): to be discarded silently.
    UnknownOptional {
        /// The type octet (offset 0).
        kind: u8,
    },
    /// A type that is not assigned (high bits 00 or 01).
    UnknownMandatory {
        /// The type octet (offset 0).
        kind: u8,
    },
    /// Not LLC but CDC (high bits 11).
    Cdc {
        /// The type octet (offset 0).
        kind: u8,
    },
    /// More entries, or fewer, than a message of this type can announce.
    CountOutOfRange {
        /// The type octet (offset 0).
        kind: u8,
        /// The count (offset 4).
        count: u8,
        /// The least it can be.
        least: u8,
        /// The most it can be.
        most: u8,
    },
}

impl fmt::Display for LlcParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { have } => write!(f, "LLC message of {have} octets, needs 44"),
            Self::BadLength { length } => write!(f, "LLC length octet {length}, must be 44"),
            Self::BadLengthV2 { length } => write!(f, "LLC length 0x{length:04x}, below 44"),
            Self::ShortExtension { have } => {
                write!(f, "ADD LINK of {have} octets, must be 44, or 72 or more")
            }
            Self::UnknownOptional { kind } => write!(f, "unknown optional LLC type 0x{kind:02x}"),
            Self::UnknownMandatory { kind } => {
                write!(f, "unknown mandatory LLC type 0x{kind:02x}")
            }
            Self::Cdc { kind } => write!(f, "type 0x{kind:02x} is CDC, not LLC"),
            Self::CountOutOfRange {
                kind,
                count,
                least,
                most,
            } => write!(
                f,
                "LLC type 0x{kind:02x} with count {count} at offset 4, must be {least} to {most}"
            ),
        }
    }
}

impl core::error::Error for LlcParseError {}
