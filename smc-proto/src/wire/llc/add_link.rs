//! ADD LINK (RFC 7609 A.3.2): the sender's end of a link to be added.
//!
//! Two reserved octets are between MAC and GID, unlike in CONFIRM LINK:
//! captures of Linux and the Wireshark dissector agree on that.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawHeader, direction};
use super::{AddLinkExtension, LLC_LENGTH, LlcParseError, kind};
use crate::version::SmcVersion;
use crate::wire::types::{AddLinkRejectReason, Gid, LinkNumber, Mac, Mtu, Psn, Qpn};

/// Z: the link is refused.
const REJECTED: u8 = 0x40;

/// Contents of an ADD LINK.
///
/// In a rejection all but `reply` and `rejection` may be an echo of the
/// request. A request of the client in version 1 only asks the server to start (LLC-030).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddLink<'a> {
    /// Reply or request.
    pub reply: bool,
    /// Why the link is refused, if it is. Only the low 4 bits of the reason are sent,
    /// in version 2 nothing of it: a rejection is read as `UNSPECIFIED`.
    pub rejection: Option<AddLinkRejectReason>,
    /// MAC of the sender's end of the new link.
    pub mac: Mac,
    /// GID of the sender's end of the new link.
    pub gid: Gid,
    /// Queue pair of the sender's end of the new link.
    pub qpn: Qpn,
    /// Number of the new link, chosen by the server and echoed by the client.
    pub link: LinkNumber,
    /// Path MTU the sender can use; the lower of both counts.
    pub mtu: Mtu,
    /// First packet sequence number the sender will use on the queue pair.
    pub psn: Psn,
    /// What only version 2 has. A rejection has none; everything else has it, also
    /// without RTokens (V2-156). Version 1 does not send it.
    pub extension: Option<AddLinkExtension<'a>>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawAddLink {
    header: RawHeader,
    mac: [u8; 6],
    reserved_10: [u8; 2],
    gid: [u8; 16],
    qpn: [u8; 3],
    link: u8,
    mtu: u8,
    psn: [u8; 3],
    reserved_36: [u8; 8],
}

impl<'a> AddLink<'a> {
    /// Reads a message of 44 octets and, in version 2, what follows them.
    pub(super) fn decode(
        octets: &[u8; LLC_LENGTH],
        tail: &'a [u8],
        version: SmcVersion,
    ) -> Result<Self, LlcParseError> {
        let raw: &RawAddLink = zerocopy::transmute_ref!(octets);
        //= LLC-024
        let rejected = raw.header.flags & REJECTED != 0;
        let reason = match version {
            SmcVersion::V1 => AddLinkRejectReason(raw.header.reason & 0x0f),
            SmcVersion::V2 => AddLinkRejectReason::UNSPECIFIED,
        };
        Ok(Self {
            reply: raw.header.is_reply(),
            rejection: rejected.then_some(reason),
            mac: Mac(raw.mac),
            gid: Gid(raw.gid),
            qpn: Qpn::from_octets(raw.qpn),
            link: LinkNumber(raw.link),
            mtu: Mtu::from_code(raw.mtu),
            psn: Psn::from_octets(raw.psn),
            extension: AddLinkExtension::decode(tail)?,
        })
    }

    /// The first 44 octets, with the header of version 1.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        let flags = if self.rejection.is_some() {
            REJECTED
        } else {
            0
        };
        let mut header = RawHeader::new(kind::ADD_LINK, self.reply, flags);
        header.reason = self.rejection.map_or(0, |reason| reason.0 & 0x0f);
        //= LLC-019
        zerocopy::transmute!(RawAddLink {
            header,
            mac: self.mac.0,
            reserved_10: [0; 2],
            gid: self.gid.0,
            qpn: self.qpn.octets(),
            link: self.link.0,
            mtu: self.mtu.code(),
            psn: self.psn.octets(),
            reserved_36: [0; 8],
        })
    }
}

impl fmt::Display for AddLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ADD LINK {} link {} mac {} gid {} qp {} mtu {} psn {}",
            direction(self.reply),
            self.link,
            self.mac,
            self.gid,
            self.qpn,
            self.mtu,
            self.psn
        )?;
        if let Some(reason) = self.rejection {
            write!(f, " rejected {reason}")?;
        }
        match &self.extension {
            Some(extension) => write!(
                f,
                "{} target {} rtokens {}",
                if extension.direct { " direct" } else { "" },
                extension.target_gid,
                extension.rtokens
            ),
            None => Ok(()),
        }
    }
}
