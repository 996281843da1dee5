//! A second decoder, written from tables of offsets alone.
//!
//! The decoder shares no code and no type with `smc_proto::wire`: it knows bytes and
//! names. [`values`] describes the values of `smc_proto` in these terms; that both agree on
//! every message is checked in `conformance/tests/captures/second_decoder.rs`.

pub mod fields;
pub mod values;

use std::collections::BTreeMap;

use fields::{
    ACCEPT_D, ACCEPT_D2, ACCEPT_R, ACCEPT_R2, ADD_LINK, ADD_LINK_EXTENSION, CDC_FLAGS, CLIENT_GID,
    CLIENT_GIDS, CONFIRM_LINK, CONFIRM_RKEY, CONSUMER, CURSORS_D, DECLINE, DELETE_LINK,
    DELETE_RKEY, DELETED_RKEYS, DIRECT, EIDS, EXTENSION, EXTENSION_D, EXTENSION_R, FEATURES,
    ISM_DEVICES, LIMITS, LLC_HEADER, List, NEW_RTOKENS, OTHER_LINKS, PEER_ID, PREFIXES, PRODUCER,
    PROPOSAL, PROPOSED_ISM, REJECTED, REQUEST_ADD_LINK, REQUESTING_GIDS, RKEY_FLAGS, SEID, SUBNETS,
    TEST_LINK, Table, V2_LIMITS, V2_OFFER,
};

/// Names of fields and their bytes as hexadecimal digits; a field of some bits is one
/// byte. Those of a list have the number of their entry, from 1, behind their name.
pub type Fields = BTreeMap<String, String>;

/// Bytes as digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What has been read of some bytes.
struct Reading<'a> {
    bytes: &'a [u8],
    fields: Fields,
}

