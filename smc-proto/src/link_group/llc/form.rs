//! LLC messages in the form of their group's version.

use crate::id::LinkIdx;
use crate::link_group::Groups;
use crate::version::SmcVersion;
use crate::wire::llc::{LLC_LENGTH, LlcMessage, LlcParseError, version_of};

/// Reads a message of a group, and in which version's form it is: a peer of version 2 may
/// send the forms of both. `None` if its type is optional and unknown.
//= V2-162
//= V2-165
pub(super) fn read(
    bytes: &[u8],
    is_v2: bool,
) -> Result<Option<(LlcMessage<'_>, SmcVersion)>, LlcParseError> {
    let form = if is_v2 {
        version_of(bytes)
    } else {
        SmcVersion::V1
    };
    match LlcMessage::parse(bytes, form) {
        Ok(message) => Ok(Some((message, form))),
        //= LLC-005
        Err(LlcParseError::UnknownOptional { .. }) => Ok(None),
        Err(LlcParseError::UnknownMandatory { .. }) if is_v2 => Ok(None),
        //= LLC-004
        //= LLC-007
        Err(error) => Err(error),
    }
}

impl Groups<'_> {
    /// A message of 44 bytes in the form that the peer of a link understands. `None` if it is
    /// longer: such a message has to be sent as a large one.
    //= V2-150
    //= V2-152
    pub(crate) fn encode(
        &self,
        link: LinkIdx,
        message: &LlcMessage<'_>,
    ) -> Option<[u8; LLC_LENGTH]> {
        // An ADD LINK of version 2 that is not a rejection is sent as a large message.
        //= V2-156
        let bytes = message.emit_short(self.version_on(link));
        debug_assert!(bytes.is_some(), "{message} is longer than 44 bytes");
        bytes
    }

    /// The version whose messages the peer of a link understands.
    pub(super) fn version_on(&self, link: LinkIdx) -> SmcVersion {
        if self.link(link).is_some_and(|l| l.is_v2()) {
            SmcVersion::V2
        } else {
            SmcVersion::V1
        }
    }
}
