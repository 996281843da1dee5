//! Where the fields of each message are: tables of offsets, and nothing else.
//!
//! The tables are written from the formats alone, without use of `smc_proto::wire`, so that a
//! mistake in one of them is seen by the other. The second decoder reads by these tables, and
//! scripts name fields by them.

use std::fmt;
use std::ops::Range;

/// A field: its first bit, counted from the most significant one of byte 0, and how
/// many it has.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    stem: &'static str,
    /// The entry of a list it belongs to, from 1; 0, if to none.
    entry: usize,
    /// First bit.
    pub bit: usize,
    /// Bits.
    pub bits: usize,
}

/// Fields that are there several times.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Bytes in front of the first entry.
    at: usize,
    /// Bytes of an entry.
    each: usize,
    /// Entries whose fields can be named.
    most: usize,
    entry: &'static [Field],
}

/// Fields and lists, and where the byte is that they are counted from.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    base: usize,
    fields: &'static [Field],
    lists: &'static [List],
}

const fn bytes(stem: &'static str, at: usize, length: usize) -> Field {
    Field {
        stem,
        entry: 0,
        bit: at * 8,
        bits: length * 8,
    }
}

/// `bits` bits of a byte, `low` bits above its least significant one.
const fn bits(stem: &'static str, at: usize, low: usize, bits: usize) -> Field {
    Field {
        stem,
        entry: 0,
        bit: at * 8 + 8 - low - bits,
        bits,
    }
}

const fn list(at: usize, each: usize, most: usize, entry: &'static [Field]) -> List {
    List {
        at,
        each,
        most,
        entry,
    }
}

const fn fields(fields: &'static [Field]) -> Table {
    Table {
        base: 0,
        fields,
        lists: &[],
    }
}

/// Of every CLC message.
pub const CLC_HEADER: Table = fields(&[
    bytes("eyecatcher", 0, 4),
    bytes("type", 4, 1),
    bytes("length", 5, 2),
    bits("version", 7, 4, 4),
]);
/// Of every CLC message of SMC-R.
pub const PEER_ID: Table = fields(&[bytes("peer_id", 8, 8)]);
/// Of Accept and Confirm.
pub const CONTACT: Table = fields(&[bits("first_contact", 7, 3, 1), bits("path", 7, 0, 2)]);

/// What a Proposal offers, and the bytes in front of its subnets.
pub const PROPOSED: Table = fields(&[
    bits("path", 7, 0, 2),
    bits("path2", 7, 2, 2),
    bytes("skip", 38, 2),
]);
/// Of every Proposal.
pub const PROPOSAL: Table = fields(&[bytes("gid", 16, 16), bytes("mac", 32, 6)]);
/// Fields behind the area whose length is `skip`.
pub const SUBNETS: Table = fields(&[
    bytes("subnet", 0, 4),
    bytes("prefix_length", 4, 1),
    bytes("prefixes", 7, 1),
]);
/// IPv6 prefixes, behind the subnet.
pub const PREFIXES: List = list(
    8,
    17,
    8,
    &[bytes("prefix", 0, 16), bytes("prefix_bits", 16, 1)],
);
/// Of a Proposal that offers SMC-D.
pub const PROPOSED_ISM: Table = fields(&[bytes("ism_gid", 40, 8), bytes("ism_chid", 48, 2)]);
/// Of a Proposal of version 2.
pub const PROPOSED_V2: Table = fields(&[bytes("v2_offset", 50, 2)]);

/// What follows counts from the extension of version 2 on.
pub const V2_COUNTS: Table = fields(&[
    bytes("eids", 0, 1),
    bytes("ism_gids", 1, 1),
    bits("has_seid", 3, 0, 1),
    bytes("smcd_offset", 6, 2),
]);
/// What version 2 offers.
pub const V2_OFFER: Table = fields(&[bits("release", 3, 4, 4), bytes("roce_gid", 8, 16)]);
/// From release 1 on.
pub const V2_LIMITS: Table = fields(&[
    bytes("max_connections", 24, 1),
    bytes("max_links", 25, 1),
    bytes("features", 26, 2),
]);
/// UEIDs, behind that.
pub const EIDS: List = list(40, 32, 1, &[bytes("eid", 0, 32)]);
/// What follows counts from the extension of SMC-D on.
pub const SEID: Table = fields(&[bytes("seid", 0, 32)]);
/// ISM devices beside the first.
pub const ISM_DEVICES: List = list(48, 10, 2, &[bytes("gid", 0, 8), bytes("chid", 8, 2)]);

