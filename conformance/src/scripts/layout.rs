//! Where the fields of a message stand.
//!
//! The scripts' own description of the wire, not that of the engine: a mistake in one
//! of them is seen. Numbers are in network order; those of SMC-D's CDC are put into it
//! by whoever carries them.

use super::story::{Form, Kind};

/// A field: its first bit, counted from the most significant one of octet 0, and how
/// many it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Name.
    pub(super) name: &'static str,
    /// First bit.
    pub(super) bit: usize,
    /// Bits.
    pub(super) bits: usize,
}

const fn octets(name: &'static str, at: usize, length: usize) -> Field {
    Field {
        name,
        bit: at * 8,
        bits: length * 8,
    }
}

/// `bits` bits of an octet, `low` bits above its least significant one.
const fn bits(name: &'static str, at: usize, low: usize, bits: usize) -> Field {
    Field {
        name,
        bit: at * 8 + 8 - low - bits,
        bits,
    }
}

/// Types of CLC messages.
pub(super) const CLC: [(&str, u8); 4] = [
    ("Proposal", 1),
    ("Accept", 2),
    ("Confirm", 3),
    ("Decline", 4),
];
/// Types of LLC messages; those of version 2 have 0x20 more.
pub(super) const LLC: [(&str, u8); 10] = [
    ("ConfirmLink", 1),
    ("AddLink", 2),
    ("AddLinkCont", 3),
    ("DeleteLink", 4),
    ("RequestAddLink", 5),
    ("ConfirmRkey", 6),
    ("TestLink", 7),
    ("ConfirmRkeyCont", 8),
    ("DeleteRkey", 9),
    ("Optional", 0x80),
];

const CLC_HEADER: &[Field] = &[
    octets("eyecatcher", 0, 4),
    octets("type", 4, 1),
    octets("length", 5, 2),
    bits("version", 7, 4, 4),
];
const PEER_ID: &[Field] = &[octets("peer_id", 8, 8)];
const FIRST_CONTACT: &[Field] = &[bits("first_contact", 7, 3, 1), bits("path", 7, 0, 2)];
const PROPOSAL: &[Field] = &[
    bits("path", 7, 0, 2),
    bits("path2", 7, 2, 2),
    octets("gid", 16, 16),
    octets("mac", 32, 6),
    octets("skip", 38, 2),
];
const PROPOSAL_V1: &[Field] = &[
    octets("subnet", 40, 4),
    octets("prefix_length", 44, 1),
    octets("prefixes", 47, 1),
];
const PROPOSAL_V2: &[Field] = &[
    octets("ism_gid", 40, 8),
    octets("ism_chid", 48, 2),
    octets("v2_offset", 50, 2),
    // Behind the area, without subnets.
    octets("eids", 80, 1),
    octets("ism_gids", 81, 1),
    bits("release", 83, 4, 4),
    bits("has_seid", 83, 0, 1),
    octets("smcd_offset", 86, 2),
    octets("roce_gid", 88, 16),
    octets("max_connections", 104, 1),
    octets("max_links", 105, 1),
    octets("features", 106, 2),
    octets("eid", 120, 32),
    octets("seid", 152, 32),
    octets("gid1", 200, 8),
    octets("chid1", 208, 2),
    octets("gid2", 210, 8),
    octets("chid2", 218, 2),
];
const ACCEPT_R: &[Field] = &[
    octets("gid", 16, 16),
    octets("mac", 32, 6),
    octets("qpn", 38, 3),
    octets("rkey", 41, 4),
    octets("index", 45, 1),
    octets("token", 46, 4),
    bits("size", 50, 4, 4),
    bits("mtu", 50, 0, 4),
    octets("address", 52, 8),
    octets("psn", 61, 3),
];
const ACCEPT_R2: &[Field] = &[
    octets("eid", 64, 32),
    bits("direct", 104, 7, 1),
    bits("os", 105, 4, 4),
    bits("release", 105, 0, 4),
    octets("hostname", 108, 32),
    octets("max_connections", 140, 1),
    octets("max_links", 141, 1),
    octets("features", 142, 2),
    octets("gids", 156, 1),
    octets("gid1", 160, 16),
];
const ACCEPT_D: &[Field] = &[
    octets("gid", 8, 8),
    octets("dmb", 16, 8),
    octets("index", 24, 1),
    bits("size", 25, 4, 4),
    octets("link_id", 28, 4),
];
const ACCEPT_D2: &[Field] = &[
    octets("chid", 32, 2),
    octets("eid", 34, 32),
    octets("gid_ext", 66, 8),
    bits("os", 75, 4, 4),
    bits("release", 75, 0, 4),
    octets("hostname", 78, 32),
    octets("max_connections", 110, 1),
    octets("max_links", 111, 1),
    octets("features", 112, 2),
];
const DECLINE: &[Field] = &[
    bits("out_of_sync", 7, 3, 1),
    octets("code", 16, 4),
    bits("os", 20, 4, 4),
];

