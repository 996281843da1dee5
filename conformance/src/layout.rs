//! A second decoder, written from tables of offsets alone.
//!
//! It shares no code and no type with `smc_proto::wire`: it knows octets and
//! names. [`told`] says the same of the values of `smc_proto`; that both agree on
//! every message is checked in `conformance/tests/second_decoder.rs`.

pub mod fields;
pub mod told;

use std::collections::BTreeMap;

use fields::{
    ACCEPT_D, ACCEPT_D2, ACCEPT_R, ACCEPT_R2, ADD_LINK, ADD_LINK_EXTENSION, CDC_FLAGS, CLIENT_GID,
    CLIENT_GIDS, CONFIRM_LINK, CONFIRM_RKEY, CONSUMER, CURSORS_D, DECLINE, DELETE_LINK,
    DELETE_RKEY, DELETED_RKEYS, DIRECT, EIDS, EXTENSION, EXTENSION_D, EXTENSION_R, FEATURES,
    ISM_DEVICES, LIMITS, LLC_HEADER, List, NEW_RTOKENS, OTHER_LINKS, PEER_ID, PREFIXES, PRODUCER,
    PROPOSAL, PROPOSED_ISM, REJECTED, REQUEST_ADD_LINK, REQUESTING_GIDS, RKEY_FLAGS, SEID, SUBNETS,
    TEST_LINK, Table, V2_LIMITS, V2_OFFER,
};

/// Names of fields and their octets as hexadecimal digits; a field of some bits is one
/// octet. Those of a list have the number of their entry, from 1, behind their name.
pub type Fields = BTreeMap<String, String>;

/// Octets as digits.
#[must_use]
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What has been read of some octets.
struct Reading<'a> {
    octets: &'a [u8],
    fields: Fields,
}

impl<'a> Reading<'a> {
    fn of(octets: &'a [u8]) -> Self {
        let fields = Fields::new();
        Self { octets, fields }
    }
    fn octet(&self, offset: usize) -> u8 {
        self.octets[offset]
    }
    fn number(&self, offset: usize) -> usize {
        usize::from(self.octets[offset]) * 256 + usize::from(self.octets[offset + 1])
    }
    fn put(&mut self, name: &str, octet: u8) {
        self.fields.insert(name.to_owned(), hex(&[octet]));
    }
    fn field(&mut self, field: fields::Field) {
        let value = if field.is_octets() {
            hex(&self.octets[field.range()])
        } else {
            hex(&[field.get(self.octets) as u8])
        };
        self.fields.insert(field.to_string(), value);
    }
    fn rows(&mut self, table: Table) {
        table.fields().for_each(|field| self.field(field));
    }
    /// `count` entries of a list.
    fn list(&mut self, list: List, base: usize, count: usize) {
        for index in 0..count {
            list.entry(base, index).for_each(|field| self.field(field));
        }
    }
}

/// What a sound CLC message says.
#[must_use]
pub fn clc(message: &[u8]) -> Fields {
    let mut told = Reading::of(message);
    let flags = told.octet(7);
    let version = flags / 16;
    told.put("type", told.octet(4));
    told.put("version", version.min(2));
    match told.octet(4) {
        1 => proposal(&mut told, version),
        4 => {
            told.rows(PEER_ID);
            told.rows(DECLINE);
        }
        kind => {
            let (first, technology) = (flags / 8 % 2 == 1, flags % 4);
            told.put("first_contact", u8::from(first));
            told.put("technology", technology);
            if technology == 0 {
                told.rows(PEER_ID);
                told.rows(ACCEPT_R);
                if version >= 2 {
                    told.rows(ACCEPT_R2);
                    if first {
                        extension(&mut told, EXTENSION_R, true);
                    }
                    if first && kind == 3 {
                        told.rows(CLIENT_GIDS);
                        told.list(CLIENT_GID, 156, told.octet(156).into());
                    }
                }
            } else {
                told.rows(ACCEPT_D);
                if version >= 2 {
                    told.rows(ACCEPT_D2);
                    if first {
                        extension(&mut told, EXTENSION_D, false);
                    }
                }
            }
        }
    }
    told.fields
}

