//! The attacking peer in version 2: what it means is encoded in other bytes.

use smc_proto::wire::llc::v2::{
    AddLinkExtension, AddLinkV2, DeleteRkeyV2, LLC_V2_MAX_LENGTH, LlcMessageV2,
};
use smc_proto::wire::llc::{DeleteRkey, LlcMessage};

use super::Peer;

impl Peer {
    /// A message in the bytes of the version that this peer speaks.
    pub(in super::super) fn encode(&self, message: &LlcMessage) -> Vec<u8> {
        match self.v2.then(|| second(message)).flatten() {
            Some(bytes) => bytes,
            None => message.emit().to_vec(),
        }
    }

    /// The right answer to an LLC message of the endpoint.
    pub(in super::super) fn answer(&self, payload: &[u8]) -> Option<Vec<u8>> {
        if let Ok(message) = LlcMessageV2::parse(payload) {
            let answer = self.answer_llc(&first(&message)?.emit())?;
            return Some(self.encode(&answer));
        }
        Some(self.answer_llc(payload)?.emit().to_vec())
    }
}

fn second(message: &LlcMessage) -> Option<Vec<u8>> {
    let rkeys: Vec<_>;
    let message = match message {
        LlcMessage::ConfirmLink(m) => LlcMessageV2::ConfirmLink(*m),
        LlcMessage::AddLink(m) => LlcMessageV2::AddLink(AddLinkV2 {
            extension: m.rejection.is_none().then(|| AddLinkExtension {
                direct: true,
                target_gid: m.gid,
                rtokens: [].as_slice().into(),
            }),
            link: *m,
        }),
        LlcMessage::DeleteLink(m) => LlcMessageV2::DeleteLink(*m),
        LlcMessage::ConfirmRkey(m) => LlcMessageV2::ConfirmRkey(m.clone()),
        LlcMessage::TestLink(m) => LlcMessageV2::TestLink(*m),
        LlcMessage::DeleteRkey(m) => {
            rkeys = m.rkeys.iter().copied().collect();
            LlcMessageV2::DeleteRkey(DeleteRkeyV2 {
                reply: m.reply,
                flags: m.flags,
                unknown: m.error_mask,
                rkeys: rkeys.as_slice().into(),
            })
        }
        // Version 2 has no continuations.
        LlcMessage::AddLinkContinuation(_) | LlcMessage::ConfirmRkeyContinuation(_) => return None,
    };
    let mut bytes = vec![0; LLC_V2_MAX_LENGTH];
    let length = message.emit(&mut bytes).expect("the longest fits");
    bytes.truncate(length);
    Some(bytes)
}

fn first(message: &LlcMessageV2<'_>) -> Option<LlcMessage> {
    Some(match message {
        LlcMessageV2::ConfirmLink(m) => LlcMessage::ConfirmLink(*m),
        LlcMessageV2::AddLink(m) => LlcMessage::AddLink(m.link),
        LlcMessageV2::DeleteLink(m) => LlcMessage::DeleteLink(*m),
        LlcMessageV2::ConfirmRkey(m) => LlcMessage::ConfirmRkey(m.clone()),
        LlcMessageV2::TestLink(m) => LlcMessage::TestLink(*m),
        LlcMessageV2::DeleteRkey(m) => LlcMessage::DeleteRkey(DeleteRkey {
            reply: m.reply,
            flags: m.flags,
            error_mask: m.unknown,
            rkeys: m.rkeys.iter().take(8).collect(),
        }),
        LlcMessageV2::RequestAddLink(_) => return None,
    })
}
