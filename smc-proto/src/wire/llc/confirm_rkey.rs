//! CONFIRM RKEY (RFC 7609 A.3.5): how a new RMB is reached over each link.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entries::{self, LinkRToken, RawLinkRToken};
use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, LlcParseError, MAX_OTHER_LINKS, MAX_OTHER_LINKS_V2, kind};
use crate::version::SmcVersion;
use crate::wire::list::{List, UpTo};
use crate::wire::types::{RKey, RToken};

bitflags::bitflags! {
    /// Flags beside R of the messages about RTokens (octet 3).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct RkeyFlags: u8 {
        /// Z: negative response.
        const NEGATIVE = 0x20;
        /// C: try again once the change of links in progress is over. Only in
        /// CONFIRM RKEY, with `NEGATIVE`.
        const RETRY = 0x10;
    }
}

impl RkeyFlags {
    /// The flags as words, each after a blank.
    pub(super) fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.contains(Self::NEGATIVE) {
            f.write_str(" negative")?;
        }
        if self.contains(Self::RETRY) {
            f.write_str(" retry")?;
        }
        Ok(())
    }
}

/// Contents of a CONFIRM RKEY.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConfirmRkey {
    /// Reply, an echo of the request, or request.
    pub reply: bool,
    /// Flags beside R.
    pub flags: RkeyFlags,
    /// The RMB on the link that carries this message.
    pub rtoken: RToken,
    /// Other links the RMB is announced for, 0 to
    /// [`MAX_OTHER_LINKS`](super::MAX_OTHER_LINKS), in version 2 to two; those
    /// that find no room in `others` follow in CONTINUATIONs (AMB-02).
    pub other_links: u8,
    /// The RMB on other links: two, or as many as there are if that is fewer.
    pub others: UpTo<LinkRToken, 2>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawConfirmRkey {
    header: RawHeader,
    other_links: u8,
    rkey: U32,
    address: U64,
    others: [RawLinkRToken; 2],
    reserved: u8,
}

impl ConfirmRkey {
    pub(super) fn decode(
        octets: &[u8; LLC_LENGTH],
        version: SmcVersion,
    ) -> Result<Self, LlcParseError> {
        //= V2-159
        let most = match version {
            SmcVersion::V1 => MAX_OTHER_LINKS,
            SmcVersion::V2 => MAX_OTHER_LINKS_V2,
        };
        let raw: &RawConfirmRkey = zerocopy::transmute_ref!(octets);
        entries::check_count(raw.header.kind, raw.other_links, 0, most)?;
        //= LLC-060
        Ok(Self {
            reply: raw.header.is_reply(),
            flags: RkeyFlags::from_bits_truncate(raw.header.flags),
            rtoken: RToken {
                rkey: RKey(raw.rkey.get()),
                address: raw.address.get(),
            },
            other_links: raw.other_links,
            others: entries::parse(raw.others.as_bytes(), raw.other_links),
        })
    }

    /// The message as 44 octets, with the header of version 1.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        let flags = self.flags.bits() & RkeyFlags::all().bits();
        zerocopy::transmute!(RawConfirmRkey {
            header: RawHeader::new(kind::CONFIRM_RKEY, self.reply, flags),
            other_links: self.other_links,
            rkey: U32::new(self.rtoken.rkey.0),
            address: U64::new(self.rtoken.address),
            others: entries::emit(&self.others),
            reserved: 0,
        })
    }
}

impl fmt::Display for ConfirmRkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CONFIRM RKEY {} rmb {} other-links {} {}",
            direction(self.reply),
            self.rtoken,
            self.other_links,
            List(&self.others)
        )?;
        self.flags.show(f)
    }
}
