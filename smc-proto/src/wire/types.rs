//! The values that SMC messages carry: identities, numbers and codes.
//!
//! Each is a newtype, so that a queue pair number is never taken for a packet
//! sequence number. Codes keep unassigned values: they survive a
//! round trip, compare and print in hexadecimal.

use core::fmt;

/// `Debug` that says what `Display` does.
macro_rules! debug_as_display {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
use debug_as_display;

mod bounded;
mod codes;
mod diagnosis;
mod ism;
mod text;
mod v2;

pub use bounded::BoundedList;
pub use codes::{AddLinkRejectReason, DeleteLinkReason, PeerOs};
pub use diagnosis::DiagnosisCode;
pub use ism::{Chid, DmbToken, IsmGid};
pub use text::{Eid, EidError, Hostname};
pub use v2::{FeatureMask, Release};

/// MAC address of an RNIC port, 6 octets as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// Global identifier of an RNIC port, 16 octets as on the wire (IPv6 form).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

/// Identity of one instance of an SMC stack: a 2-octet instance ID followed by
/// the MAC of one of its RNICs (RFC 7609 A.2.1, CLC-016).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct PeerId(pub [u8; 8]);

/// Queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Qpn(u32);

/// Packet sequence number a queue pair starts with, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Psn(u32);

/// Remote key of a registered memory region, 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct RKey(pub u32);

/// How a peer addresses an RMB over one link: remote key and virtual address
/// of the RMB's first octet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct RToken {
    /// Key of the memory region, valid on one link.
    pub rkey: RKey,
    /// Virtual address of the first octet of the RMB.
    pub address: u64,
}

/// Index of an element in its RMB, 1 to 255; 0 names none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct RmbeIndex(pub u8);

/// A connection as the owner of the token knows it (RFC 7609 A.2.3, A.4).
/// Opaque to the peer, which returns it in each CDC message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct AlertToken(pub u32);

/// Number of a link in its link group, assigned by the server; 0 names none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct LinkNumber(pub u8);

/// User ID of a link, informational (LINK-028).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct LinkUserId(pub u32);

/// Path MTU as a 4-bit code: 1 = 256 octets up to 5 = 4096 (CLC-039).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Mtu(u8);

/// Size of an RMB element as a 4-bit code x: 2^(x+4) KiB (CLC-038).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct BufferSize(u8);

/// A position in a ring: octet count and the number of times it wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Cursor {
    /// Times the count passed the end of the ring, modulo 65536.
    pub wrap: u16,
    /// Offset of the next octet in the RMB element, in octets.
    pub count: u32,
}

impl PeerId {
    /// Builds a peer ID from the instance ID and an RNIC's MAC.
    //= CLC-016
    #[must_use]
    pub const fn new(instance: u16, mac: Mac) -> Self {
        let [i0, i1] = instance.to_be_bytes();
        let [m0, m1, m2, m3, m4, m5] = mac.0;
        Self([i0, i1, m0, m1, m2, m3, m4, m5])
    }
}

/// Conversions of a 24-bit number that takes three octets on the wire.
macro_rules! three_octets {
    ($($name:ident),*) => {$(
        impl $name {
            /// Takes the low 24 bits of `value`.
            #[must_use]
            pub const fn new(value: u32) -> Self {
                Self(value & 0x00ff_ffff)
            }
            /// Reads the three octets of the wire.
            #[must_use]
            pub const fn from_octets([a, b, c]: [u8; 3]) -> Self {
                Self(u32::from_be_bytes([0, a, b, c]))
            }
            /// The three octets of the wire.
            #[must_use]
            pub const fn octets(self) -> [u8; 3] {
                let [_, a, b, c] = self.0.to_be_bytes();
                [a, b, c]
            }
            /// The number, below 2^24.
            #[must_use]
            pub const fn value(self) -> u32 {
                self.0
            }
        }
    )*};
}
three_octets!(Qpn, Psn);

