//! Where in a TCP stream CLC messages are, and where they end.

use smc_proto::wire::clc::{
    ClcKind, ClcMessage, ClcParseError, EYE_CATCHER, EYE_CATCHER_SMCD, HEADER_LENGTH,
};

use super::item::Content;

/// What a direction of a stream may hold next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// A CLC message.
    Clc,
    /// Nothing, a Decline of the first-contact LLC phase, or application data.
    MaybeDecline,
    /// Application data.
    Ended,
}

/// What the bytes at hand are.
pub(super) enum Step {
    /// The message takes `total` bytes, as far as known.
    NeedMore { total: usize },
    /// A message.
    Message {
        content: Box<Content>,
        length: usize,
        next: Phase,
    },
    /// CLC with a fault.
    Malformed { offset: usize, reason: String },
    /// Application data.
    NotClc,
}

/// Judges the bytes at the front of a stream. `certain`: they have to be CLC,
/// both sides having agreed to speak it.
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

fn begins_like_clc(bytes: &[u8]) -> bool {
    [EYE_CATCHER, EYE_CATCHER_SMCD].iter().any(|eye_catcher| {
        let mut pairs = bytes.iter().zip(eye_catcher);
        pairs.all(|(byte, expected)| byte == expected)
    })
}

/// Bytes that are not a whole, sound Decline belong to the application.
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

/// The byte of the message at which the fault stands.
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
