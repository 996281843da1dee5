//! LLC messages, version 1 (RFC 7609 A.3): 44 octets in a SEND, by which the
//! peers of a link group manage its links and buffers.
//!
//! Every message is a request or, with `reply` set, the answer to one of the
//! same type. Version 2 is in [`v2`].

use core::fmt;

mod add_link;
mod add_link_continuation;
mod confirm_link;
mod confirm_rkey;
mod confirm_rkey_continuation;
mod delete_link;
mod delete_rkey;
mod entries;
mod error;
mod header;
mod test_link;
pub mod v2;

pub use add_link::AddLink;
pub use add_link_continuation::AddLinkContinuation;
pub use confirm_link::{ConfirmLink, ConfirmLinkFlags};
pub use confirm_rkey::{ConfirmRkey, RkeyFlags};
pub use confirm_rkey_continuation::ConfirmRkeyContinuation;
pub use delete_link::{DeleteLink, DeleteLinkFlags};
pub use delete_rkey::DeleteRkey;
pub use entries::{LinkRToken, MAX_OTHER_LINKS, MAX_OTHER_LINKS_V2, RTokenPair};
pub use error::LlcParseError;
pub use test_link::TestLink;

use v2::{AddLinkV2, DeleteRkeyV2, LlcMessageV2};

/// Length of every version-1 LLC message, in octets.
//= LLC-001
pub const LLC_LENGTH: usize = 44;

/// Type octets of version 1.
//= LLC-008
pub mod kind {
    /// CONFIRM LINK.
    pub const CONFIRM_LINK: u8 = 0x01;
    /// ADD LINK.
    pub const ADD_LINK: u8 = 0x02;
    /// ADD LINK CONTINUATION.
    pub const ADD_LINK_CONTINUATION: u8 = 0x03;
    /// DELETE LINK.
    pub const DELETE_LINK: u8 = 0x04;
    /// CONFIRM RKEY.
    pub const CONFIRM_RKEY: u8 = 0x06;
    /// TEST LINK.
    pub const TEST_LINK: u8 = 0x07;
    /// CONFIRM RKEY CONTINUATION.
    pub const CONFIRM_RKEY_CONTINUATION: u8 = 0x08;
    /// DELETE RKEY.
    pub const DELETE_RKEY: u8 = 0x09;
}

/// An LLC message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LlcMessage {
    /// A link works in both directions.
    ConfirmLink(ConfirmLink),
    /// A link is to be added.
    AddLink(AddLink),
    /// RTokens of the link being added.
    AddLinkContinuation(AddLinkContinuation),
    /// A link, or the group, is to end.
    DeleteLink(DeleteLink),
    /// RTokens of a new RMB.
    ConfirmRkey(ConfirmRkey),
    /// More of them.
    ConfirmRkeyContinuation(ConfirmRkeyContinuation),
    /// Is the link alive?
    TestLink(TestLink),
    /// RMBs are withdrawn.
    DeleteRkey(DeleteRkey),
}

impl LlcMessage {
    /// Whether it is a request for the end of the whole group.
    pub(crate) const fn deletes_all(&self) -> bool {
        match self {
            Self::DeleteLink(message) => {
                !message.reply && message.flags.contains(DeleteLinkFlags::ALL)
            }
            _ => false,
        }
    }

    /// Reads an LLC message from a received SEND of at least 44 octets.
    ///
    /// The type is judged first, so that an unknown optional message is reported
    /// as such whatever its length. Reserved bits and octets are ignored
    /// (AMB-38), and so is everything past octet 43.
    ///
    /// # Errors
    /// [`LlcParseError`]. The caller discards silently what is
    /// `UnknownOptional`, gives `Cdc` to [`Cdc::parse`](super::cdc::Cdc::parse)
    /// and takes the link down for all others (LLC-004, LLC-007, LLC-079).
    pub fn parse(octets: &[u8]) -> Result<Self, LlcParseError> {
        let Some(&kind) = octets.first() else {
            return Err(LlcParseError::TooShort { have: 0 });
        };
        match kind {
            0x01..=0x04 | 0x06..=0x09 => {}
            //= LLC-005
            0x80..=0xbf => return Err(LlcParseError::UnknownOptional { kind }),
            //= LLC-006
            0xc0..=0xff => return Err(LlcParseError::Cdc { kind }),
            //= LLC-004
            //= LLC-007
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        }
        let Some(octets) = octets.first_chunk::<LLC_LENGTH>() else {
            return Err(LlcParseError::TooShort { have: octets.len() });
        };
        //= LLC-001
        let [_, length, ..] = *octets;
        if usize::from(length) != LLC_LENGTH {
            return Err(LlcParseError::BadLength { length });
        }
        Ok(match kind {
            kind::CONFIRM_LINK => Self::ConfirmLink(ConfirmLink::decode(octets)),
            kind::ADD_LINK => Self::AddLink(AddLink::decode(octets)),
            kind::ADD_LINK_CONTINUATION => {
                Self::AddLinkContinuation(AddLinkContinuation::decode(octets))
            }
            kind::DELETE_LINK => Self::DeleteLink(DeleteLink::decode(octets)),
            kind::CONFIRM_RKEY => Self::ConfirmRkey(ConfirmRkey::decode(octets, MAX_OTHER_LINKS)?),
            kind::CONFIRM_RKEY_CONTINUATION => {
                Self::ConfirmRkeyContinuation(ConfirmRkeyContinuation::decode(octets)?)
            }
            kind::TEST_LINK => Self::TestLink(TestLink::decode(octets)),
            kind::DELETE_RKEY => Self::DeleteRkey(DeleteRkey::decode(octets)?),
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        })
    }

