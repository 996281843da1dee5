//! Messages of CLC that a client sends over TCP, as bytes.

use smc_proto::wire::clc::{ClcKind, ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
use smc_proto::wire::types::{DiagnosisCode, PeerId};

/// A Decline.
pub(crate) fn decline() -> Vec<u8> {
    let message = ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::default(),
        diagnosis: DiagnosisCode::MEMORY,
        os: PeerOs::LINUX,
    });
    let mut bytes = vec![0; MAX_LENGTH];
    let len = message.emit(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// A Proposal of version 1, for an RNIC whose addresses are all zero.
pub(crate) fn proposal() -> Vec<u8> {
    const LEN: u16 = 52;
    let mut bytes = decline();
    let trailer = bytes.split_off(bytes.len() - 4);
    bytes[4] = ClcKind::Proposal as u8;
    bytes[5..7].copy_from_slice(&LEN.to_be_bytes());
    bytes.resize(usize::from(LEN) - trailer.len(), 0);
    bytes.extend(trailer);
    bytes
}

/// The only message in these bytes is a Decline.
#[track_caller]
pub(crate) fn is_decline(bytes: &[u8]) {
    let (message, len) = ClcMessage::parse(bytes).unwrap();
    assert_eq!((message.kind(), len), (ClcKind::Decline, bytes.len()));
}
