//! The fields of CLC messages.

use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, Decline, FirstContactExtension, Proposal, SmcdAcceptConfirm, V2Offer,
};
use smc_proto::wire::types::IsmGid;

use super::llc::mtu;
use crate::output::Fields;

pub(super) fn fields(message: &ClcMessage, fields: &mut Fields) {
    match message {
        ClcMessage::Proposal(message) => proposal(message, fields),
        ClcMessage::Accept(message) | ClcMessage::Confirm(message) => {
            accept_confirm(message, fields);
        }
        ClcMessage::SmcdAccept(message) | ClcMessage::SmcdConfirm(message) => {
            smcd_accept_confirm(message, fields);
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
        fields.text("ism_chid", ism.chid);
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
    if let Some(offer) = &message.v2_offer {
        v2_offer(offer, fields);
    }
}

fn v2_offer(offer: &V2Offer, fields: &mut Fields) {
    fields.text("v2_offer", offer.path);
    fields.put("v2_release", offer.release.number());
    fields.text("v2_gid", offer.gid);
    let eids: Vec<String> = offer.eids.iter().map(ToString::to_string).collect();
    fields.put("v2_eids", eids);
    if offer.release.has_limits() {
        fields.put("v2_max_connections", offer.max_connections);
        fields.put("v2_max_links", offer.max_links);
        fields.text("v2_features", offer.features);
    }
    if offer.path.has_smcd() {
        fields.put("v2_seid", offer.smcd.seid.map(|seid| seid.to_string()));
        let entries = offer.smcd.devices.entries().iter();
        let entries: Vec<String> = entries.map(ToString::to_string).collect();
        fields.put("v2_ism_gids", entries);
    }
}

fn accept_confirm(message: &AcceptConfirm, fields: &mut Fields) {
    fields.put("version", if message.v2.is_some() { 2 } else { 1 });
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
    if let Some(v2) = &message.v2 {
        fields.text("eid", v2.eid);
        if message.first_contact {
            fields.put("direct", v2.extension.direct);
            extension(&v2.extension, true, fields);
        }
        if !v2.gids.as_slice().is_empty() {
            let gids: Vec<String> = v2.gids.as_slice().iter().map(ToString::to_string).collect();
            fields.put("gids", gids);
        }
    }
}

fn smcd_accept_confirm(message: &SmcdAcceptConfirm, fields: &mut Fields) {
    fields.put("smcd", true);
    fields.put("version", if message.v2.is_some() { 2 } else { 1 });
    fields.put("first_contact", message.first_contact);
    let IsmGid { gid, gid_ext, chid } = message.device();
    fields.put("ism_gid", format!("0x{gid:016x}"));
    fields.text("dmb_token", message.token);
    fields.put("dmbe_index", message.dmbe_index);
    fields.put("buffer_size", message.buffer_size.octets());
    let link_id = u32::from_be_bytes(message.link_id);
    fields.put("link_id", format!("0x{link_id:08x}"));
    if let Some(v2) = &message.v2 {
        fields.text("ism_chid", chid);
        fields.text("eid", v2.eid);
        fields.put("ism_gid_ext", format!("0x{gid_ext:016x}"));
        if message.first_contact {
            extension(&v2.extension, false, fields);
        }
    }
}

fn extension(extension: &FirstContactExtension, smcr: bool, fields: &mut Fields) {
    fields.put("os", extension.os.0);
    fields.put("os_name", extension.os.meaning());
    fields.put("release", extension.release.number());
    fields.text("hostname", extension.hostname);
    if extension.release.has_limits() {
        if smcr {
            fields.put("max_connections", extension.max_connections);
            fields.put("max_links", extension.max_links);
        }
        fields.text("features", extension.features);
    }
}

fn decline(message: &Decline, fields: &mut Fields) {
    fields.put("version", message.version.number());
    fields.put("out_of_sync", message.out_of_sync);
    fields.text("peer_id", message.peer_id);
    fields.put("diagnosis", format!("0x{:08x}", message.diagnosis.0));
    fields.put("diagnosis_meaning", message.diagnosis.meaning());
    fields.put("diagnosis_name", message.diagnosis.name());
    fields.put("diagnosis_sentence", message.diagnosis.sentence());
    fields.put("diagnosis_remedy", message.diagnosis.remedy());
    fields.put("os", message.os.0);
    fields.put("os_name", message.os.meaning());
}
