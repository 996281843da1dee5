//! What the values of `smc_proto` say, in the terms of the second decoder.

use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::clc::{
    AcceptConfirm, ClcKind, ClcMessage, FirstContactExtension, OfferedPath, Proposal,
    SmcdAcceptConfirm, V2Offer,
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
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, entry: impl Fn(&mut Entry<'_>, T)) {
        for (index, item) in items.into_iter().enumerate() {
            let number = index + 1;
            entry(&mut Entry { told: self, number }, item);
        }
    }
    fn rtoken(&mut self, rtoken: RToken) {
        self.raw("rkey", &rtoken.rkey.0.to_be_bytes());
        self.raw("address", &rtoken.address.to_be_bytes());
    }
    fn limits(&mut self, connections: u8, links: u8) {
        self.octet("max_connections", connections);
        self.octet("max_links", links);
    }
    fn rkey_flags(&mut self, flags: RkeyFlags) {
        self.octet("negative", flags.contains(RkeyFlags::NEGATIVE));
        self.octet("retry", flags.contains(RkeyFlags::RETRY));
    }
}

/// An entry of a list.
struct Entry<'a> {
    told: &'a mut Told,
    number: usize,
}

impl Entry<'_> {
    fn raw(&mut self, name: &str, octets: &[u8]) {
        self.told.raw(&format!("{name}{}", self.number), octets);
    }
}

/// A CLC message.
#[must_use]
pub fn clc(message: &ClcMessage) -> Fields {
    let mut told = Told::default();
    let kind = message.kind();
    told.octet("type", kind as u8);
    match message {
        ClcMessage::Proposal(message) => proposal(message, &mut told),
        ClcMessage::Accept(message) | ClcMessage::Confirm(message) => {
            accept_confirm(kind, message, &mut told);
        }
        ClcMessage::SmcdAccept(message) | ClcMessage::SmcdConfirm(message) => {
            smcd_accept_confirm(message, &mut told);
        }
        ClcMessage::Decline(message) => {
            told.octet("version", message.version.number().min(2));
            told.octet("out_of_sync", message.out_of_sync);
            told.octet("os", message.os.0);
            told.raw("peer_id", &message.peer_id.0);
            told.raw("code", &message.diagnosis.0.to_be_bytes());
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
        told.raw("subnet", &subnets.network.octets());
        told.octet("prefix_length", subnets.prefix_length);
        told.octet("prefixes", subnets.ipv6.len() as u8);
        told.list(&subnets.ipv6, |entry, prefix| {
            entry.raw("prefix", &prefix.address.octets());
            entry.raw("prefix_bits", &[prefix.length]);
        });
    }
    if let Some(offer) = &message.v2_offer {
        v2_offer(offer, told);
    }
}

fn v2_offer(offer: &V2Offer, told: &mut Told) {
    told.octet("v2", offer.path as u8);
    told.octet("release", offer.release.number());
    told.raw("roce_gid", &offer.gid.0);
    told.list(offer.eids.iter(), |entry, eid| entry.raw("eid", &eid.0));
    if offer.release.has_limits() {
        told.limits(offer.max_connections, offer.max_links);
        told.raw("features", &offer.features.bits().to_be_bytes());
    }
    if offer.path.has_smcd() {
        if let Some(seid) = offer.smcd.seid {
            told.raw("seid", &seid.0);
        }
        told.list(offer.smcd.devices.entries(), |entry, device| {
            entry.raw("gid", &device.gid.to_be_bytes());
            entry.raw("chid", &device.chid.0.to_be_bytes());
        });
    }
}

fn accept_confirm(kind: ClcKind, message: &AcceptConfirm, told: &mut Told) {
    told.octet("version", 1 + u8::from(message.v2.is_some()));
    told.octet("first_contact", message.first_contact);
    told.octet("technology", 0);
    told.raw("peer_id", &message.peer_id.0);
    told.raw("gid", &message.gid.0);
    told.raw("mac", &message.mac.0);
    told.raw("qpn", &message.qpn.octets());
    told.rtoken(message.rtoken);
    told.octet("index", message.rmbe_index.0);
    told.raw("token", &message.alert_token.0.to_be_bytes());
    told.octet("size", message.buffer_size.code());
    told.octet("mtu", message.mtu.code());
    told.raw("psn", &message.psn.octets());
    if let Some(v2) = &message.v2 {
        told.raw("eid", &v2.eid.0);
        if message.first_contact {
            extension(&v2.extension, true, told);
        }
        let gids = v2.gids.as_slice();
        if message.first_contact && kind == ClcKind::Confirm {
            told.octet("gids", gids.len() as u8);
        }
        told.list(gids, |entry, gid| entry.raw("gid", &gid.0));
    }
}

fn smcd_accept_confirm(message: &SmcdAcceptConfirm, told: &mut Told) {
    told.octet("version", 1 + u8::from(message.v2.is_some()));
    told.octet("first_contact", message.first_contact);
    told.octet("technology", 1);
    told.raw("gid", &message.gid.to_be_bytes());
    told.raw("dmb", &message.token.0.to_be_bytes());
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
            told.limits(extension.max_connections, extension.max_links);
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
            told.limits(m.max_connections, m.max_links);
            let flags = m.flags & ConfirmLinkFlags::NO_EYE_CATCHER;
            told.octet("no_eye_catcher", flags.bits());
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
                told.raw("target_gid", &extension.target_gid.0);
                told.list(extension.rtokens.iter(), |entry, pair: RTokenPair| {
                    entry.raw("ref", &pair.reference.0.to_be_bytes());
                    entry.raw("new", &pair.new.rkey.0.to_be_bytes());
                    entry.raw("address", &pair.new.address.to_be_bytes());
                });
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
            told.octet("count", m.gids.iter().count() as u8);
            told.list(m.gids.iter(), |entry, gid| entry.raw("gid", &gid.0));
        }
        LlcMessageV2::ConfirmRkey(m) => {
            told.rkey_flags(m.flags);
            told.octet("others", m.other_links);
            told.rtoken(m.rtoken);
            told.list(m.others.iter(), |entry, other: &LinkRToken| {
                entry.raw("link", &[other.link.0]);
                entry.raw("rkey", &other.rtoken.rkey.0.to_be_bytes());
                entry.raw("address", &other.rtoken.address.to_be_bytes());
            });
        }
        LlcMessageV2::TestLink(m) => told.raw("data", &m.user_data),
        LlcMessageV2::DeleteRkey(m) => {
            told.rkey_flags(m.flags);
            told.octet("count", m.rkeys.len() as u8);
            told.octet("mask", m.unknown);
            told.list(m.rkeys.iter(), |entry, key| {
                entry.raw("rkey", &key.0.to_be_bytes());
            });
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
    for (name, flag) in [
        ("B", ProducerFlags::WRITER_BLOCKED),
        ("P", ProducerFlags::URGENT_PENDING),
        ("U", ProducerFlags::URGENT_PRESENT),
        ("R", ProducerFlags::CURSOR_UPDATE_REQUESTED),
        ("F", ProducerFlags::FAILOVER_VALIDATION),
    ] {
        told.octet(name, message.producer_flags.contains(flag));
    }
    for (name, flag) in [
        ("D", ConnectionFlags::SENDING_DONE),
        ("C", ConnectionFlags::PEER_CONNECTION_CLOSED),
        ("A", ConnectionFlags::ABNORMAL_CLOSE),
    ] {
        told.octet(name, message.connection_flags.contains(flag));
    }
    told.0
}
