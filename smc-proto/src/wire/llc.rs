//! LLC messages (RFC 7609 A.3): SENDs by which the peers of a link group manage its links
//! and buffers. They have 44 octets in version 1, and 44 or more in version 2.
//!
//! Every message is a request or, with `reply` set, the answer to one of the
//! same type. The versions differ in the header, in what some messages carry and in a few
//! messages that only one of them has: the codec is given the version. Lists that can
//! be longer than 44 octets have room for are borrowed, from the octets they are read from
//! or from the values they are made of.
//!
//! ```
//! use smc_proto::version::SmcVersion;
//! use smc_proto::wire::llc::{LLC_V2_MAX_LENGTH, LlcMessage, RequestAddLink};
//! use smc_proto::wire::types::Gid;
//!
//! let gids = [Gid([1; 16]), Gid([2; 16])];
//! let request = LlcMessage::RequestAddLink(RequestAddLink {
//!     reply: false,
//!     rejected: false,
//!     gids: gids.as_slice().into(),
//! });
//! let mut buffer = [0; LLC_V2_MAX_LENGTH];
//! let length = request.emit(SmcVersion::V2, &mut buffer)?;
//! assert_eq!(length, 60);
//! assert_eq!(LlcMessage::parse(&buffer[..length], SmcVersion::V2)?, request);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;

use crate::version::{SERVES_V2, SmcVersion};
use crate::wire::{BufferTooSmall, emit_exactly};

mod add_link;
mod add_link_continuation;
mod add_link_extension;
mod confirm_link;
mod confirm_rkey;
mod confirm_rkey_continuation;
mod delete_link;
mod delete_rkey;
mod entries;
mod error;
mod header;
mod list;
mod request_add_link;
mod test_link;
#[deprecated(note = "moved to `llc`")]
pub mod v2;

pub use add_link::AddLink;
pub use add_link_continuation::AddLinkContinuation;
pub use add_link_extension::AddLinkExtension;
pub use confirm_link::{ConfirmLink, ConfirmLinkFlags};
pub use confirm_rkey::{ConfirmRkey, RkeyFlags};
pub use confirm_rkey_continuation::ConfirmRkeyContinuation;
pub use delete_link::{DeleteLink, DeleteLinkFlags};
pub use delete_rkey::DeleteRkey;
pub use entries::{LinkRToken, MAX_OTHER_LINKS, MAX_OTHER_LINKS_V2, RTokenPair};
pub use error::LlcParseError;
pub use list::{Entries, EntriesIter};
pub use request_add_link::RequestAddLink;
pub use test_link::TestLink;

use header::VERSION_2;

/// Length of every version-1 LLC message, and the least of version 2, in octets.
//= LLC-001
pub const LLC_LENGTH: usize = 44;

/// The longest LLC message there is, in octets.
//= V2-152
pub const LLC_V2_MAX_LENGTH: usize = 8192;

/// Type octets of version 1. Those of version 2 have the bit 0x20 as well.
//= LLC-008
//= V2-150
pub mod kind {
    /// CONFIRM LINK.
    pub const CONFIRM_LINK: u8 = 0x01;
    /// ADD LINK.
    pub const ADD_LINK: u8 = 0x02;
    /// ADD LINK CONTINUATION, which only version 1 has.
    pub const ADD_LINK_CONTINUATION: u8 = 0x03;
    /// DELETE LINK.
    pub const DELETE_LINK: u8 = 0x04;
    /// REQUEST ADD LINK, which only version 2 has (0x25).
    pub const REQUEST_ADD_LINK: u8 = 0x05;
    /// CONFIRM RKEY.
    pub const CONFIRM_RKEY: u8 = 0x06;
    /// TEST LINK.
    pub const TEST_LINK: u8 = 0x07;
    /// CONFIRM RKEY CONTINUATION, which only version 1 has.
    pub const CONFIRM_RKEY_CONTINUATION: u8 = 0x08;
    /// DELETE RKEY.
    pub const DELETE_RKEY: u8 = 0x09;
}

