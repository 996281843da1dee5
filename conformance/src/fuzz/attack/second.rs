//! The attacking peer in version 2: what it means is encoded in other bytes.

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{AddLink, AddLinkExtension, LLC_V2_MAX_LENGTH, LlcMessage, version_of};

use super::Peer;

impl Peer {
    /// A message in the bytes of the version that this peer speaks.
    pub(in super::super) fn encode(&self, message: &LlcMessage<'_>) -> Vec<u8> {
        if !self.v2 {
            return message.emit_short(SmcVersion::V1).unwrap().to_vec();
        }
        let message = match message {
            LlcMessage::AddLink(m) => LlcMessage::AddLink(AddLink {
                extension: m.rejection.is_none().then(|| AddLinkExtension {
                    direct: true,
                    target_gid: m.gid,
                    rtokens: [].as_slice().into(),
                }),
                ..*m
            }),
            other => other.clone(),
        };
        let mut bytes = vec![0; LLC_V2_MAX_LENGTH];
        let length = message.emit(SmcVersion::V2, &mut bytes);
        bytes.truncate(length.expect("the longest fits"));
        bytes
    }

    /// The right answer to an LLC message of the endpoint.
    pub(in super::super) fn answer(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let version = version_of(payload);
        let answer = self.answer_llc(&LlcMessage::parse(payload, version).ok()?)?;
        Some(match version {
            SmcVersion::V1 => answer.emit_short(version).unwrap().to_vec(),
            SmcVersion::V2 => self.encode(&answer),
        })
    }
}