/// Accept and Confirm of SMC-R up to where versions differ.
pub const ACCEPT_R: Table = fields(&[
    bytes("gid", 16, 16),
    bytes("mac", 32, 6),
    bytes("qpn", 38, 3),
    bytes("rkey", 41, 4),
    bytes("index", 45, 1),
    bytes("token", 46, 4),
    bits("size", 50, 4, 4),
    bits("mtu", 50, 0, 4),
    bytes("address", 52, 8),
    bytes("psn", 61, 3),
]);
/// Of version 2, behind [`ACCEPT_R`].
pub const ACCEPT_R2: Table = fields(&[bytes("eid", 64, 32)]);
/// First contact extension of [`ACCEPT_R2`].
pub const EXTENSION_R: usize = 104;
/// GIDs of a client, behind that extension.
pub const CLIENT_GIDS: Table = Table {
    base: 156,
    fields: &[bytes("gids", 0, 1)],
    lists: &[CLIENT_GID],
};
/// Each of them.
pub const CLIENT_GID: List = list(4, 16, 1, &[bytes("gid", 0, 16)]);
/// Accept and Confirm of SMC-D.
pub const ACCEPT_D: Table = fields(&[
    bytes("gid", 8, 8),
    bytes("dmb", 16, 8),
    bytes("index", 24, 1),
    bits("size", 25, 4, 4),
    bytes("link_id", 28, 4),
]);
/// Of version 2, behind [`ACCEPT_D`].
pub const ACCEPT_D2: Table = fields(&[
    bytes("chid", 32, 2),
    bytes("eid", 34, 32),
    bytes("gid_ext", 66, 8),
]);
/// First contact extension of [`ACCEPT_D2`].
pub const EXTENSION_D: usize = 74;

/// What follows counts from the first contact extension on. This is of both technologies.
pub const EXTENSION: Table = fields(&[
    bits("os", 1, 4, 4),
    bits("release", 1, 0, 4),
    bytes("hostname", 4, 32),
]);
/// Of SMC-R.
pub const DIRECT: Table = fields(&[bits("direct", 0, 7, 1)]);
/// From release 1 on.
pub const LIMITS: Table = fields(&[bytes("max_connections", 36, 1), bytes("max_links", 37, 1)]);
/// From release 1 on.
pub const FEATURES: Table = fields(&[bytes("features", 38, 2)]);

/// Of a Decline.
pub const DECLINE: Table = fields(&[
    bits("out_of_sync", 7, 3, 1),
    bytes("code", 16, 4),
    bits("os", 20, 4, 4),
]);

