//! The first contact extension: what both sides of a version-2 link group
//! agree on once.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ClcParseError;
use super::parts::{Parts, put};
use crate::wire::types::{FeatureMask, Hostname, PeerOs, Release};

/// First contact extension of an Accept or Confirm.
///
/// Emitting leaves out what does not apply: limits and features at release 0,
/// `direct` and the limits in SMC-D. What is left out is read as the default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FirstContactExtension {
    /// No IP gateway is between the GIDs of the link; SMC-R only.
    pub direct: bool,
    /// Operating system of the sender. Only the low 4 bits are sent.
    pub os: PeerOs,
    /// Release that both sides use (V2-056).
    pub release: Release,
    /// Name of the sending host.
    pub hostname: Hostname,
    /// Most connections in the link group; SMC-R, from release 1 on.
    pub max_connections: u8,
    /// Most links in the link group; SMC-R, from release 1 on.
    pub max_links: u8,
    /// Features of the sender, from release 1 on.
    pub features: FeatureMask,
}

impl Default for FirstContactExtension {
    /// Release 0, no limits and features.
    fn default() -> Self {
        Self {
            direct: false,
            os: PeerOs::UNKNOWN,
            release: Release::V2_0,
            hostname: Hostname::default(),
            max_connections: 0,
            max_links: 0,
            features: FeatureMask::empty(),
        }
    }
}

/// Which of the two technologies a message is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Technology {
    SmcR,
    SmcD,
}

//= V2-052
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawHead {
    direct: u8,
    os_release: u8,
    reserved_2: [u8; 2],
    hostname: [u8; 32],
}
const _: () = assert!(size_of::<RawHead>() == 36);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawLimits {
    max_connections: u8,
    max_links: u8,
    features: U16,
    vendor: [u8; 4],
    reserved_44: [u8; 8],
}
const _: () = assert!(size_of::<RawLimits>() == 16);

const DIRECT: u8 = 0x80;

impl FirstContactExtension {
    /// Whether the part with the limits is there.
    //= D-024
    const fn has_limits_part(release: Release, technology: Technology) -> bool {
        release.has_limits() || matches!(technology, Technology::SmcR)
    }

    pub(super) const fn encoded_len(&self, technology: Technology) -> usize {
        if Self::has_limits_part(self.release, technology) {
            size_of::<RawHead>().saturating_add(size_of::<RawLimits>())
        } else {
            size_of::<RawHead>()
        }
    }

    //= D-025
    pub(super) fn parse(
        parts: &mut Parts<'_>,
        technology: Technology,
    ) -> Result<Self, ClcParseError> {
        let raw: RawHead = parts.read()?;
        let release = Release::new(raw.os_release);
        let mut extension = Self {
            os: PeerOs(raw.os_release >> 4),
            release,
            hostname: Hostname(raw.hostname),
            ..Self::default()
        };
        if technology == Technology::SmcR {
            extension.direct = raw.direct & DIRECT != 0;
        }
        if Self::has_limits_part(release, technology) {
            let raw: RawLimits = parts.read()?;
            //= V2-008
            if release.has_limits() {
                extension.features = FeatureMask::from_bits_retain(raw.features.get());
                //= D-023
                if technology == Technology::SmcR {
                    extension.max_connections = raw.max_connections;
                    extension.max_links = raw.max_links;
                }
            }
        }
        Ok(extension)
    }

    pub(super) fn write<'a>(
        &self,
        buffer: &'a mut [u8],
        technology: Technology,
    ) -> Option<&'a mut [u8]> {
        let smcr = technology == Technology::SmcR;
        let raw = RawHead {
            direct: if smcr && self.direct { DIRECT } else { 0 },
            os_release: (self.os.0 << 4) | self.release.number(),
            reserved_2: [0; 2],
            hostname: self.hostname.0,
        };
        let rest = put(buffer, &raw)?;
        if !Self::has_limits_part(self.release, technology) {
            return Some(rest);
        }
        let stated = self.release.has_limits();
        let raw = RawLimits {
            max_connections: if stated && smcr {
                self.max_connections
            } else {
                0
            },
            max_links: if stated && smcr { self.max_links } else { 0 },
            features: U16::new(if stated { self.features.bits() } else { 0 }),
            vendor: [0; 4],
            reserved_44: [0; 8],
        };
        put(rest, &raw)
    }
}

impl fmt::Display for FirstContactExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}os {} release {} host {}",
            if self.direct { "direct " } else { "" },
            self.os,
            self.release,
            self.hostname
        )?;
        if self.release.has_limits() {
            write!(
                f,
                " max-conns {} max-links {} features {}",
                self.max_connections, self.max_links, self.features
            )?;
        }
        Ok(())
    }
}