    /// The message in version 2, ADD LINK without an extension; `None` for CONTINUATIONs,
    /// of which version 2 has none.
    //= V2-160
    #[must_use]
    pub fn to_v2(&self) -> Option<LlcMessageV2<'_>> {
        Some(match self {
            Self::ConfirmLink(message) => LlcMessageV2::ConfirmLink(*message),
            Self::AddLink(message) => LlcMessageV2::AddLink(AddLinkV2 {
                link: *message,
                extension: None,
            }),
            Self::DeleteLink(message) => LlcMessageV2::DeleteLink(*message),
            Self::ConfirmRkey(message) => LlcMessageV2::ConfirmRkey(message.clone()),
            Self::TestLink(message) => LlcMessageV2::TestLink(*message),
            Self::DeleteRkey(message) => LlcMessageV2::DeleteRkey(DeleteRkeyV2 {
                reply: message.reply,
                flags: message.flags,
                unknown: 0,
                rkeys: message.rkeys.as_slice().into(),
            }),
            Self::AddLinkContinuation(_) | Self::ConfirmRkeyContinuation(_) => return None,
        })
    }

    /// The message as 44 octets, reserved octets zero.
    #[must_use]
    pub fn emit(&self) -> [u8; LLC_LENGTH] {
        match self {
            Self::ConfirmLink(message) => message.emit(),
            Self::AddLink(message) => message.emit(),
            Self::AddLinkContinuation(message) => message.emit(),
            Self::DeleteLink(message) => message.emit(),
            Self::ConfirmRkey(message) => message.emit(),
            Self::ConfirmRkeyContinuation(message) => message.emit(),
            Self::TestLink(message) => message.emit(),
            Self::DeleteRkey(message) => message.emit(),
        }
    }

    /// The type octet.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::ConfirmLink(_) => kind::CONFIRM_LINK,
            Self::AddLink(_) => kind::ADD_LINK,
            Self::AddLinkContinuation(_) => kind::ADD_LINK_CONTINUATION,
            Self::DeleteLink(_) => kind::DELETE_LINK,
            Self::ConfirmRkey(_) => kind::CONFIRM_RKEY,
            Self::ConfirmRkeyContinuation(_) => kind::CONFIRM_RKEY_CONTINUATION,
            Self::TestLink(_) => kind::TEST_LINK,
            Self::DeleteRkey(_) => kind::DELETE_RKEY,
        }
    }

    /// Whether the message answers one of the receiver's (R, octet 3, 0x80).
    //= LLC-003
    #[must_use]
    pub const fn is_reply(&self) -> bool {
        match self {
            Self::ConfirmLink(message) => message.reply,
            Self::AddLink(message) => message.reply,
            Self::AddLinkContinuation(message) => message.reply,
            Self::DeleteLink(message) => message.reply,
            Self::ConfirmRkey(message) => message.reply,
            Self::ConfirmRkeyContinuation(message) => message.reply,
            Self::TestLink(message) => message.reply,
            Self::DeleteRkey(message) => message.reply,
        }
    }
}

impl fmt::Display for LlcMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfirmLink(message) => write!(f, "LLC {message}"),
            Self::AddLink(message) => write!(f, "LLC {message}"),
            Self::AddLinkContinuation(message) => write!(f, "LLC {message}"),
            Self::DeleteLink(message) => write!(f, "LLC {message}"),
            Self::ConfirmRkey(message) => write!(f, "LLC {message}"),
            Self::ConfirmRkeyContinuation(message) => write!(f, "LLC {message}"),
            Self::TestLink(message) => write!(f, "LLC {message}"),
            Self::DeleteRkey(message) => write!(f, "LLC {message}"),
        }
    }
}

#[cfg(test)]
mod tests;