impl Mtu {
    /// 256 octets.
    pub const M256: Self = Self(1);
    /// 512 octets.
    pub const M512: Self = Self(2);
    /// 1024 octets.
    pub const M1024: Self = Self(3);
    /// 2048 octets.
    pub const M2048: Self = Self(4);
    /// 4096 octets.
    pub const M4096: Self = Self(5);

    /// Takes the low 4 bits of `code`.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0x0f)
    }
    /// The 4-bit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The MTU in octets, or `None` for a reserved code (0, 6 to 15).
    #[must_use]
    pub const fn octets(self) -> Option<u16> {
        match self.0 {
            1 => Some(256),
            2 => Some(512),
            3 => Some(1024),
            4 => Some(2048),
            5 => Some(4096),
            _ => None,
        }
    }
}

//= D-004
impl BufferSize {
    /// 16 KiB, the smallest.
    pub const K16: Self = Self(0);
    /// 64 KiB.
    pub const K64: Self = Self(2);
    /// 512 KiB, the largest size RFC 7609 defines.
    pub const K512: Self = Self(5);

    /// Takes the low 4 bits of `code`.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0x0f)
    }
    /// The smallest size of at least `octets`, at most 512 MiB.
    #[must_use]
    pub const fn at_least(octets: u32) -> Self {
        let mut code = 0u8;
        while code < 15 && Self(code).octets() < octets {
            code = code.saturating_add(1);
        }
        Self(code)
    }
    /// The 4-bit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
    /// The size in octets: 16 KiB shifted by the code, at most 512 MiB.
    #[must_use]
    pub const fn octets(self) -> u32 {
        0x4000_u32.wrapping_shl(self.0 as u32)
    }
    /// Whether RFC 7609 defines this code (0 to 5). Linux 6.12 sends up to 15.
    #[must_use]
    pub const fn is_rfc7609(self) -> bool {
        self.0 <= 5
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::address::Ipv6(&self.0).fmt(f)
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [i0, i1, m @ ..] = self.0;
        write!(f, "{i0:02x}{i1:02x}@{}", Mac(m))
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.octets() {
            Some(octets) => write!(f, "{octets}"),
            None => write!(f, "reserved({})", self.0),
        }
    }
}

impl fmt::Display for BufferSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}K", self.octets() >> 10)
    }
}

impl fmt::Display for RToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@0x{:x}", self.rkey, self.address)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.wrap, self.count)
    }
}

/// `Display` of a newtype.
macro_rules! show {
    ($($name:ident => $fmt:literal),* $(,)?) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $fmt, self.0)
            }
        }
    )*};
}
show!(Qpn => "0x{:06x}", Psn => "0x{:06x}", RKey => "0x{:08x}", RmbeIndex => "{}",
      AlertToken => "0x{:08x}", LinkNumber => "{}", LinkUserId => "0x{:08x}");

debug_as_display!(
    Mac, Gid, PeerId, Mtu, BufferSize, RToken, Qpn, Psn, RKey, RmbeIndex, AlertToken, LinkNumber,
    LinkUserId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_size_codes_cover_16_kib_to_512_mib() {
        //= CASE-D21 test
        //= D-004 test
        assert_eq!(BufferSize::K16.octets(), 16 << 10);
        assert_eq!(BufferSize::from_code(15).octets(), 512 << 20);
        assert_eq!(BufferSize::at_least(1), BufferSize::K16);
        assert_eq!(BufferSize::at_least(65_536), BufferSize::K64);
        assert_eq!(BufferSize::at_least(65_537).octets(), 128 << 10);
        assert_eq!(BufferSize::at_least(u32::MAX).code(), 15);
    }

    #[test]
    fn three_octet_numbers_keep_their_low_24_bits() {
        assert_eq!(Qpn::new(0xff12_3456).octets(), [0x12, 0x34, 0x56]);
        assert_eq!(Qpn::from_octets([0x12, 0x34, 0x56]).value(), 0x12_3456);
    }
}
