//! The fields of LLC messages.

use serde_json::{Value, json};
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{
    AddLink, ConfirmLink, ConfirmLinkFlags, ConfirmRkey, DeleteLink, DeleteLinkFlags, LinkRToken,
    LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{Mtu, RToken};

use crate::output::Fields;

/// The MTU in bytes, or null for a reserved code.
pub(super) fn mtu(mtu: Mtu) -> Value {
    mtu.octets().map_or(Value::Null, Value::from)
}

fn address(rtoken: RToken) -> String {
    format!("0x{:016x}", rtoken.address)
}

fn pair(pair: &RTokenPair) -> Value {
    json!({
        "reference_rkey": pair.reference.to_string(),
        "rkey": pair.new.rkey.to_string(),
        "address": address(pair.new),
    })
}

fn other(other: &LinkRToken) -> Value {
    json!({
        "link": other.link.0,
        "rkey": other.rtoken.rkey.to_string(),
        "address": address(other.rtoken),
    })
}

pub(super) fn fields(message: &LlcMessage<'_>, version: SmcVersion, fields: &mut Fields) {
    let v2 = version == SmcVersion::V2;
    if v2 {
        fields.put("llc_version", 2);
    }
    fields.put("reply", message.is_reply());
    match message {
        LlcMessage::ConfirmLink(message) => {
            confirm_link(message, fields);
            if v2 {
                fields.put("max_connections", message.max_connections);
            }
        }
        LlcMessage::AddLink(message) => {
            add_link(message, fields);
            if let Some(reason) = message.rejection.filter(|_| !v2) {
                fields.put("reject_reason", reason.0);
                fields.put("reject_reason_meaning", reason.meaning());
            }
            if let Some(extension) = &message.extension {
                fields.put("direct", extension.direct);
                fields.text("target_gid", extension.target_gid);
                let pairs: Vec<Value> = extension.rtokens.iter().map(|new| pair(&new)).collect();
                fields.put("pairs", pairs);
            }
        }
        LlcMessage::AddLinkContinuation(message) => {
            fields.put("link", message.link.0);
            fields.put("remaining", message.remaining);
            let pairs: Vec<Value> = message.pairs.iter().map(pair).collect();
            fields.put("pairs", pairs);
        }
        LlcMessage::DeleteLink(message) => delete_link(message, fields),
        LlcMessage::RequestAddLink(message) => {
            fields.put("rejected", message.rejected);
            let gids: Vec<String> = message.gids.iter().map(|gid| gid.to_string()).collect();
            fields.put("gids", gids);
        }
        LlcMessage::ConfirmRkey(message) => confirm_rkey(message, fields),
        LlcMessage::ConfirmRkeyContinuation(message) => {
            rkey_flags(message.flags, fields);
            fields.put("remaining", message.remaining);
            let others: Vec<Value> = message.others.iter().map(other).collect();
            fields.put("others", others);
        }
        LlcMessage::TestLink(message) => test_link(message, fields),
        LlcMessage::DeleteRkey(message) => {
            rkey_flags(message.flags, fields);
            if v2 {
                fields.put("unknown", message.unknown);
            } else {
                fields.put("error_mask", format!("0x{:02x}", message.unknown));
            }
            let rkeys: Vec<String> = message.rkeys.iter().map(|key| key.to_string()).collect();
            fields.put("rkeys", rkeys);
        }
    }
}

fn confirm_link(message: &ConfirmLink, fields: &mut Fields) {
    fields.text("mac", message.mac);
    fields.text("gid", message.gid);
    fields.text("qpn", message.qpn);
    fields.put("link", message.link.0);
    fields.text("user_id", message.user_id);
    fields.put("max_links", message.max_links);
    let flags = message.flags.contains(ConfirmLinkFlags::NO_EYE_CATCHER);
    fields.put("no_eye_catcher", flags);
}

fn add_link(message: &AddLink<'_>, fields: &mut Fields) {
    fields.put("rejected", message.rejection.is_some());
    fields.text("mac", message.mac);
    fields.text("gid", message.gid);
    fields.text("qpn", message.qpn);
    fields.put("link", message.link.0);
    fields.put("mtu", mtu(message.mtu));
    fields.text("psn", message.psn);
}

fn delete_link(message: &DeleteLink, fields: &mut Fields) {
    fields.put("all", message.flags.contains(DeleteLinkFlags::ALL));
    fields.put("orderly", message.flags.contains(DeleteLinkFlags::ORDERLY));
    fields.put("link", message.link.0);
    fields.put("reason", format!("0x{:08x}", message.reason.0));
    fields.put("reason_meaning", message.reason.meaning());
}

fn confirm_rkey(message: &ConfirmRkey, fields: &mut Fields) {
    rkey_flags(message.flags, fields);
    fields.text("rkey", message.rtoken.rkey);
    fields.put("address", address(message.rtoken));
    fields.put("other_links", message.other_links);
    let others: Vec<Value> = message.others.iter().map(other).collect();
    fields.put("others", others);
}

fn test_link(message: &TestLink, fields: &mut Fields) {
    let data = u128::from_be_bytes(message.user_data);
    fields.put("user_data", format!("{data:032x}"));
}

fn rkey_flags(flags: RkeyFlags, fields: &mut Fields) {
    fields.put("negative", flags.contains(RkeyFlags::NEGATIVE));
    fields.put("retry", flags.contains(RkeyFlags::RETRY));
}
