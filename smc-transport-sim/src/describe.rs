//! One line of words for the bytes of a message.

use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, ClcParseError, EYE_CATCHER, EYE_CATCHER_SMCD};
use smc_proto::wire::ism_event::{EventInfo, SHUTDOWN, TEST};
use smc_proto::wire::llc::{LlcMessage, version_of};

use crate::observe::IsmContent;

/// Describes the content of a SEND.
#[must_use]
pub fn send(bytes: &[u8]) -> String {
    let words = match bytes.first() {
        Some(&CDC_TYPE) => Cdc::parse(bytes).map(|cdc| cdc.to_string()).ok(),
        _ => {
            let version = version_of(bytes);
            let message = LlcMessage::parse(bytes, version);
            message.map(|llc| llc.display(version).to_string()).ok()
        }
    };
    words.unwrap_or_else(|| format!("SEND {} octets: {}", bytes.len(), head(bytes)))
}

/// What one ISM device did to another.
#[must_use]
pub fn ism(what: &IsmContent<'_>) -> String {
    match what {
        IsmContent::Data { offset, bytes } => {
            format!("ISM MOVE {} octets to offset {offset}", bytes.len())
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

/// Describes the start of a TCP stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stream {
    /// A CLC message of so many bytes.
    Clc(String, usize),
    /// The start of a CLC message, so far.
    Incomplete,
    /// Something else.
    Other,
}

/// Reads the start of a TCP stream.
#[must_use]
pub fn stream(bytes: &[u8]) -> Stream {
    let known = bytes.len().min(EYE_CATCHER.len());
    let begins = |eye_catcher: [u8; 4]| bytes.get(..known) == eye_catcher.get(..known);
    if !begins(EYE_CATCHER) && !begins(EYE_CATCHER_SMCD) {
        return Stream::Other;
    }
    match ClcMessage::parse(bytes) {
        Ok((message, length)) => Stream::Clc(message.to_string(), length),
        Err(ClcParseError::TooShort { .. }) => Stream::Incomplete,
        Err(_) => Stream::Other,
    }
}

/// The first bytes in hexadecimal.
#[must_use]
pub fn head(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(8).map(|byte| format!("{byte:02x}"));
    let mut text: String = shown.collect();
    if bytes.len() > 8 {
        text.push('…');
    }
    text
}
