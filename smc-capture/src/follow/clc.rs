//! Separation of CLC messages from application data in one direction of a reassembled TCP
//! stream. The follower of a direction calls [`step`] with the bytes at the front of the stream
//! and the [`Phase`] it is in.

use smc_proto::wire::clc::{
    ClcKind, ClcMessage, ClcParseError, EYE_CATCHER, EYE_CATCHER_SMCD, HEADER_LENGTH,
};

use super::item::Content;

/// What may come next in one direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// A CLC message.
    Clc,
    /// The end of the stream, a Decline that gives the connection up during first contact's LLC
    /// exchange (RFC 7609, section 3.5), or application data.
    MaybeDecline,
    /// Application data only: the CLC handshake is over.
    Ended,
}

/// Result of [`step`].
pub(super) enum Step {
    /// The bytes are the beginning of a message of at least `total` bytes.
    NeedMore { total: usize },
    /// The first `length` bytes are a message, after which the direction is in phase `next`.
    Message {
        content: Box<Content>,
        length: usize,
        next: Phase,
    },
    /// The bytes have to be CLC, but violate the format at byte `offset` of the message.
    Malformed { offset: usize, reason: String },
    /// Application data.
    NotClc,
}

/// Examines the bytes at the front of a stream. `certain`: both SYNs carried the SMC option, so
/// that in [`Phase::Clc`] the bytes have to be CLC.
pub(super) fn step(phase: Phase, bytes: &[u8], certain: bool) -> Step {
    if bytes.is_empty() {
        return Step::NeedMore {
            total: HEADER_LENGTH,
        };
    }
    match phase {
        Phase::Ended => Step::NotClc,
        Phase::MaybeDecline => decline(bytes),
        Phase::Clc => message(bytes, certain),
    }
}

/// Whether the bytes, as far as they are there, are an eye catcher of CLC.
fn begins_like_clc(bytes: &[u8]) -> bool {
    [EYE_CATCHER, EYE_CATCHER_SMCD].iter().any(|eye_catcher| {
        let mut pairs = bytes.iter().zip(eye_catcher);
        pairs.all(|(byte, expected)| byte == expected)
    })
}

/// Examines bytes in [`Phase::MaybeDecline`]: whatever is not a valid Decline is application data.
fn decline(bytes: &[u8]) -> Step {
    if !begins_like_clc(bytes) || bytes.get(4).is_some_and(|kind| *kind != 4) {
        return Step::NotClc;
    }
    match ClcMessage::parse(bytes) {
        Ok((message, length)) => Step::Message {
            content: Box::new(Content::Clc(message)),
            length,
            next: Phase::Ended,
        },
        Err(ClcParseError::TooShort { needed, .. }) => Step::NeedMore { total: needed },
        Err(_) => Step::NotClc,
    }
}

/// Examines bytes in [`Phase::Clc`].
fn message(bytes: &[u8], certain: bool) -> Step {
    if !certain && !begins_like_clc(bytes) {
        return Step::NotClc;
    }
    if !begins_like_clc(bytes) {
        return Step::Malformed {
            offset: 0,
            reason: "no CLC eye catcher although both SYNs carry the SMC option".to_owned(),
        };
    }
    match ClcMessage::parse(bytes) {
        Ok((message, length)) => {
            let next = match message.kind() {
                ClcKind::Proposal => Phase::Clc,
                ClcKind::Accept | ClcKind::Confirm => Phase::MaybeDecline,
                ClcKind::Decline => Phase::Ended,
            };
            Step::Message {
                content: Box::new(Content::Clc(message)),
                length,
                next,
            }
        }
        Err(ClcParseError::TooShort { needed, .. }) => Step::NeedMore { total: needed },
        Err(error) => Step::Malformed {
            offset: offset(&error),
            reason: error.to_string(),
        },
    }
}

/// Offset in bytes of the invalid field from the start of the message.
fn offset(error: &ClcParseError) -> usize {
    match error {
        ClcParseError::EyeCatcher { offset, .. } => *offset,
        ClcParseError::UnknownType { .. } => 4,
        ClcParseError::BadLength { .. } | ClcParseError::ProposalLength { .. } => 5,
        ClcParseError::VersionZero | ClcParseError::UnknownTechnology { .. } => 7,
        ClcParseError::SubnetOffset { .. } => 38,
        ClcParseError::V2ExtensionOffset { .. } => 50,
        _ => HEADER_LENGTH,
    }
}
