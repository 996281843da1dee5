//! LLC messages, version 2: 44 octets or more in a SEND.
//!
//! What version 1 has as well has the types of version 1. Messages
//! that can be longer than 44 octets borrow their lists, from the octets they
//! are read from or from the values they are made of.
//!
//! ```
//! use smc_proto::wire::llc::v2::{LLC_V2_MAX_LENGTH, LlcMessageV2, RequestAddLink};
//! use smc_proto::wire::types::Gid;
//!
//! let gids = [Gid([1; 16]), Gid([2; 16])];
//! let request = LlcMessageV2::RequestAddLink(RequestAddLink {
//!     reply: false,
//!     rejected: false,
//!     gids: gids.as_slice().into(),
//! });
//! let mut buffer = [0; LLC_V2_MAX_LENGTH];
//! let length = request.emit(&mut buffer)?;
//! assert_eq!(length, 60);
//! assert_eq!(LlcMessageV2::parse(&buffer[..length])?, request);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;

use super::{
    ConfirmLink, ConfirmRkey, DeleteLink, LLC_LENGTH, LlcParseError, MAX_OTHER_LINKS_V2, TestLink,
};
use crate::wire::BufferTooSmall;

mod add_link;
mod delete_rkey;
mod header;
mod list;
mod request_add_link;

pub use add_link::{AddLinkExtension, AddLinkV2};
pub use delete_rkey::DeleteRkeyV2;
pub use list::{Entries, EntriesIter};
pub use request_add_link::RequestAddLink;

use header::{check_header, emit_common, version_2};

/// The longest LLC message there is, in octets.
//= V2-152
pub const LLC_V2_MAX_LENGTH: usize = 8192;

/// Type octets of version 2.
//= V2-150
pub mod kind {
    /// CONFIRM LINK.
    pub const CONFIRM_LINK: u8 = 0x21;
    /// ADD LINK.
    pub const ADD_LINK: u8 = 0x22;
    /// DELETE LINK.
    pub const DELETE_LINK: u8 = 0x24;
    /// REQUEST ADD LINK.
    pub const REQUEST_ADD_LINK: u8 = 0x25;
    /// CONFIRM RKEY.
    pub const CONFIRM_RKEY: u8 = 0x26;
    /// TEST LINK.
    pub const TEST_LINK: u8 = 0x27;
    /// DELETE RKEY.
    pub const DELETE_RKEY: u8 = 0x29;
}

