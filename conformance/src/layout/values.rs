//! The values of `smc_proto`, in the terms of the second decoder.

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::clc::{
    AcceptConfirm, ClcKind, ClcMessage, FirstContactExtension, OfferedPath, Proposal,
    SmcdAcceptConfirm, V2Offer,
};
use smc_proto::wire::llc::{
    ConfirmLinkFlags, DeleteLinkFlags, LinkRToken, LlcMessage, RTokenPair, RkeyFlags,
};
use smc_proto::wire::types::RToken;

use super::{Fields, hex};

/// Fields being put down.
#[derive(Default)]
struct Values(Fields);

impl Values {
    fn raw(&mut self, name: &str, bytes: &[u8]) {
        self.0.insert(name.to_owned(), hex(bytes));
    }
    fn byte(&mut self, name: &str, byte: impl Into<u8>) {
        self.raw(name, &[byte.into()]);
    }
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, entry: impl Fn(&mut Entry<'_>, T)) {
        for (index, item) in items.into_iter().enumerate() {
            let number = index + 1;
            entry(
                &mut Entry {
                    values: self,
                    number,
                },
                item,
            );
        }
    }
    fn rtoken(&mut self, rtoken: RToken) {
        self.raw("rkey", &rtoken.rkey.0.to_be_bytes());
        self.raw("address", &rtoken.address.to_be_bytes());
    }
    fn limits(&mut self, connections: u8, links: u8) {
        self.byte("max_connections", connections);
        self.byte("max_links", links);
    }
    fn rkey_flags(&mut self, flags: RkeyFlags) {
        self.byte("negative", flags.contains(RkeyFlags::NEGATIVE));
        self.byte("retry", flags.contains(RkeyFlags::RETRY));
    }
}

/// An entry of a list.
struct Entry<'a> {
    values: &'a mut Values,
    number: usize,
}

impl Entry<'_> {
    fn raw(&mut self, name: &str, bytes: &[u8]) {
        self.values.raw(&format!("{name}{}", self.number), bytes);
    }
}

/// A CLC message.
#[must_use]
pub fn clc(message: &ClcMessage) -> Fields {
    let mut values = Values::default();
    let kind = message.kind();
    values.byte("type", kind as u8);
    match message {
        ClcMessage::Proposal(message) => proposal(message, &mut values),
        ClcMessage::Accept(message) | ClcMessage::Confirm(message) => {
            accept_confirm(kind, message, &mut values);
        }
        ClcMessage::SmcdAccept(message) | ClcMessage::SmcdConfirm(message) => {
            smcd_accept_confirm(message, &mut values);
        }
        ClcMessage::Decline(message) => {
            values.byte("version", message.version.number().min(2));
            values.byte("out_of_sync", message.out_of_sync);
            values.byte("os", message.os.0);
            values.raw("peer_id", &message.peer_id.0);
            values.raw("code", &message.diagnosis.0.to_be_bytes());
        }
    }
    values.0
}

fn proposal(message: &Proposal, values: &mut Values) {
    values.byte("version", message.version.number().min(2));
    values.byte("v1", message.v1 as u8);
    values.raw("peer_id", &message.peer_id.0);
    values.raw("gid", &message.gid.0);
    values.raw("mac", &message.mac.0);
    if let Some(ism) = message.ism {
        values.raw("ism_gid", &ism.gid.to_be_bytes());
        values.raw("ism_chid", &ism.chid.0.to_be_bytes());
    }
    if message.version.is_v1() || message.v1 != OfferedPath::Neither {
        let subnets = &message.subnets;
        values.raw("subnet", &subnets.network.octets());
        values.byte("prefix_length", subnets.prefix_length);
        values.byte("prefixes", subnets.ipv6.len() as u8);
        values.list(&subnets.ipv6, |entry, prefix| {
            entry.raw("prefix", &prefix.address.octets());
            entry.raw("prefix_bits", &[prefix.length]);
        });
    }
    if let Some(offer) = &message.v2_offer {
        v2_offer(offer, values);
    }
}

