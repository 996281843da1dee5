//! What can be offered in one version.

use core::fmt;

/// What a Proposal offers in one version (octet 7, two bits each).
//= V2-002
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum OfferedPath {
    /// SMC-R alone, the only one RFC 7609 knows.
    #[default]
    SmcR = 0,
    /// SMC-D alone.
    SmcD = 1,
    /// Nothing in this version. A version-1 Proposal that says so is still
    /// read; Linux takes it for a protocol error.
    Neither = 2,
    /// SMC-R and SMC-D.
    Both = 3,
}

impl OfferedPath {
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::SmcR,
            1 => Self::SmcD,
            2 => Self::Neither,
            _ => Self::Both,
        }
    }
    /// Whether SMC-R is offered.
    #[must_use]
    pub const fn has_smcr(self) -> bool {
        matches!(self, Self::SmcR | Self::Both)
    }
    /// Whether SMC-D is offered.
    #[must_use]
    pub const fn has_smcd(self) -> bool {
        matches!(self, Self::SmcD | Self::Both)
    }
}

impl fmt::Display for OfferedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmcR => "SMC-R",
            Self::SmcD => "SMC-D",
            Self::Neither => "none",
            Self::Both => "SMC-R+D",
        })
    }
}
