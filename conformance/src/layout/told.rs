//! What the values of `smc_proto` say, in the terms of the second decoder.

use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, FirstContactExtension, OfferedPath, Proposal, SmcdAcceptConfirm,
    V2Offer,
};
use smc_proto::wire::llc::v2::LlcMessageV2;
use smc_proto::wire::llc::{ConfirmLinkFlags, DeleteLinkFlags, LinkRToken, RTokenPair, RkeyFlags};
use smc_proto::wire::types::RToken;

use super::{Fields, hex};

/// Fields being put down.
#[derive(Default)]
struct Told(Fields);

impl Told {
    fn raw(&mut self, name: &str, octets: &[u8]) {
        self.0.insert(name.to_owned(), hex(octets));
    }
    fn octet(&mut self, name: &str, octet: impl Into<u8>) {
        self.raw(name, &[octet.into()]);
    }
    fn list<const N: usize>(&mut self, name: &str, items: impl IntoIterator<Item = [u8; N]>) {
        for (n, item) in items.into_iter().enumerate() {
            self.raw(&format!("{name} {n}"), &item);
        }
    }
}

fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    parts
        .concat()
        .try_into()
        .expect("parts of the right length")
}

fn rtoken(rtoken: RToken) -> [u8; 12] {
    join(&[&rtoken.rkey.0.to_be_bytes(), &rtoken.address.to_be_bytes()])
}

/// A CLC message.
#[must_use]
pub fn clc(message: &ClcMessage) -> Fields {
    let mut told = Told::default();
    told.octet("type", message.kind() as u8);
    match message {
        ClcMessage::Proposal(message) => proposal(message, &mut told),
        ClcMessage::Accept(message) | ClcMessage::Confirm(message) => {
            accept_confirm(message, &mut told);
        }
        ClcMessage::SmcdAccept(message) | ClcMessage::SmcdConfirm(message) => {
            smcd_accept_confirm(message, &mut told);
        }
        ClcMessage::Decline(message) => {
            told.octet("version", message.version.number().min(2));
            told.octet("out_of_sync", message.out_of_sync);
            told.octet("os", message.os.0);
            told.raw("peer_id", &message.peer_id.0);
            told.raw("diagnosis", &message.diagnosis.0.to_be_bytes());
        }
    }
    told.0
}

fn proposal(message: &Proposal, told: &mut Told) {
    told.octet("version", message.version.number().min(2));
    told.octet("v1", message.v1 as u8);
    told.raw("peer_id", &message.peer_id.0);
    told.raw("gid", &message.gid.0);
    told.raw("mac", &message.mac.0);
    if let Some(ism) = message.ism {
        told.raw("ism_gid", &ism.gid.to_be_bytes());
        told.raw("ism_chid", &ism.chid.0.to_be_bytes());
    }
    if message.version.is_v1() || message.v1 != OfferedPath::Neither {
        let subnets = &message.subnets;
        told.raw("network", &subnets.network.octets());
        told.octet("prefix_length", subnets.prefix_length);
        let prefixes = subnets.ipv6.iter();
        told.list::<17>(
            "prefix",
            prefixes.map(|prefix| join(&[&prefix.address.octets(), &[prefix.length]])),
        );
    }
    if let Some(offer) = &message.v2_offer {
        v2_offer(offer, told);
    }
}

fn v2_offer(offer: &V2Offer, told: &mut Told) {
    told.octet("v2", offer.path as u8);
    told.octet("release", offer.release.number());
    told.raw("v2_gid", &offer.gid.0);
    told.list("eid", offer.eids.iter().map(|eid| eid.0));
    if offer.release.has_limits() {
        told.octet("max_connections", offer.max_connections);
        told.octet("max_links", offer.max_links);
        told.raw("features", &offer.features.bits().to_be_bytes());
    }
    if offer.path.has_smcd() {
        if let Some(seid) = offer.smcd.seid {
            told.raw("seid", &seid.0);
        }
        let entries = offer.smcd.devices.entries().iter();
        told.list::<10>(
            "ism",
            entries.map(|entry| join(&[&entry.gid.to_be_bytes(), &entry.chid.0.to_be_bytes()])),
        );
    }
}

fn accept_confirm(message: &AcceptConfirm, told: &mut Told) {
    told.octet("version", 1 + u8::from(message.v2.is_some()));
    told.octet("first_contact", message.first_contact);
    told.octet("technology", 0);
    told.raw("peer_id", &message.peer_id.0);
    told.raw("gid", &message.gid.0);
    told.raw("mac", &message.mac.0);
    told.raw("qpn", &message.qpn.octets());
    told.raw("rkey", &message.rtoken.rkey.0.to_be_bytes());
    told.octet("index", message.rmbe_index.0);
    told.raw("token", &message.alert_token.0.to_be_bytes());
    told.octet(
        "size_mtu",
        message.buffer_size.code() * 16 + message.mtu.code(),
    );
    told.raw("address", &message.rtoken.address.to_be_bytes());
    told.raw("psn", &message.psn.octets());
    if let Some(v2) = &message.v2 {
        told.raw("eid", &v2.eid.0);
        if message.first_contact {
            extension(&v2.extension, true, told);
        }
        told.list("client_gid", v2.gids.as_slice().iter().map(|gid| gid.0));
    }
}