fn v2_offer(offer: &V2Offer, values: &mut Values) {
    values.byte("v2", offer.path as u8);
    values.byte("release", offer.release.number());
    values.raw("roce_gid", &offer.gid.0);
    values.list(offer.eids.iter(), |entry, eid| entry.raw("eid", &eid.0));
    if offer.release.has_limits() {
        values.limits(offer.max_connections, offer.max_links);
        values.raw("features", &offer.features.bits().to_be_bytes());
    }
    if offer.path.has_smcd() {
        if let Some(seid) = offer.smcd.seid {
            values.raw("seid", &seid.0);
        }
        values.list(offer.smcd.devices.entries(), |entry, device| {
            entry.raw("gid", &device.gid.to_be_bytes());
            entry.raw("chid", &device.chid.0.to_be_bytes());
        });
    }
}

fn accept_confirm(kind: ClcKind, message: &AcceptConfirm, values: &mut Values) {
    values.byte("version", 1 + u8::from(message.v2.is_some()));
    values.byte("first_contact", message.first_contact);
    values.byte("technology", 0);
    values.raw("peer_id", &message.peer_id.0);
    values.raw("gid", &message.gid.0);
    values.raw("mac", &message.mac.0);
    values.raw("qpn", &message.qpn.octets());
    values.rtoken(message.rtoken);
    values.byte("index", message.rmbe_index.0);
    values.raw("token", &message.alert_token.0.to_be_bytes());
    values.byte("size", message.buffer_size.code());
    values.byte("mtu", message.mtu.code());
    values.raw("psn", &message.psn.octets());
    if let Some(v2) = &message.v2 {
        values.raw("eid", &v2.eid.0);
        if message.first_contact {
            extension(&v2.extension, true, values);
        }
        let gids = v2.gids.as_slice();
        if message.first_contact && kind == ClcKind::Confirm {
            values.byte("gids", gids.len() as u8);
        }
        values.list(gids, |entry, gid| entry.raw("gid", &gid.0));
    }
}

fn smcd_accept_confirm(message: &SmcdAcceptConfirm, values: &mut Values) {
    values.byte("version", 1 + u8::from(message.v2.is_some()));
    values.byte("first_contact", message.first_contact);
    values.byte("technology", 1);
    values.raw("gid", &message.gid.to_be_bytes());
    values.raw("dmb", &message.token.0.to_be_bytes());
    values.byte("index", message.dmbe_index);
    values.byte("size", message.buffer_size.code());
    values.raw("link_id", &message.link_id);
    if let Some(v2) = &message.v2 {
        values.raw("chid", &v2.chid.0.to_be_bytes());
        values.raw("eid", &v2.eid.0);
        values.raw("gid_ext", &v2.gid_ext.to_be_bytes());
        if message.first_contact {
            extension(&v2.extension, false, values);
        }
    }
}

fn extension(extension: &FirstContactExtension, smcr: bool, values: &mut Values) {
    values.byte("os", extension.os.0);
    values.byte("release", extension.release.number());
    values.raw("hostname", &extension.hostname.0);
    if smcr {
        values.byte("direct", extension.direct);
    }
    if extension.release.has_limits() {
        values.raw("features", &extension.features.bits().to_be_bytes());
        if smcr {
            values.limits(extension.max_connections, extension.max_links);
        }
    }
}

