//! Which fields a message of a script has.

use super::parsed::{Form, Kind};
pub(super) use crate::layout::fields::Field;
use crate::layout::fields::{
    ACCEPT_D, ACCEPT_D2, ACCEPT_R, ACCEPT_R2, ADD_LINK, ADD_LINK_CONTINUATION, ADD_LINK_EXTENSION,
    CDC, CDC_FLAGS, CDC_TYPE, CLC_HEADER, CLIENT_GIDS, CONFIRM_LINK, CONFIRM_RKEY,
    CONFIRM_RKEY_CONTINUATION, CONTACT, CURSORS, CURSORS_D, CURSORS_R, DECLINE, DELETE_LINK,
    DELETE_RKEY, DIRECT, EIDS, EXTENSION, EXTENSION_D, EXTENSION_R, FEATURES, ISM_DEVICES,
    LENGTH_V1, LENGTH_V2, LIMITS, LLC_HEADER, NEW_RTOKEN_COUNT, PEER_ID, PROPOSAL, PROPOSED,
    PROPOSED_ISM, PROPOSED_V2, REASON, REJECTED, REQUEST_ADD_LINK, RKEY_FLAGS, SEID, SUBNETS,
    TEST_LINK, Table, V2_COUNTS, V2_LIMITS, V2_OFFER,
};

/// Types of CLC messages.
pub(super) const CLC_TYPES: [(&str, u8); 4] = [
    ("Proposal", 1),
    ("Accept", 2),
    ("Confirm", 3),
    ("Decline", 4),
];
/// Types of LLC messages; those of version 2 have 0x20 more.
pub(super) const LLC_TYPES: [(&str, u8); 10] = [
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

/// Where a Proposal of the scripts' peer has its subnets.
const NO_SKIP: usize = 40;
/// Where it has its extension of version 2: behind the area, without subnets.
const V2: usize = 80;
/// Where that has SMC-D's, behind one EID.
const SMCD: usize = 152;

/// The tables of a kind of message.
fn tables(kind: Kind) -> Vec<Table> {
    match kind {
        Kind::Clc(form, 1) if form.is_v2() => vec![
            CLC_HEADER,
            PEER_ID,
            PROPOSED,
            PROPOSAL,
            PROPOSED_ISM,
            PROPOSED_V2,
            V2_COUNTS.at(V2),
            V2_OFFER.at(V2).with(&[EIDS]),
            V2_LIMITS.at(V2),
            SEID.at(SMCD).with(&[ISM_DEVICES]),
        ],
        Kind::Clc(_, 1) => vec![CLC_HEADER, PEER_ID, PROPOSED, PROPOSAL, SUBNETS.at(NO_SKIP)],
        Kind::Clc(Form::R1, 2 | 3) => vec![CLC_HEADER, CONTACT, PEER_ID, ACCEPT_R],
        Kind::Clc(Form::R2, 2 | 3) => vec![
            CLC_HEADER,
            CONTACT,
            PEER_ID,
            ACCEPT_R,
            ACCEPT_R2,
            DIRECT.at(EXTENSION_R),
            EXTENSION.at(EXTENSION_R),
            LIMITS.at(EXTENSION_R),
            FEATURES.at(EXTENSION_R),
            CLIENT_GIDS,
        ],
        Kind::Clc(Form::D1, 2 | 3) => vec![CLC_HEADER, CONTACT, ACCEPT_D],
        Kind::Clc(Form::D2, 2 | 3) => vec![
            CLC_HEADER,
            CONTACT,
            ACCEPT_D,
            ACCEPT_D2,
            EXTENSION.at(EXTENSION_D),
            LIMITS.at(EXTENSION_D),
            FEATURES.at(EXTENSION_D),
        ],
        Kind::Clc(..) => vec![CLC_HEADER, PEER_ID, DECLINE],
        Kind::Llc(kind) => {
            let v2 = kind & 0xe0 == 0x20;
            let length = if v2 { LENGTH_V2 } else { LENGTH_V1 };
            let mut tables = vec![LLC_HEADER, length];
            tables.extend_from_slice(match kind & 0x1f {
                1 => &[CONFIRM_LINK],
                2 if v2 => &[REJECTED, ADD_LINK, ADD_LINK_EXTENSION, NEW_RTOKEN_COUNT],
                2 => &[REJECTED, REASON, ADD_LINK],
                3 => &[ADD_LINK_CONTINUATION],
                4 => &[DELETE_LINK],
                5 => &[REJECTED, REQUEST_ADD_LINK],
                6 => &[RKEY_FLAGS, CONFIRM_RKEY],
                7 => &[TEST_LINK],
                8 => &[RKEY_FLAGS, CONFIRM_RKEY_CONTINUATION],
                9 => &[RKEY_FLAGS, DELETE_RKEY],
                _ => &[],
            });
            tables
        }
        Kind::Cdc(false) => vec![
            CDC_TYPE,
            CDC,
            CURSORS.at(CURSORS_R),
            CDC_FLAGS.at(CURSORS_R),
        ],
        // As carriers of SMC-D give it: as it lies in memory, numbers in network order.
        Kind::Cdc(true) => vec![CDC_TYPE, CURSORS.at(CURSORS_D), CDC_FLAGS.at(CURSORS_D)],
    }
}

/// The fields of a kind of message, those of lists last.
pub(super) fn fields(kind: Kind) -> impl Iterator<Item = Field> {
    let tables = tables(kind);
    let listed = tables.clone().into_iter().flat_map(Table::listed);
    tables.into_iter().flat_map(Table::fields).chain(listed)
}

/// The field of this name.
#[must_use]
pub fn field(kind: Kind, name: &str) -> Option<Field> {
    let byte = name.strip_prefix("octet").and_then(|at| at.parse().ok());
    if let Some(at) = byte {
        return Some(Field::byte(at));
    }
    fields(kind).find(|field| field.is_called(name))
}

/// Names of the fields of a kind of message.
#[must_use]
pub(super) fn names(kind: Kind) -> String {
    let names: Vec<_> = fields(kind).map(|field| field.to_string()).collect();
    names.join(" ")
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
            for field in fields(kind) {
                let mut message = vec![0; 512];
                let ones = u128::MAX >> (128 - field.bits.min(128));
                field.put(&mut message, ones);
                assert_eq!(field.get(&message), ones, "{field}");
                let set: u32 = message.iter().map(|byte| byte.count_ones()).sum();
                assert_eq!(set as usize, field.bits.min(128));
                let inside: u32 = message[field.range()].iter().map(|o| o.count_ones()).sum();
                assert_eq!(inside, set);
            }
        }
    }
}
