//! The fields of CLC messages.

use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, Decline, Proposal};

use super::llc::mtu;
use crate::output::Fields;

pub(super) fn fields(message: &ClcMessage, fields: &mut Fields) {
    match message {
        ClcMessage::Proposal(message) => proposal(message, fields),
        ClcMessage::Accept(message) | ClcMessage::Confirm(message) => {
            accept_confirm(message, fields);
        }
        ClcMessage::Decline(message) => decline(message, fields),
    }
}

fn proposal(message: &Proposal, fields: &mut Fields) {
    fields.put("version", message.version.number());
    fields.text("v1_offer", message.v1);
    fields.text("peer_id", message.peer_id);
    fields.text("gid", message.gid);
    fields.text("mac", message.mac);
    if let Some(ism) = message.ism {
        fields.put("ism_gid", format!("0x{:016x}", ism.gid));
        fields.put("ism_chid", format!("0x{:04x}", ism.chid));
    }
    fields.text("ipv4_network", message.subnets.network);
    fields.put("ipv4_prefix_length", message.subnets.prefix_length);
    let prefixes: Vec<String> = message
        .subnets
        .ipv6
        .iter()
        .map(|prefix| format!("{}/{}", prefix.address, prefix.length))
        .collect();
    fields.put("ipv6_prefixes", prefixes);
    if let Some(offer) = message.v2_offer {
        fields.text("v2_offer", offer.path);
        fields.put("v2_release", offer.release);
        fields.text("v2_gid", offer.gid);
        fields.put("v2_eids", offer.eids);
        fields.put("v2_ism_gids", offer.ism_gids);
        fields.put("v2_seid", offer.seid);
    }
}

fn accept_confirm(message: &AcceptConfirm, fields: &mut Fields) {
    fields.put("first_contact", message.first_contact);
    fields.text("peer_id", message.peer_id);
    fields.text("gid", message.gid);
    fields.text("mac", message.mac);
    fields.text("qpn", message.qpn);
    fields.text("rkey", message.rtoken.rkey);
    fields.put("address", format!("0x{:016x}", message.rtoken.address));
    fields.put("rmbe_index", message.rmbe_index.0);
    fields.text("alert_token", message.alert_token);
    fields.put("buffer_size", message.buffer_size.octets());
    fields.put("mtu", mtu(message.mtu));
    fields.text("psn", message.psn);
}

fn decline(message: &Decline, fields: &mut Fields) {
    fields.put("version", message.version.number());
    fields.put("out_of_sync", message.out_of_sync);
    fields.text("peer_id", message.peer_id);
    fields.put("diagnosis", format!("0x{:08x}", message.diagnosis.0));
    fields.put("diagnosis_meaning", message.diagnosis.meaning());
    fields.put("os", message.os.0);
    fields.put("os_name", message.os.meaning());
}