/// An LLC message of version 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LlcMessageV2<'a> {
    /// A link works in both directions.
    ConfirmLink(ConfirmLink),
    /// A link is to be added.
    AddLink(AddLinkV2<'a>),
    /// A link, or the group, is to end.
    DeleteLink(DeleteLink),
    /// The client asks the server to add a link.
    RequestAddLink(RequestAddLink<'a>),
    /// RTokens of a new RMB. There are no CONTINUATIONs: at most two other
    /// links.
    ConfirmRkey(ConfirmRkey),
    /// Is the link alive?
    TestLink(TestLink),
    /// RMBs are withdrawn.
    DeleteRkey(DeleteRkeyV2<'a>),
}

impl<'a> LlcMessageV2<'a> {
    /// Reads an LLC message of version 2 from a received SEND of at least 44
    /// octets; it has all of them, and those past [`LLC_V2_MAX_LENGTH`] are not
    /// looked at. Reserved bits and octets are ignored.
    ///
    /// # Errors
    /// [`LlcParseError`]. Types of version 1 are `UnknownMandatory` here;
    /// [`LlcMessage::parse`](super::LlcMessage::parse) reads them.
    pub fn parse(octets: &'a [u8]) -> Result<Self, LlcParseError> {
        let Some(&kind) = octets.first() else {
            return Err(LlcParseError::TooShort { have: 0 });
        };
        //= V2-162
        match kind {
            0x21 | 0x22 | 0x24..=0x27 | 0x29 => {}
            0x80..=0xbf => return Err(LlcParseError::UnknownOptional { kind }),
            0xc0..=0xff => return Err(LlcParseError::Cdc { kind }),
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        }
        let octets = octets.get(..LLC_V2_MAX_LENGTH).unwrap_or(octets);
        let Some((head, tail)) = octets.split_first_chunk::<LLC_LENGTH>() else {
            return Err(LlcParseError::TooShort { have: octets.len() });
        };
        check_header(head)?;
        Ok(match kind {
            kind::CONFIRM_LINK => Self::ConfirmLink(ConfirmLink::decode_v2(head)),
            kind::ADD_LINK => Self::AddLink(AddLinkV2::decode(head, tail)?),
            kind::DELETE_LINK => Self::DeleteLink(DeleteLink::decode(head)),
            kind::REQUEST_ADD_LINK => Self::RequestAddLink(RequestAddLink::decode(octets)),
            //= V2-159
            kind::CONFIRM_RKEY => Self::ConfirmRkey(ConfirmRkey::decode(head, MAX_OTHER_LINKS_V2)?),
            kind::TEST_LINK => Self::TestLink(TestLink::decode(head)),
            kind::DELETE_RKEY => Self::DeleteRkey(DeleteRkeyV2::decode(octets)?),
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        })
    }

    /// Octets [`emit`](Self::emit) writes: 44 to [`LLC_V2_MAX_LENGTH`].
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::AddLink(message) => message.encoded_len(),
            Self::RequestAddLink(message) => message.encoded_len(),
            Self::DeleteRkey(message) => message.encoded_len(),
            _ => LLC_LENGTH,
        }
    }

    /// Writes the message to the start of `buffer` and returns its length.
    /// Reserved octets are zero. A list longer than its message can carry is
    /// cut: 507 RTokens, 255 keys or GIDs.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `buffer` is shorter than
    /// [`encoded_len`](Self::encoded_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        match self {
            Self::ConfirmLink(message) => emit_common(message.emit_all(), buffer),
            Self::AddLink(message) => message.emit(buffer),
            Self::DeleteLink(message) => emit_common(message.emit(), buffer),
            Self::RequestAddLink(message) => message.emit(buffer),
            Self::ConfirmRkey(message) => emit_common(message.emit(), buffer),
            Self::TestLink(message) => emit_common(message.emit(), buffer),
            Self::DeleteRkey(message) => message.emit(buffer),
        }
    }

    /// The type octet.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::ConfirmLink(_) => kind::CONFIRM_LINK,
            Self::AddLink(_) => kind::ADD_LINK,
            Self::DeleteLink(_) => kind::DELETE_LINK,
            Self::RequestAddLink(_) => kind::REQUEST_ADD_LINK,
            Self::ConfirmRkey(_) => kind::CONFIRM_RKEY,
            Self::TestLink(_) => kind::TEST_LINK,
            Self::DeleteRkey(_) => kind::DELETE_RKEY,
        }
    }

    /// Whether the message answers one of the receiver's (octet 3, 0x80).
    #[must_use]
    pub const fn is_reply(&self) -> bool {
        match self {
            Self::ConfirmLink(message) => message.reply,
            Self::AddLink(message) => message.link.reply,
            Self::DeleteLink(message) => message.reply,
            Self::RequestAddLink(message) => message.reply,
            Self::ConfirmRkey(message) => message.reply,
            Self::TestLink(message) => message.reply,
            Self::DeleteRkey(message) => message.reply,
        }
    }
}

impl fmt::Display for LlcMessageV2<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfirmLink(message) => write!(f, "LLC v2 {message}"),
            Self::AddLink(message) => write!(f, "LLC v2 {message}"),
            Self::DeleteLink(message) => write!(f, "LLC v2 {message}"),
            Self::RequestAddLink(message) => write!(f, "LLC v2 {message}"),
            Self::ConfirmRkey(message) => write!(f, "LLC v2 {message}"),
            Self::TestLink(message) => write!(f, "LLC v2 {message}"),
            Self::DeleteRkey(message) => write!(f, "LLC v2 {message}"),
        }
    }
}

#[cfg(test)]
mod tests;
