//! CONFIRM RKEY CONTINUATION (RFC 7609 A.3.6): the RTokens a CONFIRM RKEY had
//! no room for.
//!
//! Three entries of 13 octets fill the message to its end; the reserved last
//! octet of the RFC's drawing has no room (AMB-01).

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entries::{self, LinkRToken, MAX_OTHER_LINKS, RawLinkRToken};
use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, LlcParseError, RkeyFlags, kind};
use crate::wire::list::{List, UpTo};

/// Contents of a CONFIRM RKEY CONTINUATION.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConfirmRkeyContinuation {
    /// Reply, an echo of the request, or request.
    pub reply: bool,
    /// Flags beside R; `RETRY` is not among them.
    pub flags: RkeyFlags,
    /// Links still to be announced, those in this message included: 1 to
    /// [`MAX_OTHER_LINKS`].
    pub remaining: u8,
    /// The RMB on other links: three, or as many as remain if that is fewer.
    pub others: UpTo<LinkRToken, 3>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawConfirmRkeyContinuation {
    header: RawHeader,
    remaining: u8,
    others: [RawLinkRToken; 3],
}

impl ConfirmRkeyContinuation {
    pub(super) fn decode(octets: &[u8; LLC_LENGTH]) -> Result<Self, LlcParseError> {
        let raw: &RawConfirmRkeyContinuation = zerocopy::transmute_ref!(octets);
        let kind = kind::CONFIRM_RKEY_CONTINUATION;
        entries::check_count(kind, raw.remaining, 1, MAX_OTHER_LINKS)?;
        Ok(Self {
            reply: raw.header.is_reply(),
            flags: RkeyFlags::from_bits_truncate(raw.header.flags) & RkeyFlags::NEGATIVE,
            //= LLC-062
            remaining: raw.remaining,
            //= LLC-061
            others: entries::parse(raw.others.as_bytes(), raw.remaining),
        })
    }

    /// The message as 44 octets.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        let flags = self.flags & RkeyFlags::NEGATIVE;
        zerocopy::transmute!(RawConfirmRkeyContinuation {
            header: RawHeader::new(kind::CONFIRM_RKEY_CONTINUATION, self.reply, flags.bits()),
            remaining: self.remaining,
            others: entries::emit(&self.others),
        })
    }
}

impl fmt::Display for ConfirmRkeyContinuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CONFIRM RKEY CONTINUATION {} remaining {} {}",
            direction(self.reply),
            self.remaining,
            List(&self.others)
        )?;
        self.flags.show(f)
    }
}