impl<'a> Reading<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let fields = Fields::new();
        Self { bytes, fields }
    }
    fn byte(&self, offset: usize) -> u8 {
        self.bytes[offset]
    }
    fn number(&self, offset: usize) -> usize {
        usize::from(self.bytes[offset]) * 256 + usize::from(self.bytes[offset + 1])
    }
    fn put(&mut self, name: &str, byte: u8) {
        self.fields.insert(name.to_owned(), hex(&[byte]));
    }
    fn field(&mut self, field: fields::Field) {
        let value = if field.is_bytes() {
            hex(&self.bytes[field.range()])
        } else {
            hex(&[field.get(self.bytes) as u8])
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

/// Decodes a sound CLC message.
#[must_use]
pub fn clc(message: &[u8]) -> Fields {
    let mut reading = Reading::of(message);
    let flags = reading.byte(7);
    let version = flags / 16;
    reading.put("type", reading.byte(4));
    reading.put("version", version.min(2));
    match reading.byte(4) {
        1 => proposal(&mut reading, version),
        4 => {
            reading.rows(PEER_ID);
            reading.rows(DECLINE);
        }
        kind => {
            let (first, technology) = (flags / 8 % 2 == 1, flags % 4);
            reading.put("first_contact", u8::from(first));
            reading.put("technology", technology);
            if technology == 0 {
                reading.rows(PEER_ID);
                reading.rows(ACCEPT_R);
                if version >= 2 {
                    reading.rows(ACCEPT_R2);
                    if first {
                        extension(&mut reading, EXTENSION_R, true);
                    }
                    if first && kind == 3 {
                        reading.rows(CLIENT_GIDS);
                        reading.list(CLIENT_GID, 156, reading.byte(156).into());
                    }
                }
            } else {
                reading.rows(ACCEPT_D);
                if version >= 2 {
                    reading.rows(ACCEPT_D2);
                    if first {
                        extension(&mut reading, EXTENSION_D, false);
                    }
                }
            }
        }
    }
    reading.fields
}

fn extension(reading: &mut Reading<'_>, base: usize, smcr: bool) {
    let release = reading.byte(base + 1) % 16;
    reading.rows(EXTENSION.at(base));
    if smcr {
        reading.rows(DIRECT.at(base));
    }
    if release > 0 {
        reading.rows(FEATURES.at(base));
        if smcr {
            reading.rows(LIMITS.at(base));
        }
    }
}

/// Whether two bits offer SMC-D.
fn has_smcd(path: u8) -> bool {
    path % 2 == 1
}

fn proposal(reading: &mut Reading<'_>, version: u8) {
    let flags = reading.byte(7);
    let (v1, v2) = (flags % 4, if version == 1 { 2 } else { flags / 4 % 4 });
    reading.put("v1", v1);
    reading.rows(PEER_ID);
    reading.rows(PROPOSAL);
    if has_smcd(v1) && (version > 1 || reading.number(38) == 40) {
        reading.rows(PROPOSED_ISM);
    }
    if version == 1 || v1 != 2 {
        let base = 40 + reading.number(38);
        reading.rows(SUBNETS.at(base));
        reading.list(PREFIXES, base, reading.byte(base + 7).into());
    }
    if v2 == 2 {
        return;
    }
    let base = 52 + reading.number(50);
    let release = reading.byte(base + 3) / 16;
    reading.put("v2", v2);
    reading.rows(V2_OFFER.at(base));
    reading.list(EIDS, base, reading.byte(base).into());
    if release > 0 {
        reading.rows(V2_LIMITS.at(base));
    }
    if has_smcd(v2) {
        let smcd = base + 8 + reading.number(base + 6);
        if reading.byte(base + 3) % 2 == 1 {
            reading.rows(SEID.at(smcd));
        }
        reading.list(ISM_DEVICES, smcd, reading.byte(base + 1).into());
    }
}

/// Decodes a sound LLC message of version 2.
#[must_use]
pub fn llc_v2(message: &[u8]) -> Fields {
    let mut reading = Reading::of(message);
    reading.rows(LLC_HEADER);
    match reading.byte(0) {
        0x21 => reading.rows(CONFIRM_LINK),
        0x22 => {
            reading.rows(REJECTED);
            reading.rows(ADD_LINK);
            if message.len() > 44 {
                reading.rows(ADD_LINK_EXTENSION);
                reading.list(NEW_RTOKENS, 44, (message.len() - 72) / 16);
            }
        }
        0x24 => reading.rows(DELETE_LINK),
        0x25 => {
            reading.rows(REJECTED);
            reading.rows(REQUEST_ADD_LINK);
            reading.list(REQUESTING_GIDS, 0, reading.byte(24).into());
        }
        0x26 => {
            reading.rows(RKEY_FLAGS);
            reading.rows(CONFIRM_RKEY);
            reading.list(OTHER_LINKS, 0, reading.byte(4).into());
        }
        0x27 => reading.rows(TEST_LINK),
        0x29 => {
            reading.rows(RKEY_FLAGS);
            reading.rows(DELETE_RKEY);
            reading.list(DELETED_RKEYS, 0, reading.byte(4).into());
        }
        other => panic!("type {other:02x}"),
    }
    reading.fields
}

/// Decodes the head of a DMB; numbers as they would be in big-endian order.
#[must_use]
pub fn cdc_ism(head: &[u8; 32], little: bool) -> Fields {
    let mut reading = Reading::of(head);
    for (name, cursor) in [("producer", PRODUCER), ("consumer", CONSUMER)] {
        let range = cursor.moved(CURSORS_D).range();
        let (wrap, count) = head[range].split_at(2);
        for (part, bytes) in [("wrap", wrap), ("count", count)] {
            let mut bytes = bytes.to_vec();
            if little {
                bytes.reverse();
            }
            reading.fields.insert(format!("{name}_{part}"), hex(&bytes));
        }
    }
    reading.rows(CDC_FLAGS.at(CURSORS_D));
    reading.fields
}
