//! LLC messages whatever their version.

use smc_proto::wire::llc::v2::LlcMessageV2;
use smc_proto::wire::llc::{DeleteRkey, LlcMessage};

/// What a message of version 2 has in common with one of version 1: of ADD LINK all but
/// the extension, of DELETE RKEY the first eight keys. Version 1 has no REQUEST ADD LINK.
#[must_use]
pub fn common(message: &LlcMessageV2<'_>) -> Option<LlcMessage> {
    Some(match message {
        LlcMessageV2::ConfirmLink(m) => LlcMessage::ConfirmLink(*m),
        LlcMessageV2::AddLink(m) => LlcMessage::AddLink(m.link),
        LlcMessageV2::DeleteLink(m) => LlcMessage::DeleteLink(*m),
        LlcMessageV2::ConfirmRkey(m) => LlcMessage::ConfirmRkey(m.clone()),
        LlcMessageV2::TestLink(m) => LlcMessage::TestLink(*m),
        LlcMessageV2::DeleteRkey(m) => LlcMessage::DeleteRkey(DeleteRkey {
            reply: m.reply,
            flags: m.flags,
            error_mask: 0,
            rkeys: m.rkeys.iter().take(8).collect(),
        }),
        LlcMessageV2::RequestAddLink(_) => return None,
    })
}

/// Reads a message of either version as far as both have it.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<LlcMessage> {
    match LlcMessageV2::parse(bytes) {
        Ok(message) => common(&message),
        Err(_) => LlcMessage::parse(bytes).ok(),
    }
}