fn extension(told: &mut Reading<'_>, base: usize, smcr: bool) {
    let release = told.octet(base + 1) % 16;
    told.rows(EXTENSION.at(base));
    if smcr {
        told.rows(DIRECT.at(base));
    }
    if release > 0 {
        told.rows(FEATURES.at(base));
        if smcr {
            told.rows(LIMITS.at(base));
        }
    }
}

/// Whether two bits offer SMC-D.
fn has_smcd(path: u8) -> bool {
    path % 2 == 1
}

fn proposal(told: &mut Reading<'_>, version: u8) {
    let flags = told.octet(7);
    let (v1, v2) = (flags % 4, if version == 1 { 2 } else { flags / 4 % 4 });
    told.put("v1", v1);
    told.rows(PEER_ID);
    told.rows(PROPOSAL);
    if has_smcd(v1) && (version > 1 || told.number(38) == 40) {
        told.rows(PROPOSED_ISM);
    }
    if version == 1 || v1 != 2 {
        let base = 40 + told.number(38);
        told.rows(SUBNETS.at(base));
        told.list(PREFIXES, base, told.octet(base + 7).into());
    }
    if v2 == 2 {
        return;
    }
    let base = 52 + told.number(50);
    let release = told.octet(base + 3) / 16;
    told.put("v2", v2);
    told.rows(V2_OFFER.at(base));
    told.list(EIDS, base, told.octet(base).into());
    if release > 0 {
        told.rows(V2_LIMITS.at(base));
    }
    if has_smcd(v2) {
        let smcd = base + 8 + told.number(base + 6);
        if told.octet(base + 3) % 2 == 1 {
            told.rows(SEID.at(smcd));
        }
        told.list(ISM_DEVICES, smcd, told.octet(base + 1).into());
    }
}

/// What a sound LLC message of version 2 says.
#[must_use]
pub fn llc_v2(message: &[u8]) -> Fields {
    let mut told = Reading::of(message);
    told.rows(LLC_HEADER);
    match told.octet(0) {
        0x21 => told.rows(CONFIRM_LINK),
        0x22 => {
            told.rows(REJECTED);
            told.rows(ADD_LINK);
            if message.len() > 44 {
                told.rows(ADD_LINK_EXTENSION);
                told.list(NEW_RTOKENS, 44, (message.len() - 72) / 16);
            }
        }
        0x24 => told.rows(DELETE_LINK),
        0x25 => {
            told.rows(REJECTED);
            told.rows(REQUEST_ADD_LINK);
            told.list(REQUESTING_GIDS, 0, told.octet(24).into());
        }
        0x26 => {
            told.rows(RKEY_FLAGS);
            told.rows(CONFIRM_RKEY);
            told.list(OTHER_LINKS, 0, told.octet(4).into());
        }
        0x27 => told.rows(TEST_LINK),
        0x29 => {
            told.rows(RKEY_FLAGS);
            told.rows(DELETE_RKEY);
            told.list(DELETED_RKEYS, 0, told.octet(4).into());
        }
        other => panic!("type {other:02x}"),
    }
    told.fields
}

/// What the head of a DMB says; numbers as they would stand big-endian.
#[must_use]
pub fn cdc_ism(head: &[u8; 32], little: bool) -> Fields {
    let mut told = Reading::of(head);
    for (name, cursor) in [("producer", PRODUCER), ("consumer", CONSUMER)] {
        let range = cursor.moved(CURSORS_D).range();
        let (wrap, count) = head[range].split_at(2);
        for (part, octets) in [("wrap", wrap), ("count", count)] {
            let mut octets = octets.to_vec();
            if little {
                octets.reverse();
            }
            told.fields.insert(format!("{name}_{part}"), hex(&octets));
        }
    }
    told.rows(CDC_FLAGS.at(CURSORS_D));
    told.fields
}
