//! TEST LINK (RFC 7609 A.3.8): sixteen octets there and back.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, kind};

/// Contents of a TEST LINK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TestLink {
    /// Reply or request.
    pub reply: bool,
    /// Chosen by the requester, echoed in the reply.
    pub user_data: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawTestLink {
    header: RawHeader,
    user_data: [u8; 16],
    reserved: [u8; 24],
}

impl TestLink {
    pub(super) fn decode(octets: &[u8; LLC_LENGTH]) -> Self {
        let raw: &RawTestLink = zerocopy::transmute_ref!(octets);
        Self {
            reply: raw.header.is_reply(),
            //= LLC-075
            user_data: raw.user_data,
        }
    }

    /// The message as 44 octets, with the header of version 1.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        zerocopy::transmute!(RawTestLink {
            header: RawHeader::new(kind::TEST_LINK, self.reply, 0),
            user_data: self.user_data,
            reserved: [0; 24],
        })
    }
}

impl fmt::Display for TestLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TEST LINK {} data ", direction(self.reply))?;
        for octet in self.user_data {
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}