/// The version whose form a message has, by its first octet: 2 if that is 0x20 to 0x3f.
#[must_use]
pub const fn version_of(octets: &[u8]) -> SmcVersion {
    match octets {
        [0x20..=0x3f, ..] => SmcVersion::V2,
        _ => SmcVersion::V1,
    }
}

/// An LLC message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LlcMessage<'a> {
    /// A link works in both directions.
    ConfirmLink(ConfirmLink),
    /// A link is to be added.
    AddLink(AddLink<'a>),
    /// RTokens of the link being added. Only in version 1.
    AddLinkContinuation(AddLinkContinuation),
    /// A link, or the group, is to end.
    DeleteLink(DeleteLink),
    /// The client asks the server to add a link. Only in version 2.
    RequestAddLink(RequestAddLink<'a>),
    /// RTokens of a new RMB.
    ConfirmRkey(ConfirmRkey),
    /// More of them. Only in version 1: the two other links that a group of version 2 has
    /// at most find room in the first message.
    ConfirmRkeyContinuation(ConfirmRkeyContinuation),
    /// Is the link alive?
    TestLink(TestLink),
    /// RMBs are withdrawn.
    DeleteRkey(DeleteRkey<'a>),
}

impl<'a> LlcMessage<'a> {
    /// Whether it is a request for the end of the whole group.
    pub(crate) const fn deletes_all(&self) -> bool {
        match self {
            Self::DeleteLink(message) => {
                !message.reply && message.flags.contains(DeleteLinkFlags::ALL)
            }
            _ => false,
        }
    }

    /// Reads an LLC message of `version` from a received SEND of at least 44 octets.
    ///
    /// The type is judged first, so that an unknown optional message is reported
    /// as such whatever its length. Reserved bits and octets are ignored
    /// (AMB-38), and so is everything past octet 43 in version 1 and past
    /// [`LLC_V2_MAX_LENGTH`] in version 2.
    ///
    /// # Errors
    /// [`LlcParseError`]. The caller discards silently what is
    /// `UnknownOptional`, gives `Cdc` to [`Cdc::parse`](super::cdc::Cdc::parse)
    /// and takes the link down for all others (LLC-004, LLC-007, LLC-079). Types of the
    /// other version are `UnknownMandatory`; [`version_of`] returns the version of a message.
    pub fn parse(octets: &'a [u8], version: SmcVersion) -> Result<Self, LlcParseError> {
        let Some(&kind) = octets.first() else {
            return Err(LlcParseError::TooShort { have: 0 });
        };
        // Types of a version that is not spoken are unknown.
        let version = if SERVES_V2 { version } else { SmcVersion::V1 };
        match (version, kind) {
            (SmcVersion::V1, 0x01..=0x04 | 0x06..=0x09) => {}
            //= V2-162
            (SmcVersion::V2, 0x21 | 0x22 | 0x24..=0x27 | 0x29) => {}
            //= LLC-005
            (_, 0x80..=0xbf) => return Err(LlcParseError::UnknownOptional { kind }),
            //= LLC-006
            (_, 0xc0..=0xff) => return Err(LlcParseError::Cdc { kind }),
            //= LLC-004
            //= LLC-007
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        }
        let most = match version {
            SmcVersion::V1 => LLC_LENGTH,
            SmcVersion::V2 => LLC_V2_MAX_LENGTH,
        };
        let octets = octets.get(..most).unwrap_or(octets);
        let Some((head, tail)) = octets.split_first_chunk::<LLC_LENGTH>() else {
            return Err(LlcParseError::TooShort { have: octets.len() });
        };
        header::check_length(head, version)?;
        Ok(match kind & !VERSION_2 {
            kind::CONFIRM_LINK => Self::ConfirmLink(ConfirmLink::decode(head, version)),
            kind::ADD_LINK => Self::AddLink(AddLink::decode(head, tail, version)?),
            kind::ADD_LINK_CONTINUATION => {
                Self::AddLinkContinuation(AddLinkContinuation::decode(head))
            }
            kind::DELETE_LINK => Self::DeleteLink(DeleteLink::decode(head)),
            kind::REQUEST_ADD_LINK => Self::RequestAddLink(RequestAddLink::decode(octets)),
            kind::CONFIRM_RKEY => Self::ConfirmRkey(ConfirmRkey::decode(head, version)?),
            kind::CONFIRM_RKEY_CONTINUATION => {
                Self::ConfirmRkeyContinuation(ConfirmRkeyContinuation::decode(head)?)
            }
            kind::TEST_LINK => Self::TestLink(TestLink::decode(head)),
            kind::DELETE_RKEY => Self::DeleteRkey(DeleteRkey::decode(octets, version)?),
            _ => return Err(LlcParseError::UnknownMandatory { kind }),
        })
    }

    /// Octets [`emit`](Self::emit) writes: 44, and in version 2 up to
    /// [`LLC_V2_MAX_LENGTH`].
    #[must_use]
    pub fn encoded_len(&self, version: SmcVersion) -> usize {
        match (self.form(version), self) {
            (SmcVersion::V2, Self::AddLink(message)) => {
                let extension = message.extension.as_ref();
                let extension = extension.map_or(0, AddLinkExtension::encoded_len);
                extension.saturating_add(LLC_LENGTH)
            }
            (_, Self::RequestAddLink(message)) => message.encoded_len(),
            (version, Self::DeleteRkey(message)) => message.encoded_len(version),
            _ => LLC_LENGTH,
        }
    }

    /// Writes the message in the form of `version` to the start of `buffer` and returns
    /// its length; a message that only the other version has, in the form of that one.
    /// Reserved octets are zero. A list longer than its message can carry is cut: 8 keys
    /// in version 1; 507 RTokens, 255 keys or GIDs in version 2.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `buffer` is shorter than
    /// [`encoded_len`](Self::encoded_len).
    pub fn emit(&self, version: SmcVersion, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        emit_exactly(self.encoded_len(version), buffer, |all| {
            self.write(self.form(version), all)
        })
    }

    /// The message in the form of `version`, if that has 44 octets. `None` if it is longer:
    /// an ADD LINK with an extension, a REQUEST ADD LINK with several GIDs, a DELETE RKEY with
    /// more than 9 keys, each in version 2.
    #[must_use]
    pub fn emit_short(&self, version: SmcVersion) -> Option<[u8; LLC_LENGTH]> {
        let mut octets = [0; LLC_LENGTH];
        self.emit(version, &mut octets).ok().map(|_| octets)
    }

    /// Writes the message to `all`, which has its length.
    fn write(&self, version: SmcVersion, all: &mut [u8]) -> Option<()> {
        match self {
            Self::RequestAddLink(message) => message.write(all)?,
            Self::DeleteRkey(message) => message.write(version, all)?,
            _ => {
                let (head, tail) = all.split_first_chunk_mut::<LLC_LENGTH>()?;
                *head = match self {
                    Self::ConfirmLink(message) => message.encode(version),
                    Self::AddLink(message) => {
                        if let Some(extension) = message.extension.filter(|_| !tail.is_empty()) {
                            extension.write(tail)?;
                        }
                        message.encode()
                    }
                    Self::AddLinkContinuation(message) => message.encode(),
                    Self::DeleteLink(message) => message.encode(),
                    Self::ConfirmRkey(message) => message.encode(),
                    Self::ConfirmRkeyContinuation(message) => message.encode(),
                    Self::TestLink(message) => message.encode(),
                    Self::RequestAddLink(_) | Self::DeleteRkey(_) => return None,
                };
            }
        }
        if version == SmcVersion::V2 {
            header::become_version_2(all);
        }
        Some(())
    }

    /// The version in whose form the message is sent to a peer of `version`.
    const fn form(&self, version: SmcVersion) -> SmcVersion {
        match self {
            Self::AddLinkContinuation(_) | Self::ConfirmRkeyContinuation(_) => SmcVersion::V1,
            Self::RequestAddLink(_) => SmcVersion::V2,
            _ => version,
        }
    }

    /// The message without a borrow; `None` if one of its lists has more than 36 octets,
    /// which only those of version 2 can have.
    #[must_use]
    pub fn to_static(&self) -> Option<LlcMessage<'static>> {
        Some(match self {
            Self::ConfirmLink(message) => LlcMessage::ConfirmLink(*message),
            Self::AddLink(message) => LlcMessage::AddLink(AddLink {
                extension: match message.extension {
                    Some(extension) => Some(AddLinkExtension {
                        rtokens: extension.rtokens.to_static()?,
                        ..extension
                    }),
                    None => None,
                },
                ..*message
            }),
            Self::AddLinkContinuation(message) => LlcMessage::AddLinkContinuation(message.clone()),
            Self::DeleteLink(message) => LlcMessage::DeleteLink(*message),
            Self::RequestAddLink(message) => LlcMessage::RequestAddLink(RequestAddLink {
                gids: message.gids.to_static()?,
                ..*message
            }),
            Self::ConfirmRkey(message) => LlcMessage::ConfirmRkey(message.clone()),
            Self::ConfirmRkeyContinuation(message) => {
                LlcMessage::ConfirmRkeyContinuation(message.clone())
            }
            Self::TestLink(message) => LlcMessage::TestLink(*message),
            Self::DeleteRkey(message) => LlcMessage::DeleteRkey(DeleteRkey {
                rkeys: message.rkeys.to_static()?,
                ..*message
            }),
        })
    }

    /// The type octet in the form of `version`.
    #[must_use]
    pub const fn kind(&self, version: SmcVersion) -> u8 {
        let kind = match self {
            Self::ConfirmLink(_) => kind::CONFIRM_LINK,
            Self::AddLink(_) => kind::ADD_LINK,
            Self::AddLinkContinuation(_) => kind::ADD_LINK_CONTINUATION,
            Self::DeleteLink(_) => kind::DELETE_LINK,
            Self::RequestAddLink(_) => kind::REQUEST_ADD_LINK,
            Self::ConfirmRkey(_) => kind::CONFIRM_RKEY,
            Self::ConfirmRkeyContinuation(_) => kind::CONFIRM_RKEY_CONTINUATION,
            Self::TestLink(_) => kind::TEST_LINK,
            Self::DeleteRkey(_) => kind::DELETE_RKEY,
        };
        match self.form(version) {
            SmcVersion::V1 => kind,
            SmcVersion::V2 => kind | VERSION_2,
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
            Self::RequestAddLink(message) => message.reply,
            Self::ConfirmRkey(message) => message.reply,
            Self::ConfirmRkeyContinuation(message) => message.reply,
            Self::TestLink(message) => message.reply,
            Self::DeleteRkey(message) => message.reply,
        }
    }

    /// The message in one line, as one of `version`: "LLC ..." or "LLC v2 ...".
    #[must_use]
    pub const fn display(&self, version: SmcVersion) -> LlcDisplay<'_> {
        LlcDisplay {
            message: self,
            version,
        }
    }
}

/// An LLC message of one version, in one line ([`LlcMessage::display`]).
#[derive(Debug)]
pub struct LlcDisplay<'a> {
    message: &'a LlcMessage<'a>,
    version: SmcVersion,
}

impl fmt::Display for LlcDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.message.form(self.version);
        f.write_str(match version {
            SmcVersion::V1 => "LLC ",
            SmcVersion::V2 => "LLC v2 ",
        })?;
        match self.message {
            LlcMessage::ConfirmLink(message) => message.fmt(f),
            LlcMessage::AddLink(message) => message.fmt(f),
            LlcMessage::AddLinkContinuation(message) => message.fmt(f),
            LlcMessage::DeleteLink(message) => message.fmt(f),
            LlcMessage::RequestAddLink(message) => message.fmt(f),
            LlcMessage::ConfirmRkey(message) => message.fmt(f),
            LlcMessage::ConfirmRkeyContinuation(message) => message.fmt(f),
            LlcMessage::TestLink(message) => message.fmt(f),
            LlcMessage::DeleteRkey(message) => message.show(version, f),
        }
    }
}

/// The line of the message as one of version 1, if that has it.
impl fmt::Display for LlcMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(SmcVersion::V1).fmt(f)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_v2;
