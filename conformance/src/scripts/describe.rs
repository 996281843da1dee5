//! Messages in words.

use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::llc::v2::LlcMessageV2;

/// Octets that are shown of what nobody understands.
const SHOWN: usize = 48;

/// A message in one line; octets if it is none.
pub(super) fn describe(octets: &[u8]) -> String {
    if let Ok((message, length)) = ClcMessage::parse(octets) {
        let rest = octets.len() - length;
        return match rest {
            0 => message.to_string(),
            rest => format!("{message} and {rest} octets"),
        };
    }
    if let Ok(message) = LlcMessage::parse(octets) {
        return message.to_string();
    }
    if let Ok(message) = LlcMessageV2::parse(octets) {
        return message.to_string();
    }
    if let Ok(message) = Cdc::parse(octets) {
        return message.to_string();
    }
    let shown: Vec<String> = octets
        .iter()
        .take(SHOWN)
        .map(|octet| format!("{octet:02x}"))
        .collect();
    let more = if octets.len() > SHOWN { " .." } else { "" };
    format!("{} octets {}{more}", octets.len(), shown.join(" "))
}