/// An LLC message of version 2.
#[must_use]
pub fn llc_v2(message: &LlcMessage<'_>) -> Fields {
    let mut values = Values::default();
    values.byte("type", message.kind(SmcVersion::V2));
    values.byte("reply", message.is_reply());
    match message {
        LlcMessage::ConfirmLink(m) => {
            values.raw("mac", &m.mac.0);
            values.raw("gid", &m.gid.0);
            values.raw("qpn", &m.qpn.octets());
            values.byte("link", m.link.0);
            values.raw("user_id", &m.user_id.0.to_be_bytes());
            values.limits(m.max_connections, m.max_links);
            let flags = m.flags & ConfirmLinkFlags::NO_EYE_CATCHER;
            values.byte("no_eye_catcher", flags.bits());
        }
        LlcMessage::AddLink(m) => {
            let link = m;
            values.raw("mac", &link.mac.0);
            values.raw("gid", &link.gid.0);
            values.raw("qpn", &link.qpn.octets());
            values.byte("link", link.link.0);
            values.raw("psn", &link.psn.octets());
            values.byte("mtu", link.mtu.code());
            values.byte("rejected", link.rejection.is_some());
            if let Some(extension) = &m.extension {
                values.byte("direct", extension.direct);
                values.raw("target_gid", &extension.target_gid.0);
                values.list(extension.rtokens.iter(), |entry, pair: RTokenPair| {
                    entry.raw("ref", &pair.reference.0.to_be_bytes());
                    entry.raw("new", &pair.new.rkey.0.to_be_bytes());
                    entry.raw("address", &pair.new.address.to_be_bytes());
                });
            }
        }
        LlcMessage::DeleteLink(m) => {
            values.byte("link", m.link.0);
            values.raw("reason", &m.reason.0.to_be_bytes());
            values.byte("all", m.flags.contains(DeleteLinkFlags::ALL));
            values.byte("orderly", m.flags.contains(DeleteLinkFlags::ORDERLY));
        }
        LlcMessage::RequestAddLink(m) => {
            values.byte("rejected", m.rejected);
            values.byte("count", m.gids.iter().count() as u8);
            values.list(m.gids.iter(), |entry, gid| entry.raw("gid", &gid.0));
        }
        LlcMessage::ConfirmRkey(m) => {
            values.rkey_flags(m.flags);
            values.byte("others", m.other_links);
            values.rtoken(m.rtoken);
            values.list(m.others.iter(), |entry, other: &LinkRToken| {
                entry.raw("link", &[other.link.0]);
                entry.raw("rkey", &other.rtoken.rkey.0.to_be_bytes());
                entry.raw("address", &other.rtoken.address.to_be_bytes());
            });
        }
        LlcMessage::AddLinkContinuation(_) | LlcMessage::ConfirmRkeyContinuation(_) => {}
        LlcMessage::TestLink(m) => values.raw("data", &m.user_data),
        LlcMessage::DeleteRkey(m) => {
            values.rkey_flags(m.flags);
            values.byte("count", m.rkeys.len() as u8);
            values.byte("mask", m.unknown);
            values.list(m.rkeys.iter(), |entry, key| {
                entry.raw("rkey", &key.0.to_be_bytes());
            });
        }
    }
    values.0
}

/// The head of a DMB.
#[must_use]
pub fn cdc_ism(message: &CdcIsm) -> Fields {
    let mut values = Values::default();
    values.raw("producer_wrap", &message.producer.wrap.to_be_bytes());
    values.raw("producer_count", &message.producer.count.to_be_bytes());
    values.raw("consumer_wrap", &message.consumer.wrap.to_be_bytes());
    values.raw("consumer_count", &message.consumer.count.to_be_bytes());
    for (name, flag) in [
        ("B", ProducerFlags::WRITER_BLOCKED),
        ("P", ProducerFlags::URGENT_PENDING),
        ("U", ProducerFlags::URGENT_PRESENT),
        ("R", ProducerFlags::CURSOR_UPDATE_REQUESTED),
        ("F", ProducerFlags::FAILOVER_VALIDATION),
    ] {
        values.byte(name, message.producer_flags.contains(flag));
    }
    for (name, flag) in [
        ("D", ConnectionFlags::SENDING_DONE),
        ("C", ConnectionFlags::PEER_CONNECTION_CLOSED),
        ("A", ConnectionFlags::ABNORMAL_CLOSE),
    ] {
        values.byte(name, message.connection_flags.contains(flag));
    }
    values.0
}
