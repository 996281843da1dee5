//! One line of words for the octets of a message.

use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, ClcParseError, EYE_CATCHER, EYE_CATCHER_SMCD};
use smc_proto::wire::ism_event::{EventInfo, SHUTDOWN, TEST};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::llc::v2::LlcMessageV2;

use crate::observe::IsmContent;

/// What a SEND says.
#[must_use]
pub fn send(octets: &[u8]) -> String {
    let words = match octets.first() {
        Some(&CDC_TYPE) => Cdc::parse(octets).map(|cdc| cdc.to_string()).ok(),
        Some(0x20..=0x2f) => LlcMessageV2::parse(octets).map(|llc| llc.to_string()).ok(),
        _ => LlcMessage::parse(octets).map(|llc| llc.to_string()).ok(),
    };
    words.unwrap_or_else(|| format!("SEND {} octets: {}", octets.len(), head(octets)))
}

/// What one ISM device did to another.
#[must_use]
pub fn ism(what: &IsmContent<'_>) -> String {
    match what {
        IsmContent::Data { offset, octets } => {
            format!("ISM MOVE {} octets to offset {offset}", octets.len())
        }
        IsmContent::Cdc(cdc) => match CdcIsm::parse(cdc, Endianness::NATIVE) {
            Ok(cdc) => cdc.to_string(),
            Err(error) => format!("ISM SIGNAL: {error}"),
        },
        IsmContent::Event { code, info } => {
            let info = EventInfo::from_bits(*info, Endianness::NATIVE);
            let about = match *code {
                SHUTDOWN => "group shutdown",
                TEST if info.kind == EventInfo::RESPONSE => "test answer",
                TEST => "test",
                _ => "unknown",
            };
            format!("ISM EVENT 0x{code:02x} ({about}) vlan 0x{:04x}", info.vlan)
        }
    }
}

/// What the start of a TCP stream says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stream {
    /// A CLC message of so many octets.
    Clc(String, usize),
    /// The start of a CLC message, so far.
    Incomplete,
    /// Something else.
    Other,
}

/// Reads the start of a TCP stream.
#[must_use]
pub fn stream(octets: &[u8]) -> Stream {
    let known = octets.len().min(EYE_CATCHER.len());
    let begins = |eye_catcher: [u8; 4]| octets.get(..known) == eye_catcher.get(..known);
    if !begins(EYE_CATCHER) && !begins(EYE_CATCHER_SMCD) {
        return Stream::Other;
    }
    match ClcMessage::parse(octets) {
        Ok((message, length)) => Stream::Clc(message.to_string(), length),
        Err(ClcParseError::TooShort { .. }) => Stream::Incomplete,
        Err(_) => Stream::Other,
    }
}

/// The first octets in hexadecimal.
#[must_use]
pub fn head(octets: &[u8]) -> String {
    let shown = octets.iter().take(8).map(|octet| format!("{octet:02x}"));
    let mut text: String = shown.collect();
    if octets.len() > 8 {
        text.push('…');
    }
    text
}
