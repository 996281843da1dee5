//! Which protocol two peers speak: technology, version, and what they agreed on.

use core::fmt;

use crate::wire::clc::{ClcVersion, FirstContactExtension};
use crate::wire::types::{Eid, FeatureMask, Hostname, PeerOs, Release};

/// How the bytes of a connection get to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Technology {
    /// RDMA over queue pairs.
    SmcR,
    /// Memory of an ISM device that both ends reach.
    SmcD,
}

/// Version of the protocol a link group speaks. It decides about CLC and LLC, and
/// about nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum SmcVersion {
    /// RFC 7609.
    V1,
    /// Version 2, of any release.
    V2,
}

/// Whether this build speaks version 2: without the feature `smc-v2` nothing of it is offered,
/// accepted or read, and the compiler drops every branch that depends on it.
pub(crate) const SERVES_V2: bool = cfg!(feature = "smc-v2");

impl SmcVersion {
    /// The version in the header of a CLC message of it.
    #[must_use]
    pub const fn clc(self) -> ClcVersion {
        match self {
            Self::V1 => ClcVersion::V1,
            Self::V2 => ClcVersion::V2,
        }
    }
}

impl fmt::Display for Technology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmcR => "SMC-R",
            Self::SmcD => "SMC-D",
        })
    }
}

impl fmt::Display for SmcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// What both sides of a link group agreed on at its first contact.
//= V2-212
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// How bytes get to the peer.
    pub technology: Technology,
    /// Version of CLC and LLC.
    pub version: SmcVersion,
    /// Release of version 2; 0 in version 1.
    pub release: Release,
    /// Most connections in the group, 1 to 255.
    pub max_connections: u8,
    /// Most links in the group; before release 1 CONFIRM LINK decides it.
    pub max_links: u8,
    /// Features both sides have; none before release 1.
    pub features: FeatureMask,
    /// SMC-R: no IP gateway is between both ends.
    pub direct: bool,
}

impl Terms {
    /// The terms of version 1, and of version 2 before release 1, which no message names.
    #[must_use]
    pub const fn of(technology: Technology, version: SmcVersion) -> Self {
        Self {
            technology,
            version,
            release: Release::V2_0,
            max_connections: 255,
            max_links: 2,
            features: FeatureMask::empty(),
            direct: true,
        }
    }

    /// Whether LLC has the form of version 2.
    #[inline]
    pub(crate) const fn is_v2(&self) -> bool {
        SERVES_V2 && matches!(self.version, SmcVersion::V2)
    }
}

/// What the peer of a link group of version 2 said of its host at first contact, as it was received,
/// and the EID that both hosts have in common. It is for people, and decides nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct PeerHost {
    /// EID that the server chose.
    pub eid: Eid,
    /// Name of the host.
    pub name: Hostname,
    /// Operating system of the host.
    pub os: PeerOs,
}

impl PeerHost {
    /// The host that a first contact extension describes, beside the EID of the same message.
    pub(crate) const fn of(eid: Eid, extension: &FirstContactExtension) -> Self {
        Self {
            eid,
            name: extension.hostname,
            os: extension.os,
        }
    }

    /// No host is known.
    pub(crate) const UNKNOWN: Self = Self {
        eid: Eid([0; 32]),
        name: Hostname([0; 32]),
        os: PeerOs::UNKNOWN,
    };
}

/// The outcome of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Negotiated {
    pub(crate) terms: Terms,
    /// The EID that the server chose; zero in version 1.
    pub(crate) eid: Eid,
}

impl Negotiated {
    /// Before anything was negotiated.
    pub(crate) const NOTHING: Self = Self {
        terms: Terms::of(Technology::SmcR, SmcVersion::V1),
        eid: Eid([0; 32]),
    };
}
