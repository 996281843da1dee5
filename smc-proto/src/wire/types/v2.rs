//! What version 2 agrees on: release and features.

use core::fmt;

/// Release of version 2, 4 bits: 0 is v2.0, 1 is v2.1.
///
/// Peers use the lower of both (V2-056); limits and features came with 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Release(u8);

impl Release {
    /// v2.0: no limits, no features.
    pub const V2_0: Self = Self(0);
    /// v2.1.
    pub const V2_1: Self = Self(1);

    /// Takes the low 4 bits of `number`.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number & 0x0f)
    }
    /// The number, 0 to 15.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
    /// Whether limits and features are sent in this release.
    //= V2-008
    #[must_use]
    pub const fn has_limits(self) -> bool {
        self.0 >= 1
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

bitflags::bitflags! {
    /// What a peer supports beyond the release, from release 1 on. Unassigned
    /// bits survive.
    //= V2-027
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct FeatureMask: u16 {
        /// Emulated ISM devices, with GIDs of 128 bits.
        const EMULATED_ISM = 0x0001;
        const _ = !0;
    }
}

impl fmt::Display for FeatureMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.bits())
    }
}