const LLC_HEADER: &[Field] = &[octets("type", 0, 1), bits("reply", 3, 7, 1)];
const LENGTH_V1: &[Field] = &[octets("length", 1, 1)];
const LENGTH_V2: &[Field] = &[octets("length", 1, 2)];
const CONFIRM_LINK: &[Field] = &[
    bits("no_eye_catcher", 3, 0, 2),
    octets("mac", 4, 6),
    octets("gid", 10, 16),
    octets("qpn", 26, 3),
    octets("link", 29, 1),
    octets("user_id", 30, 4),
    octets("max_links", 34, 1),
    octets("max_connections", 35, 1),
];
const ADD_LINK: &[Field] = &[
    bits("reason", 2, 0, 4),
    bits("rejected", 3, 6, 1),
    octets("mac", 4, 6),
    octets("gid", 12, 16),
    octets("qpn", 28, 3),
    octets("link", 31, 1),
    bits("mtu", 32, 0, 4),
    octets("psn", 33, 3),
];
const ADD_LINK_V2: &[Field] = &[
    bits("direct", 44, 7, 1),
    octets("target_gid", 46, 16),
    octets("count", 71, 1),
    octets("count_high", 70, 1),
    octets("ref1", 72, 4),
    octets("new1", 76, 4),
    octets("address1", 80, 8),
    octets("ref2", 88, 4),
    octets("new2", 92, 4),
    octets("address2", 96, 8),
];
const ADD_LINK_CONT: &[Field] = &[
    octets("link", 4, 1),
    octets("remaining", 5, 1),
    octets("ref1", 8, 4),
    octets("new1", 12, 4),
    octets("address1", 16, 8),
    octets("ref2", 24, 4),
    octets("new2", 28, 4),
    octets("address2", 32, 8),
];
const DELETE_LINK: &[Field] = &[
    bits("all", 3, 6, 1),
    bits("orderly", 3, 5, 1),
    octets("link", 4, 1),
    octets("reason", 5, 4),
];
const REQUEST_ADD_LINK: &[Field] = &[
    bits("rejected", 3, 6, 1),
    octets("count", 24, 1),
    octets("gid1", 28, 16),
];
const RKEY_FLAGS: &[Field] = &[bits("negative", 3, 5, 1), bits("retry", 3, 4, 1)];
const CONFIRM_RKEY: &[Field] = &[
    octets("others", 4, 1),
    octets("rkey", 5, 4),
    octets("address", 9, 8),
    octets("link1", 17, 1),
    octets("rkey1", 18, 4),
    octets("address1", 22, 8),
    octets("link2", 30, 1),
    octets("rkey2", 31, 4),
    octets("address2", 35, 8),
];
const CONFIRM_RKEY_CONT: &[Field] = &[
    octets("remaining", 4, 1),
    octets("link1", 5, 1),
    octets("rkey1", 6, 4),
    octets("address1", 10, 8),
    octets("link2", 18, 1),
    octets("rkey2", 19, 4),
    octets("address2", 23, 8),
    octets("link3", 31, 1),
    octets("rkey3", 32, 4),
    octets("address3", 36, 8),
];
const TEST_LINK: &[Field] = &[octets("data", 4, 16)];
const DELETE_RKEY: &[Field] = &[
    octets("count", 4, 1),
    octets("mask", 5, 1),
    octets("rkey1", 8, 4),
    octets("rkey2", 12, 4),
    octets("rkey3", 16, 4),
    octets("rkey8", 36, 4),
];
const CDC_FLAGS: &[Field] = &[
    bits("B", 24, 7, 1),
    bits("P", 24, 6, 1),
    bits("U", 24, 5, 1),
    bits("R", 24, 4, 1),
    bits("F", 24, 3, 1),
    bits("D", 25, 7, 1),
    bits("C", 25, 6, 1),
    bits("A", 25, 5, 1),
];
const CDC: &[Field] = &[
    octets("type", 0, 1),
    octets("length", 1, 1),
    octets("seq", 2, 2),
    octets("token", 4, 4),
    octets("prod", 10, 6),
    octets("cons", 18, 6),
];
/// As carriers of SMC-D give it: as it lies in memory, numbers in network order.
const CDC_ISM: &[Field] = &[
    octets("type", 0, 1),
    octets("prod", 8, 6),
    octets("cons", 16, 6),
    bits("B", 22, 7, 1),
    bits("P", 22, 6, 1),
    bits("U", 22, 5, 1),
    bits("R", 22, 4, 1),
    bits("F", 22, 3, 1),
    bits("D", 23, 7, 1),
    bits("C", 23, 6, 1),
    bits("A", 23, 5, 1),
];