fn smcd_accept_confirm(message: &SmcdAcceptConfirm, told: &mut Told) {
    told.octet("version", 1 + u8::from(message.v2.is_some()));
    told.octet("first_contact", message.first_contact);
    told.octet("technology", 1);
    told.raw("gid", &message.gid.to_be_bytes());
    told.raw("token", &message.token.0.to_be_bytes());
    told.octet("index", message.dmbe_index);
    told.octet("size", message.buffer_size.code());
    told.raw("link_id", &message.link_id);
    if let Some(v2) = &message.v2 {
        told.raw("chid", &v2.chid.0.to_be_bytes());
        told.raw("eid", &v2.eid.0);
        told.raw("gid_ext", &v2.gid_ext.to_be_bytes());
        if message.first_contact {
            extension(&v2.extension, false, told);
        }
    }
}

fn extension(extension: &FirstContactExtension, smcr: bool, told: &mut Told) {
    told.octet("os", extension.os.0);
    told.octet("release", extension.release.number());
    told.raw("hostname", &extension.hostname.0);
    if smcr {
        told.octet("direct", extension.direct);
    }
    if extension.release.has_limits() {
        told.raw("features", &extension.features.bits().to_be_bytes());
        if smcr {
            told.octet("max_connections", extension.max_connections);
            told.octet("max_links", extension.max_links);
        }
    }
}

/// An LLC message of version 2.
#[must_use]
pub fn llc_v2(message: &LlcMessageV2<'_>) -> Fields {
    let mut told = Told::default();
    told.octet("type", message.kind());
    told.octet("reply", message.is_reply());
    match message {
        LlcMessageV2::ConfirmLink(m) => {
            told.raw("mac", &m.mac.0);
            told.raw("gid", &m.gid.0);
            told.raw("qpn", &m.qpn.octets());
            told.octet("link", m.link.0);
            told.raw("user_id", &m.user_id.0.to_be_bytes());
            told.octet("max_links", m.max_links);
            told.octet("max_connections", m.max_connections);
            let any = m.flags.intersects(ConfirmLinkFlags::NO_EYE_CATCHER);
            told.octet("no_eye_catcher", any);
        }
        LlcMessageV2::AddLink(m) => {
            let link = &m.link;
            told.raw("mac", &link.mac.0);
            told.raw("gid", &link.gid.0);
            told.raw("qpn", &link.qpn.octets());
            told.octet("link", link.link.0);
            told.raw("psn", &link.psn.octets());
            told.octet("mtu", link.mtu.code());
            told.octet("rejected", link.rejection.is_some());
            if let Some(extension) = &m.extension {
                told.octet("direct", extension.direct);
                told.raw("target", &extension.target_gid.0);
                let pair = |pair: RTokenPair| {
                    join::<16>(&[&pair.reference.0.to_be_bytes(), &rtoken(pair.new)])
                };
                told.list("rtoken", extension.rtokens.iter().map(pair));
            }
        }
        LlcMessageV2::DeleteLink(m) => {
            told.octet("link", m.link.0);
            told.raw("reason", &m.reason.0.to_be_bytes());
            told.octet("all", m.flags.contains(DeleteLinkFlags::ALL));
            told.octet("orderly", m.flags.contains(DeleteLinkFlags::ORDERLY));
        }
        LlcMessageV2::RequestAddLink(m) => {
            told.octet("rejected", m.rejected);
            told.list("gid", m.gids.iter().map(|gid| gid.0));
        }
        LlcMessageV2::ConfirmRkey(m) => {
            told.octet("count", m.other_links);
            told.raw("rkey", &m.rtoken.rkey.0.to_be_bytes());
            told.raw("address", &m.rtoken.address.to_be_bytes());
            told.octet("negative", m.flags.contains(RkeyFlags::NEGATIVE));
            told.octet("retry", m.flags.contains(RkeyFlags::RETRY));
            let other = |other: &LinkRToken| join::<13>(&[&[other.link.0], &rtoken(other.rtoken)]);
            told.list("other", m.others.iter().map(other));
        }
        LlcMessageV2::TestLink(m) => told.raw("user_data", &m.user_data),
        LlcMessageV2::DeleteRkey(m) => {
            told.octet("count", m.rkeys.len() as u8);
            told.octet("unknown", m.unknown);
            told.octet("negative", m.flags.contains(RkeyFlags::NEGATIVE));
            told.list("rkey", m.rkeys.iter().map(|key| key.0.to_be_bytes()));
        }
    }
    told.0
}

/// The head of a DMB.
#[must_use]
pub fn cdc_ism(message: &CdcIsm) -> Fields {
    let mut told = Told::default();
    told.raw("producer_wrap", &message.producer.wrap.to_be_bytes());
    told.raw("producer_count", &message.producer.count.to_be_bytes());
    told.raw("consumer_wrap", &message.consumer.wrap.to_be_bytes());
    told.raw("consumer_count", &message.consumer.count.to_be_bytes());
    told.octet("producer_flags", message.producer_flags.bits());
    told.octet("state_flags", message.connection_flags.bits());
    told.0
}
