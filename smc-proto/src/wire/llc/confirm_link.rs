//! CONFIRM LINK (RFC 7609 A.3.1): the first message on a link, each way.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, kind};
use crate::version::SmcVersion;
use crate::wire::types::{Gid, LinkNumber, LinkUserId, Mac, Qpn};

bitflags::bitflags! {
    /// Flags of a CONFIRM LINK beside R (octet 3).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ConfirmLinkFlags: u8 {
        /// The sender's RMB elements have no eye catcher: data starts at
        /// octet 0. Reserved in RFC 7609; Linux sends both bits and takes
        /// either, see [`announces_no_eye_catcher`](ConfirmLink::announces_no_eye_catcher).
        const NO_EYE_CATCHER = 0x03;
    }
}

/// Contents of a CONFIRM LINK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConfirmLink {
    /// Reply (client) or request (server).
    pub reply: bool,
    /// Flags beside R.
    pub flags: ConfirmLinkFlags,
    /// MAC of the sender's end of the link.
    pub mac: Mac,
    /// GID of the sender's end of the link.
    pub gid: Gid,
    /// Queue pair of the sender's end of the link.
    pub qpn: Qpn,
    /// Number of the link, chosen by the server and echoed by the client.
    pub link: LinkNumber,
    /// The sender's name for the link, informational.
    pub user_id: LinkUserId,
    /// Most links the sender wants in the group, as sent; the lower of both
    /// counts (AMB-21).
    pub max_links: u8,
    /// Most connections the sender wants in the group, from release 1 on; not
    /// sent, and 0, in version 1.
    //= V2-153
    pub max_connections: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawConfirmLink {
    header: RawHeader,
    mac: [u8; 6],
    gid: [u8; 16],
    qpn: [u8; 3],
    link: u8,
    user_id: U32,
    max_links: u8,
    max_connections: u8,
    reserved: [u8; 8],
}

impl ConfirmLink {
    /// Whether the sender announced that its RMB elements have no eye catcher;
    /// either bit does.
    #[must_use]
    pub const fn announces_no_eye_catcher(&self) -> bool {
        self.flags.intersects(ConfirmLinkFlags::NO_EYE_CATCHER)
    }

    pub(super) fn decode(octets: &[u8; LLC_LENGTH], version: SmcVersion) -> Self {
        let raw: &RawConfirmLink = zerocopy::transmute_ref!(octets);
        Self {
            reply: raw.header.is_reply(),
            flags: ConfirmLinkFlags::from_bits_truncate(raw.header.flags),
            mac: Mac(raw.mac),
            gid: Gid(raw.gid),
            qpn: Qpn::from_octets(raw.qpn),
            //= LLC-015
            link: LinkNumber(raw.link),
            user_id: LinkUserId(raw.user_id.get()),
            max_links: raw.max_links,
            max_connections: connections_of(raw.max_connections, version),
        }
    }

    /// The message as 44 octets, with the header of version 1.
    pub(super) fn encode(&self, version: SmcVersion) -> [u8; LLC_LENGTH] {
        zerocopy::transmute!(RawConfirmLink {
            header: RawHeader::new(kind::CONFIRM_LINK, self.reply, self.flags.bits() & 0x03),
            mac: self.mac.0,
            gid: self.gid.0,
            qpn: self.qpn.octets(),
            link: self.link.0,
            user_id: U32::new(self.user_id.0),
            max_links: self.max_links,
            max_connections: connections_of(self.max_connections, version),
            reserved: [0; 8],
        })
    }
}

/// The limit of connections; in version 1 its octet is reserved.
const fn connections_of(octet: u8, version: SmcVersion) -> u8 {
    match version {
        SmcVersion::V1 => 0,
        SmcVersion::V2 => octet,
    }
}

impl fmt::Display for ConfirmLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CONFIRM LINK {} link {} mac {} gid {} qp {} uid {} max-links {}",
            direction(self.reply),
            self.link,
            self.mac,
            self.gid,
            self.qpn,
            self.user_id,
            self.max_links
        )?;
        if self.max_connections != 0 {
            write!(f, " max-conns {}", self.max_connections)?;
        }
        if self.announces_no_eye_catcher() {
            f.write_str(" no-eye-catcher")?;
        }
        Ok(())
    }
}
