//! Devices and buffers of SMC-D.

use core::fmt;

/// Channel ID of an ISM device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Chid(pub u16);

impl Chid {
    /// The loopback within one kernel.
    pub const LOOPBACK: Self = Self(0xffff);

    /// Whether the device is an emulated one, whose GID has 128 bits.
    //= D-002
    #[must_use]
    pub const fn is_emulated(self) -> bool {
        self.0 >= 0xff00
    }
}

/// An ISM device as its peers know it.
//= D-001
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct IsmGid {
    /// GID of the device; of an emulated one the first 64 bits as sent.
    pub gid: u64,
    /// The other 64 bits of an emulated one; zero for a real one.
    pub gid_ext: u64,
    /// Channel ID of the device.
    pub chid: Chid,
}

/// Name of a DMB for the peer that writes to it.
//= D-003
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct DmbToken(pub u64);

impl fmt::Display for Chid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Display for DmbToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

impl fmt::Display for IsmGid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.gid)?;
        if self.chid.is_emulated() {
            write!(f, ":{:016x}", self.gid_ext)?;
        }
        write!(f, "/{}", self.chid)
    }
}

super::debug_as_display!(Chid, DmbToken, IsmGid);