/// Of every LLC message.
pub const LLC_HEADER: Table = fields(&[bytes("type", 0, 1), bits("reply", 3, 7, 1)]);
/// Of those of version 1.
pub const LENGTH_V1: Table = fields(&[bytes("length", 1, 1)]);
/// Of those of version 2.
pub const LENGTH_V2: Table = fields(&[bytes("length", 1, 2)]);
/// Of ADD LINK and REQUEST ADD LINK.
pub const REJECTED: Table = fields(&[bits("rejected", 3, 6, 1)]);
/// CONFIRM LINK.
pub const CONFIRM_LINK: Table = fields(&[
    bits("no_eye_catcher", 3, 0, 2),
    bytes("mac", 4, 6),
    bytes("gid", 10, 16),
    bytes("qpn", 26, 3),
    bytes("link", 29, 1),
    bytes("user_id", 30, 4),
    bytes("max_links", 34, 1),
    bytes("max_connections", 35, 1),
]);
/// Why an ADD LINK of version 1 is rejected.
pub const REASON: Table = fields(&[bits("reason", 2, 0, 4)]);
/// ADD LINK.
pub const ADD_LINK: Table = fields(&[
    bytes("mac", 4, 6),
    bytes("gid", 12, 16),
    bytes("qpn", 28, 3),
    bytes("link", 31, 1),
    bits("mtu", 32, 0, 4),
    bytes("psn", 33, 3),
]);
/// Behind it in version 2, if it is longer than 44 bytes.
pub const ADD_LINK_EXTENSION: Table = Table {
    base: 44,
    fields: &[bits("direct", 0, 7, 1), bytes("target_gid", 2, 16)],
    lists: &[NEW_RTOKENS],
};
/// How many of them there are, in either order of bytes: what senders mean, the length of
/// the message decides.
pub const NEW_RTOKEN_COUNT: Table = Table {
    base: 44,
    fields: &[bytes("count", 27, 1), bytes("count_high", 26, 1)],
    lists: &[],
};
/// RMBs and what they are on the new link.
pub const NEW_RTOKENS: List = list(28, 16, 2, NEW_RTOKEN);
const NEW_RTOKEN: &[Field] = &[
    bytes("ref", 0, 4),
    bytes("new", 4, 4),
    bytes("address", 8, 8),
];
/// ADD LINK CONTINUATION.
pub const ADD_LINK_CONTINUATION: Table = Table {
    base: 0,
    fields: &[bytes("link", 4, 1), bytes("remaining", 5, 1)],
    lists: &[list(8, 16, 2, NEW_RTOKEN)],
};
/// DELETE LINK.
pub const DELETE_LINK: Table = fields(&[
    bits("all", 3, 6, 1),
    bits("orderly", 3, 5, 1),
    bytes("link", 4, 1),
    bytes("reason", 5, 4),
]);
/// REQUEST ADD LINK.
pub const REQUEST_ADD_LINK: Table = Table {
    base: 0,
    fields: &[bytes("count", 24, 1)],
    lists: &[REQUESTING_GIDS],
};
/// GIDs that links could be added to.
pub const REQUESTING_GIDS: List = list(28, 16, 1, &[bytes("gid", 0, 16)]);
/// Of messages about RMBs.
pub const RKEY_FLAGS: Table = fields(&[bits("negative", 3, 5, 1), bits("retry", 3, 4, 1)]);
/// CONFIRM RKEY.
pub const CONFIRM_RKEY: Table = Table {
    base: 0,
    fields: &[
        bytes("others", 4, 1),
        bytes("rkey", 5, 4),
        bytes("address", 9, 8),
    ],
    lists: &[OTHER_LINKS],
};
/// What an RMB is on other links.
pub const OTHER_LINKS: List = list(17, 13, 2, OTHER_LINK);
const OTHER_LINK: &[Field] = &[
    bytes("link", 0, 1),
    bytes("rkey", 1, 4),
    bytes("address", 5, 8),
];
/// CONFIRM RKEY CONTINUATION.
pub const CONFIRM_RKEY_CONTINUATION: Table = Table {
    base: 0,
    fields: &[bytes("remaining", 4, 1)],
    lists: &[list(5, 13, 3, OTHER_LINK)],
};
/// TEST LINK.
pub const TEST_LINK: Table = fields(&[bytes("data", 4, 16)]);
/// DELETE RKEY.
pub const DELETE_RKEY: Table = Table {
    base: 0,
    fields: &[bytes("count", 4, 1), bytes("mask", 5, 1)],
    lists: &[DELETED_RKEYS],
};
/// Keys of the RMBs.
pub const DELETED_RKEYS: List = list(8, 4, 8, &[bytes("rkey", 0, 4)]);

/// Of CDC messages of SMC-R.
pub const CDC: Table = fields(&[
    bytes("length", 1, 1),
    bytes("seq", 2, 2),
    bytes("token", 4, 4),
]);
/// Of every CDC message.
pub const CDC_TYPE: Table = fields(&[bytes("type", 0, 1)]);
/// What follows counts from the producer cursor's reserved bytes on.
pub const CURSORS: Table = fields(&[PRODUCER, CONSUMER]);
/// Wrap and count of the producer cursor.
pub const PRODUCER: Field = bytes("prod", 0, 6);
/// Wrap and count of the consumer cursor.
pub const CONSUMER: Field = bytes("cons", 8, 6);
/// Behind the cursors.
pub const CDC_FLAGS: Table = fields(&[
    bits("B", 14, 7, 1),
    bits("P", 14, 6, 1),
    bits("U", 14, 5, 1),
    bits("R", 14, 4, 1),
    bits("F", 14, 3, 1),
    bits("D", 15, 7, 1),
    bits("C", 15, 6, 1),
    bits("A", 15, 5, 1),
]);
/// Where a CDC message of SMC-R has its producer cursor.
pub const CURSORS_R: usize = 10;
/// Where one of SMC-D has it.
pub const CURSORS_D: usize = 8;

