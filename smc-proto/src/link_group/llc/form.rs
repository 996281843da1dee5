//! LLC messages in the form of their group's version.

use crate::id::LinkIdx;
use crate::link_group::Groups;
use crate::wire::llc::v2::{
    AddLinkExtension, AddLinkV2, DeleteRkeyV2, LlcMessageV2, RequestAddLink,
};
use crate::wire::llc::{AddLink, LLC_LENGTH, LlcMessage, LlcParseError};

/// A message as it arrived: what both versions have, and what only version 2 has.
pub(super) enum Incoming<'a> {
    Common(LlcMessage),
    AddLink(AddLinkV2<'a>),
    RequestAddLink(RequestAddLink<'a>),
    DeleteRkey(DeleteRkeyV2<'a>),
}

impl Incoming<'_> {
    /// Whether it ends the whole group.
    pub(super) const fn deletes_all(&self) -> bool {
        match self {
            Self::Common(message) => message.deletes_all(),
            _ => false,
        }
    }
}

/// Whether a type byte is one of version 2.
const fn is_version_2(kind: u8) -> bool {
    kind >> 5 == 1
}

/// Reads a message of a group; `None` if its type is optional and unknown.
//= V2-162
//= V2-165
pub(super) fn read(bytes: &[u8], is_v2: bool) -> Result<Option<Incoming<'_>>, LlcParseError> {
    let form_2 = is_v2 && bytes.first().is_some_and(|kind| is_version_2(*kind));
    let message = if form_2 {
        LlcMessageV2::parse(bytes).map(incoming)
    } else {
        LlcMessage::parse(bytes).map(|message| match message {
            LlcMessage::AddLink(link) if is_v2 => Incoming::AddLink(AddLinkV2 {
                link,
                extension: None,
            }),
            message => Incoming::Common(message),
        })
    };
    match message {
        Ok(message) => Ok(Some(message)),
        //= LLC-005
        Err(LlcParseError::UnknownOptional { .. }) => Ok(None),
        Err(LlcParseError::UnknownMandatory { .. }) if is_v2 => Ok(None),
        //= LLC-004
        //= LLC-007
        Err(error) => Err(error),
    }
}

fn incoming(message: LlcMessageV2<'_>) -> Incoming<'_> {
    Incoming::Common(match message {
        LlcMessageV2::AddLink(message) => return Incoming::AddLink(message),
        LlcMessageV2::RequestAddLink(message) => return Incoming::RequestAddLink(message),
        LlcMessageV2::DeleteRkey(message) => return Incoming::DeleteRkey(message),
        LlcMessageV2::ConfirmLink(message) => LlcMessage::ConfirmLink(message),
        LlcMessageV2::DeleteLink(message) => LlcMessage::DeleteLink(message),
        LlcMessageV2::ConfirmRkey(message) => LlcMessage::ConfirmRkey(message),
        LlcMessageV2::TestLink(message) => LlcMessage::TestLink(message),
    })
}

/// A message of version 2 that is known to have 44 bytes.
pub(super) fn emit_short(message: &LlcMessageV2<'_>) -> [u8; LLC_LENGTH] {
    let mut bytes = [0; LLC_LENGTH];
    // It fits.
    let _ = message.emit(&mut bytes);
    bytes
}

impl Groups<'_> {
    /// A message of 44 bytes in the form that the peer of a link understands.
    //= V2-150
    //= V2-152
    pub(crate) fn encode(&self, link: LinkIdx, message: &LlcMessage) -> [u8; LLC_LENGTH] {
        if !self.link(link).is_some_and(|l| l.is_v2()) {
            return message.emit();
        }
        // An ADD LINK that is not a rejection goes out as a large message.
        //= V2-156
        match message.to_v2() {
            Some(message) => emit_short(&message),
            // There are none in version 2: three links at most fit the first message.
            None => message.emit(),
        }
    }
}

/// ADD LINK with its extension.
pub(super) const fn with_extension<'a>(
    link: AddLink,
    extension: AddLinkExtension<'a>,
) -> LlcMessageV2<'a> {
    LlcMessageV2::AddLink(AddLinkV2 {
        link,
        extension: Some(extension),
    })
}
