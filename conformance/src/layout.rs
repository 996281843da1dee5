//! A second decoder, written from tables of offsets alone.
//!
//! It shares no code and no type with `smc_proto::wire`: it knows octets and
//! names. [`told`] says the same of the values of `smc_proto`; that both agree on
//! every message is checked in `conformance/tests/second_decoder.rs`.

pub mod told;

use std::collections::BTreeMap;

/// Names of fields and their octets as hexadecimal digits. A list is several
/// fields with a number behind their name.
pub type Fields = BTreeMap<String, String>;

/// A field: name, offset, octets.
type Row = (&'static str, usize, usize);

/// Accept and Confirm of SMC-R up to where versions differ.
const SMCR: &[Row] = &[
    ("peer_id", 8, 8),
    ("gid", 16, 16),
    ("mac", 32, 6),
    ("qpn", 38, 3),
    ("rkey", 41, 4),
    ("index", 45, 1),
    ("token", 46, 4),
    ("size_mtu", 50, 1),
    ("address", 52, 8),
    ("psn", 61, 3),
];
const SMCD: &[Row] = &[
    ("gid", 8, 8),
    ("token", 16, 8),
    ("index", 24, 1),
    ("link_id", 28, 4),
];
const SMCD_V2: &[Row] = &[("chid", 32, 2), ("eid", 34, 32), ("gid_ext", 66, 8)];
const PROPOSAL: &[Row] = &[("peer_id", 8, 8), ("gid", 16, 16), ("mac", 32, 6)];
const V2_EXTENSION: &[Row] = &[("v2_gid", 8, 16)];
const DECLINE: &[Row] = &[("peer_id", 8, 8), ("diagnosis", 16, 4)];

const CONFIRM_LINK: &[Row] = &[
    ("mac", 4, 6),
    ("gid", 10, 16),
    ("qpn", 26, 3),
    ("link", 29, 1),
    ("user_id", 30, 4),
    ("max_links", 34, 1),
    ("max_connections", 35, 1),
];
const ADD_LINK: &[Row] = &[
    ("mac", 4, 6),
    ("gid", 12, 16),
    ("qpn", 28, 3),
    ("link", 31, 1),
    ("psn", 33, 3),
];
const DELETE_LINK: &[Row] = &[("link", 4, 1), ("reason", 5, 4)];
const CONFIRM_RKEY: &[Row] = &[("count", 4, 1), ("rkey", 5, 4), ("address", 9, 8)];
const TEST_LINK: &[Row] = &[("user_data", 4, 16)];
const DELETE_RKEY: &[Row] = &[("count", 4, 1), ("unknown", 5, 1)];

/// Octets as digits.
#[must_use]
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The octets that a decoder reads from.
struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    fn at(&self, offset: usize, length: usize) -> &[u8] {
        &self.0[offset..offset + length]
    }
    fn octet(&self, offset: usize) -> u8 {
        self.0[offset]
    }
    fn number(&self, offset: usize) -> usize {
        usize::from(self.0[offset]) * 256 + usize::from(self.0[offset + 1])
    }
    fn rows(&self, base: usize, rows: &[Row], fields: &mut Fields) {
        for (name, offset, length) in rows {
            let value = hex(self.at(base + offset, *length));
            fields.insert((*name).to_owned(), value);
        }
    }
    /// `count` entries of `length` octets from `offset` on.
    fn list(&self, name: &str, offset: usize, length: usize, count: usize, fields: &mut Fields) {
        for n in 0..count {
            let value = hex(self.at(offset + n * length, length));
            fields.insert(format!("{name} {n}"), value);
        }
    }
}

fn put(fields: &mut Fields, name: &str, octet: u8) {
    fields.insert(name.to_owned(), hex(&[octet]));
}

/// What a sound CLC message says.
#[must_use]
pub fn clc(message: &[u8]) -> Fields {
    let octets = Octets(message);
    let mut fields = Fields::new();
    let flags = octets.octet(7);
    let version = flags / 16;
    put(&mut fields, "type", octets.octet(4));
    put(&mut fields, "version", version.min(2));
    match octets.octet(4) {
        1 => proposal(&octets, version, &mut fields),
        4 => {
            put(&mut fields, "out_of_sync", flags / 8 % 2);
            put(&mut fields, "os", octets.octet(20) / 16);
            octets.rows(0, DECLINE, &mut fields);
        }
        kind => {
            let first = flags / 8 % 2 == 1;
            put(&mut fields, "first_contact", u8::from(first));
            put(&mut fields, "technology", flags % 4);
            if flags % 4 == 0 {
                octets.rows(0, SMCR, &mut fields);
                if version >= 2 {
                    octets.rows(64, &[("eid", 0, 32)], &mut fields);
                    if first {
                        extension(&octets, 104, true, &mut fields);
                    }
                    if first && kind == 3 {
                        let count = usize::from(octets.octet(156));
                        octets.list("client_gid", 160, 16, count, &mut fields);
                    }
                }
            } else {
                octets.rows(0, SMCD, &mut fields);
                put(&mut fields, "size", octets.octet(25) / 16);
                if version >= 2 {
                    octets.rows(0, SMCD_V2, &mut fields);
                    if first {
                        extension(&octets, 74, false, &mut fields);
                    }
                }
            }
        }
    }
    fields
}

