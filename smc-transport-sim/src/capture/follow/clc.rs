//! Where in a TCP stream CLC messages are, and where they end.

use smc_proto::wire::clc::{ClcKind, ClcMessage, ClcParseError, EYE_CATCHER, HEADER_LENGTH};

use super::item::{Content, Protocol};

/// Eye catcher of SMC-D's Accept and Confirm.
const SMCD_EYE_CATCHER: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xc4];

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

/// What the octets at hand are.
pub(super) enum Step {
    /// The message takes `total` octets, as far as known.
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

/// Judges the octets at the front of a stream. `certain`: they have to be CLC,
/// both sides having agreed to speak it.
pub(super) fn step(phase: Phase, octets: &[u8], certain: bool) -> Step {
    if octets.is_empty() {
        return Step::NeedMore {
            total: HEADER_LENGTH,
        };
    }
    match phase {
        Phase::Ended => Step::NotClc,
        Phase::MaybeDecline => decline(octets),
        Phase::Clc => message(octets, certain),
    }
}

fn begins_like(octets: &[u8], eye_catcher: [u8; 4]) -> bool {
    octets
        .iter()
        .zip(eye_catcher)
        .all(|(octet, expected)| *octet == expected)
}

/// Octets that are not a whole, sound Decline belong to the application.
fn decline(octets: &[u8]) -> Step {
    if !begins_like(octets, EYE_CATCHER) || octets.get(4).is_some_and(|kind| *kind != 4) {
        return Step::NotClc;
    }
    match ClcMessage::parse(octets) {
        Ok((message, length)) => Step::Message {
            content: Box::new(Content::Clc(message)),
            length,
            next: Phase::Ended,
        },
        Err(ClcParseError::TooShort { needed, .. }) => Step::NeedMore { total: needed },
        Err(_) => Step::NotClc,
    }
}

fn message(octets: &[u8], certain: bool) -> Step {
    if begins_like(octets, SMCD_EYE_CATCHER) && !begins_like(octets, EYE_CATCHER) {
        return unsupported(octets);
    }
    if !certain && !begins_like(octets, EYE_CATCHER) {
        return Step::NotClc;
    }
    if !begins_like(octets, EYE_CATCHER) {
        return Step::Malformed {
            offset: 0,
            reason: "no CLC eye catcher although both SYNs carry the SMC option".to_owned(),
        };
    }
    match ClcMessage::parse(octets) {
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
        Err(ClcParseError::UnsupportedVersion { .. }) => unsupported(octets),
        Err(error) => Step::Malformed {
            offset: offset(&error),
            reason: error.to_string(),
        },
    }
}

/// A message with a layout that is not decoded yet, once it is whole.
fn unsupported(octets: &[u8]) -> Step {
    let [a, b, c, d, kind, l0, l1, flags, ..] = *octets else {
        return Step::NeedMore {
            total: HEADER_LENGTH,
        };
    };
    let length = usize::from(u16::from_be_bytes([l0, l1]));
    if length < HEADER_LENGTH {
        return Step::Malformed {
            offset: 5,
            reason: format!("CLC length {length} is shorter than the header"),
        };
    }
    if octets.len() < length {
        return Step::NeedMore { total: length };
    }
    let kind = match kind {
        2 => "Accept".to_owned(),
        3 => "Confirm".to_owned(),
        other => format!("type {other}"),
    };
    let family = if [a, b, c, d] == SMCD_EYE_CATCHER {
        "SMC-D"
    } else {
        "SMC-R"
    };
    Step::Message {
        content: Box::new(Content::Unsupported {
            protocol: Protocol::Clc,
            what: format!("unsupported version {}: {family} {kind}", flags >> 4),
        }),
        length,
        next: Phase::MaybeDecline,
    }
}

/// The octet of the message at which the fault stands.
fn offset(error: &ClcParseError) -> usize {
    match error {
        ClcParseError::EyeCatcher { offset, .. } => *offset,
        ClcParseError::UnknownType { .. } => 4,
        ClcParseError::BadLength { .. } | ClcParseError::ProposalLength { .. } => 5,
        ClcParseError::VersionZero | ClcParseError::UnsupportedVersion { .. } => 7,
        ClcParseError::SubnetOffset { .. } => 38,
        ClcParseError::V2ExtensionOffset { .. } => 50,
        _ => HEADER_LENGTH,
    }
}
