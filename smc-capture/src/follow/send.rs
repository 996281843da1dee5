//! What a SEND holds: an LLC message or a CDC message, by its first byte.

use smc_proto::wire::cdc::{CDC_LENGTH, CDC_TYPE, Cdc, CdcError};
use smc_proto::wire::llc::{LLC_V2_MAX_LENGTH, LlcParseError};

use super::item::{Content, Llc, Protocol};
use super::qp::QueuePair;
use crate::frame::RoceFrame;
use crate::roce::Opcode;

/// No SEND is longer than an LLC message of version 2 can be.
const MAX_SEND: usize = LLC_V2_MAX_LENGTH;

/// Whether a SEND to a queue pair nothing is known of looks like SMC: the
/// length of a version-1 message, or a version-2 type with a length of 44 or
/// more in either byte order (Linux sends it in its own).
pub(super) fn looks_like_smc(bytes: &[u8], length: usize) -> bool {
    match *bytes {
        [0x20..=0x2f, l0, l1, ..] => {
            let announced = [u16::from_be_bytes([l0, l1]), u16::from_le_bytes([l0, l1])];
            length >= CDC_LENGTH
                && announced.iter().any(|announced| {
                    usize::from(*announced) >= CDC_LENGTH && usize::from(*announced) <= length
                })
        }
        [_, announced, ..] => length == CDC_LENGTH && usize::from(announced) == CDC_LENGTH,
        _ => false,
    }
}

/// Reads a SEND of `bytes` and `missing` more that the capture does not hold.
pub(super) fn interpret(bytes: &[u8], missing: usize) -> Content {
    let length = bytes.len() + missing;
    let Some(&kind) = bytes.first() else {
        return Content::Malformed {
            protocol: Protocol::Roce,
            offset: 0,
            reason: "SEND without octets".to_owned(),
        };
    };
    let protocol = if kind == CDC_TYPE {
        Protocol::Cdc
    } else {
        Protocol::Llc
    };
    let version_2 = (0x20..=0x2f).contains(&kind);
    if !version_2 && length != CDC_LENGTH {
        return Content::Malformed {
            protocol,
            offset: length.min(CDC_LENGTH),
            reason: format!("SEND of {length} octets, must be {CDC_LENGTH}"),
        };
    }
    if missing > 0 {
        return Content::Cut {
            protocol,
            have: bytes.len(),
            need: length,
        };
    }
    if protocol == Protocol::Cdc {
        return match Cdc::parse(bytes) {
            Ok(cdc) => Content::Cdc(cdc),
            Err(error) => Content::Malformed {
                protocol,
                offset: match error {
                    CdcError::BadLength { .. } => 1,
                    _ => 0,
                },
                reason: error.to_string(),
            },
        };
    }
    match Llc::new(bytes.to_vec()) {
        Ok(message) => Content::Llc(message),
        Err(error @ LlcParseError::UnknownOptional { .. }) => Content::Unsupported {
            protocol,
            what: error.to_string(),
        },
        Err(error) => Content::Malformed {
            protocol,
            offset: match error {
                LlcParseError::BadLength { .. } | LlcParseError::BadLengthV2 { .. } => 1,
                LlcParseError::ShortExtension { have } => have,
                LlcParseError::CountOutOfRange { .. } => 4,
                _ => 0,
            },
            reason: error.to_string(),
        },
    }
}

/// The whole payload of a SEND once its last packet is there, and how many
/// bytes of it the capture does not hold.
pub(super) fn assemble(
    frame: &RoceFrame<'_>,
    fresh: bool,
    queue_pair: &mut QueuePair,
) -> Option<(Vec<u8>, usize)> {
    let packet = &frame.packet;
    let opcode = packet.bth.opcode;
    let (payload, missing) = (packet.payload, packet.missing);
    if opcode.begins_message() && opcode.ends_message() {
        return Some((payload.to_vec(), missing));
    }
    if !fresh {
        return None;
    }
    if opcode == Opcode::SEND_FIRST {
        queue_pair.send = Some((Vec::new(), 0));
    }
    let (bytes, lacking) = queue_pair.send.as_mut()?;
    let room = MAX_SEND.saturating_sub(bytes.len());
    // Behind the first bytes that are missing the rest would be misplaced.
    let kept = if *lacking > 0 {
        0
    } else {
        room.min(payload.len())
    };
    bytes.extend(payload.get(..kept)?);
    *lacking += payload.len() - kept + missing;
    if opcode.ends_message() {
        return queue_pair.send.take();
    }
    None
}