fn extension(octets: &Octets<'_>, base: usize, smcr: bool, fields: &mut Fields) {
    let release = octets.octet(base + 1) % 16;
    put(fields, "os", octets.octet(base + 1) / 16);
    put(fields, "release", release);
    octets.rows(base, &[("hostname", 4, 32)], fields);
    if smcr {
        put(fields, "direct", octets.octet(base) / 128);
    }
    if release > 0 {
        octets.rows(base, &[("features", 38, 2)], fields);
        if smcr {
            octets.rows(
                base,
                &[("max_connections", 36, 1), ("max_links", 37, 1)],
                fields,
            );
        }
    }
}

/// Whether two bits offer SMC-D.
fn has_smcd(path: u8) -> bool {
    path % 2 == 1
}

fn proposal(octets: &Octets<'_>, version: u8, fields: &mut Fields) {
    let flags = octets.octet(7);
    let (v1, v2) = (flags % 4, if version == 1 { 2 } else { flags / 4 % 4 });
    put(fields, "v1", v1);
    octets.rows(0, PROPOSAL, fields);
    if has_smcd(v1) && (version > 1 || octets.number(38) == 40) {
        octets.rows(0, &[("ism_gid", 40, 8), ("ism_chid", 48, 2)], fields);
    }
    if version == 1 || v1 != 2 {
        let base = 40 + octets.number(38);
        octets.rows(base, &[("network", 0, 4), ("prefix_length", 4, 1)], fields);
        let count = usize::from(octets.octet(base + 7));
        octets.list("prefix", base + 8, 17, count, fields);
    }
    if v2 == 2 {
        return;
    }
    let base = 52 + octets.number(50);
    let release = octets.octet(base + 3) / 16;
    put(fields, "v2", v2);
    put(fields, "release", release);
    octets.rows(base, V2_EXTENSION, fields);
    octets.list("eid", base + 40, 32, octets.octet(base).into(), fields);
    if release > 0 {
        let rows = &[
            ("max_connections", 24, 1),
            ("max_links", 25, 1),
            ("features", 26, 2),
        ];
        octets.rows(base, rows, fields);
    }
    if has_smcd(v2) {
        let smcd = base + 8 + octets.number(base + 6);
        if octets.octet(base + 3) % 2 == 1 {
            octets.rows(smcd, &[("seid", 0, 32)], fields);
        }
        octets.list("ism", smcd + 48, 10, octets.octet(base + 1).into(), fields);
    }
}

/// What a sound LLC message of version 2 says.
#[must_use]
pub fn llc_v2(message: &[u8]) -> Fields {
    let octets = Octets(message);
    let mut fields = Fields::new();
    let flags = octets.octet(3);
    put(&mut fields, "type", octets.octet(0));
    put(&mut fields, "reply", flags / 128);
    match octets.octet(0) {
        0x21 => {
            octets.rows(0, CONFIRM_LINK, &mut fields);
            put(&mut fields, "no_eye_catcher", u8::from(flags % 4 != 0));
        }
        0x22 => {
            octets.rows(0, ADD_LINK, &mut fields);
            put(&mut fields, "mtu", octets.octet(32) % 16);
            put(&mut fields, "rejected", flags / 64 % 2);
            if message.len() > 44 {
                put(&mut fields, "direct", octets.octet(44) / 128);
                octets.rows(46, &[("target", 0, 16)], &mut fields);
                let count = (message.len() - 72) / 16;
                octets.list("rtoken", 72, 16, count, &mut fields);
            }
        }
        0x24 => {
            octets.rows(0, DELETE_LINK, &mut fields);
            put(&mut fields, "all", flags / 64 % 2);
            put(&mut fields, "orderly", flags / 32 % 2);
        }
        0x25 => {
            put(&mut fields, "rejected", flags / 64 % 2);
            octets.list("gid", 28, 16, octets.octet(24).into(), &mut fields);
        }
        0x26 => {
            octets.rows(0, CONFIRM_RKEY, &mut fields);
            put(&mut fields, "negative", flags / 32 % 2);
            put(&mut fields, "retry", flags / 16 % 2);
            octets.list("other", 17, 13, octets.octet(4).into(), &mut fields);
        }
        0x27 => octets.rows(0, TEST_LINK, &mut fields),
        0x29 => {
            octets.rows(0, DELETE_RKEY, &mut fields);
            put(&mut fields, "negative", flags / 32 % 2);
            octets.list("rkey", 8, 4, octets.octet(4).into(), &mut fields);
        }
        other => panic!("type {other:02x}"),
    }
    fields
}

/// What the head of a DMB says; numbers as they would stand big-endian.
#[must_use]
pub fn cdc_ism(head: &[u8; 32], little: bool) -> Fields {
    let mut fields = Fields::new();
    let rows: [Row; 4] = [
        ("producer_wrap", 8, 2),
        ("producer_count", 10, 4),
        ("consumer_wrap", 16, 2),
        ("consumer_count", 18, 4),
    ];
    for (name, offset, length) in rows {
        let mut octets = head[offset..offset + length].to_vec();
        if little {
            octets.reverse();
        }
        fields.insert(name.to_owned(), hex(&octets));
    }
    put(&mut fields, "producer_flags", head[22] / 8 * 8);
    put(&mut fields, "state_flags", head[23] / 32 * 32);
    fields
}