impl Table {
    /// Returns the table with its fields, and of these lists entries, counted from another byte.
    #[must_use]
    pub const fn at(self, base: usize) -> Self {
        Self { base, ..self }
    }

    /// Returns the table with a list added.
    #[must_use]
    pub const fn with(self, lists: &'static [List]) -> Self {
        Self { lists, ..self }
    }

    /// The fields, without those of lists.
    pub fn fields(self) -> impl Iterator<Item = Field> {
        let moved = move |field: &Field| field.moved(self.base);
        self.fields.iter().map(moved)
    }

    /// The fields of all entries that have a name.
    pub fn listed(self) -> impl Iterator<Item = Field> {
        let entries = move |list: &'static List| {
            (0..list.most).flat_map(move |index| list.entry(self.base, index))
        };
        self.lists.iter().flat_map(entries)
    }
}

impl List {
    /// Fields of an entry, the first of which has index 0.
    pub fn entry(self, base: usize, index: usize) -> impl Iterator<Item = Field> {
        let at = base + self.at + index * self.each;
        self.entry.iter().map(move |field| Field {
            entry: index + 1,
            ..field.moved(at)
        })
    }
}

impl Field {
    /// Returns the field with more bytes in front of it.
    #[must_use]
    pub const fn moved(self, bytes: usize) -> Self {
        Self {
            bit: self.bit + bytes * 8,
            ..self
        }
    }

    /// A byte of which nothing is known but where it is.
    #[must_use]
    pub const fn byte(at: usize) -> Self {
        bytes("octet", at, 1)
    }

    /// Whether it is called that: the first entry of a list may go without its number.
    #[must_use]
    pub fn is_called(self, name: &str) -> bool {
        match name.strip_prefix(self.stem) {
            Some("") => self.entry <= 1,
            Some(number) => self.entry > 0 && number.parse() == Ok(self.entry),
            None => false,
        }
    }

    /// Whether it has whole bytes.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        self.bits.is_multiple_of(8)
    }

    /// Bytes it lies in.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.bit / 8..(self.bit + self.bits).div_ceil(8)
    }

    /// Reads the field; of one longer than 16 bytes the first 16. Bytes that are not
    /// there count as 0.
    #[must_use]
    pub fn get(self, message: &[u8]) -> u128 {
        let bits = self.bits.min(128);
        let bit = |at: usize| {
            let byte = message.get(at / 8).copied().unwrap_or(0);
            u128::from(byte >> (7 - at % 8) & 1)
        };
        (self.bit..self.bit + bits).fold(0, |value, at| value << 1 | bit(at))
    }

    /// Writes the field as far as the message has it.
    pub fn put(self, message: &mut [u8], value: u128) {
        for index in 0..self.bits.min(128) {
            let at = self.bit + self.bits.min(128) - 1 - index;
            let mask = 1_u8 << (7 - at % 8);
            if let Some(byte) = message.get_mut(at / 8) {
                if value >> index & 1 == 1 {
                    *byte |= mask;
                } else {
                    *byte &= !mask;
                }
            }
        }
    }

    /// Writes zeros into all of it, however long it is.
    pub fn clear(self, message: &mut [u8]) {
        if self.is_bytes() {
            if let Some(place) = message.get_mut(self.range()) {
                place.fill(0);
            }
        } else {
            self.put(message, 0);
        }
    }

    /// Whether a value has too many bits.
    #[must_use]
    pub const fn overflows(self, value: u128) -> bool {
        self.bits < 128 && value >> self.bits != 0
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stem)?;
        match self.entry {
            0 => Ok(()),
            number => write!(f, "{number}"),
        }
    }
}