/// The tables of a kind of message.
#[must_use]
pub(super) fn tables(kind: Kind) -> Vec<&'static [Field]> {
    match kind {
        Kind::Clc(form, 1) if form.is_v2() => vec![CLC_HEADER, PEER_ID, PROPOSAL, PROPOSAL_V2],
        Kind::Clc(_, 1) => vec![CLC_HEADER, PEER_ID, PROPOSAL, PROPOSAL_V1],
        Kind::Clc(Form::R1, 2 | 3) => vec![CLC_HEADER, FIRST_CONTACT, PEER_ID, ACCEPT_R],
        Kind::Clc(Form::R2, 2 | 3) => vec![CLC_HEADER, FIRST_CONTACT, PEER_ID, ACCEPT_R, ACCEPT_R2],
        Kind::Clc(Form::D1, 2 | 3) => vec![CLC_HEADER, FIRST_CONTACT, ACCEPT_D],
        Kind::Clc(Form::D2, 2 | 3) => vec![CLC_HEADER, FIRST_CONTACT, ACCEPT_D, ACCEPT_D2],
        Kind::Clc(..) => vec![CLC_HEADER, PEER_ID, DECLINE],
        Kind::Llc(kind) => {
            let v2 = kind & 0xe0 == 0x20;
            let length = if v2 { LENGTH_V2 } else { LENGTH_V1 };
            let mut tables = vec![LLC_HEADER, length];
            tables.extend_from_slice(match kind & 0x1f {
                1 => &[CONFIRM_LINK],
                2 if v2 => &[ADD_LINK, ADD_LINK_V2],
                2 => &[ADD_LINK],
                3 => &[ADD_LINK_CONT],
                4 => &[DELETE_LINK],
                5 => &[REQUEST_ADD_LINK],
                6 => &[RKEY_FLAGS, CONFIRM_RKEY],
                7 => &[TEST_LINK],
                8 => &[RKEY_FLAGS, CONFIRM_RKEY_CONT],
                9 => &[RKEY_FLAGS, DELETE_RKEY],
                _ => &[],
            });
            tables
        }
        Kind::Cdc(false) => vec![CDC, CDC_FLAGS],
        Kind::Cdc(true) => vec![CDC_ISM],
    }
}

/// The field of this name.
#[must_use]
pub(super) fn field(kind: Kind, name: &str) -> Option<Field> {
    let octet = name.strip_prefix("octet").and_then(|at| at.parse().ok());
    if let Some(at) = octet {
        return Some(octets("octet", at, 1));
    }
    let tables = tables(kind);
    let mut fields = tables.into_iter().flatten();
    fields.find(|field| field.name == name).copied()
}

/// Names of the fields of a kind of message.
#[must_use]
pub(super) fn names(kind: Kind) -> String {
    let tables = tables(kind);
    let names = tables.into_iter().flatten().map(|field| field.name);
    names.collect::<Vec<_>>().join(" ")
}

impl Field {
    /// Reads the field; of one longer than 16 octets the first 16. Octets that are not
    /// there count as 0.
    #[must_use]
    pub(super) fn get(self, message: &[u8]) -> u128 {
        let bits = self.bits.min(128);
        let bit = |at: usize| {
            let octet = message.get(at / 8).copied().unwrap_or(0);
            u128::from(octet >> (7 - at % 8) & 1)
        };
        (self.bit..self.bit + bits).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes the field as far as the message has it.
    pub(super) fn put(self, message: &mut [u8], value: u128) {
        for index in 0..self.bits.min(128) {
            let at = self.bit + self.bits.min(128) - 1 - index;
            let mask = 1_u8 << (7 - at % 8);
            if let Some(octet) = message.get_mut(at / 8) {
                if value >> index & 1 == 1 {
                    *octet |= mask;
                } else {
                    *octet &= !mask;
                }
            }
        }
    }

    /// Octets of a field that has whole ones.
    #[must_use]
    pub(super) fn range(self) -> core::ops::Range<usize> {
        self.bit / 8..(self.bit + self.bits).div_ceil(8)
    }

    /// Whether a value has too many bits.
    #[must_use]
    pub(super) const fn overflows(self, value: u128) -> bool {
        self.bits < 128 && value >> self.bits != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_put_where_they_are_read() {
        for kind in [
            Kind::Clc(Form::R2, 2),
            Kind::Clc(Form::D2, 1),
            Kind::Llc(2),
            Kind::Llc(0x22),
            Kind::Cdc(false),
            Kind::Cdc(true),
        ] {
            for field in tables(kind).into_iter().flatten() {
                let mut message = vec![0; 256];
                let ones = u128::MAX >> (128 - field.bits.min(128));
                field.put(&mut message, ones);
                assert_eq!(field.get(&message), ones, "{}", field.name);
                let set: u32 = message.iter().map(|octet| octet.count_ones()).sum();
                assert_eq!(set as usize, field.bits.min(128));
                let inside: u32 = message[field.range()].iter().map(|o| o.count_ones()).sum();
                assert_eq!(inside, set);
            }
        }
    }
}
