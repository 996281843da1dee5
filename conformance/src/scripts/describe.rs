//! Messages in words.

use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{LlcMessage, version_of};

/// Bytes that are shown of what is not understood.
const SHOWN: usize = 48;

/// A message in one line; bytes if it is none.
pub(super) fn describe(bytes: &[u8]) -> String {
    if let Ok((message, length)) = ClcMessage::parse(bytes) {
        let rest = bytes.len() - length;
        return match rest {
            0 => message.to_string(),
            rest => format!("{message} and {rest} octets"),
        };
    }
    let version = version_of(bytes);
    if let Ok(message) = LlcMessage::parse(bytes, version) {
        return message.display(version).to_string();
    }
    if let Ok(message) = Cdc::parse(bytes) {
        return message.to_string();
    }
    let shown: Vec<String> = bytes
        .iter()
        .take(SHOWN)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let more = if bytes.len() > SHOWN { " .." } else { "" };
    format!("{} octets {}{more}", bytes.len(), shown.join(" "))
}
