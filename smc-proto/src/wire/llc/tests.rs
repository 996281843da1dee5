//! Captured messages, counts a peer cannot mean, and laws.

use std::format;
use std::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;
use crate::wire::testing::hex;
use crate::wire::types::*;

const V1: SmcVersion = SmcVersion::V1;

fn parse(octets: &[u8]) -> Result<LlcMessage<'_>, LlcParseError> {
    LlcMessage::parse(octets, V1)
}

/// Linux 6.12 to Linux 6.12, version 1: octets up to the zeros that fill the
/// message, and the line they read as.
const CAPTURED: [(&str, &str); 13] = [
    (
        "012c0003 525400000001 00000000000000000000ffff0a090901 000011 01 00000101 02",
        "LLC CONFIRM LINK request link 1 mac 52:54:00:00:00:01 gid ::ffff:10.9.9.1 qp 0x000011 \
         uid 0x00000101 max-links 2 no-eye-catcher",
    ),
    (
        "012c0083 525400000002 00000000000000000000ffff0a090902 000011 01 00000101 02",
        "LLC CONFIRM LINK reply link 1 mac 52:54:00:00:00:02 gid ::ffff:10.9.9.2 qp 0x000011 \
         uid 0x00000101 max-links 2 no-eye-catcher",
    ),
    (
        "022c0000 525400000101 0000 00000000000000000000ffff0a090801 000011 02 03 fd13b4",
        "LLC ADD LINK request link 2 mac 52:54:00:00:01:01 gid ::ffff:10.9.8.1 qp 0x000011 \
         mtu 1024 psn 0xfd13b4",
    ),
    (
        "022c0080 525400000102 0000 00000000000000000000ffff0a090802 000011 02 03 244e0c",
        "LLC ADD LINK reply link 2 mac 52:54:00:00:01:02 gid ::ffff:10.9.8.2 qp 0x000011 \
         mtu 1024 psn 0x244e0c",
    ),
    (
        "022c01c0 525400000001 0000 00000000000000000000ffff0a090901 000012 02 03 b5b017",
        "LLC ADD LINK reply link 2 mac 52:54:00:00:00:01 gid ::ffff:10.9.9.1 qp 0x000012 \
         mtu 1024 psn 0xb5b017 rejected 0x1 (no alternate path)",
    ),
    (
        "032c0000 02 01 0000 0000030f 000003cd ff264f8d04340000",
        "LLC ADD LINK CONTINUATION request link 2 remaining 1 \
         pairs [0x0000030f=0x000003cd@0xff264f8d04340000]",
    ),
    (
        "032c0080 02 01 0000 00000359 0000036d ff28d7fa44340000",
        "LLC ADD LINK CONTINUATION reply link 2 remaining 1 \
         pairs [0x00000359=0x0000036d@0xff28d7fa44340000]",
    ),
    (
        "062c0000 00 0000038d ff229c8101f10000",
        "LLC CONFIRM RKEY request rmb 0x0000038d@0xff229c8101f10000 other-links 0 []",
    ),
    (
        "062c0080 01 0000030f ff264f8d04340000 02 000003cd ff264f8d04340000",
        "LLC CONFIRM RKEY reply rmb 0x0000030f@0xff264f8d04340000 other-links 1 \
         [2:0x000003cd@0xff264f8d04340000]",
    ),
    (
        "092c0000 01 00 0000 0000038d",
        "LLC DELETE RKEY request rkeys [0x0000038d] errors 0x00",
    ),
    (
        "092c0080 01 00 0000 00000390",
        "LLC DELETE RKEY reply rkeys [0x00000390] errors 0x00",
    ),
    (
        "042c0040 00 00020000",
        "LLC DELETE LINK request all link 0 at-once reason 0x00020000 (operator request)",
    ),
    (
        "042c0040 00 00030000",
        "LLC DELETE LINK request all link 0 at-once reason 0x00030000 (program or inactivity)",
    ),
];

/// Not captured: made from the description.
const MADE: [(&str, &str); 4] = [
    (
        "072c0080 000102030405060708090a0b0c0d0e0f",
        "LLC TEST LINK reply data 000102030405060708090a0b0c0d0e0f",
    ),
    (
        "082c0020 04 02 00000001 0000000000000002 03 00000003 0000000000000004
         04 00000005 0000000000000006",
        "LLC CONFIRM RKEY CONTINUATION request remaining 4 \
         [2:0x00000001@0x2 3:0x00000003@0x4 4:0x00000005@0x6] negative",
    ),
    (
        "062c00b0 03 00000001 0000000000000002 02 00000003 0000000000000004
         03 00000005 0000000000000006",
        "LLC CONFIRM RKEY reply rmb 0x00000001@0x2 other-links 3 \
         [2:0x00000003@0x4 3:0x00000005@0x6] negative retry",
    ),
    (
        "092c00a0 02 40 0000 00000001 00000002",
        "LLC DELETE RKEY reply rkeys [0x00000001 0x00000002] negative errors 0x40",
    ),
];

/// The octets of a message, filled up with zeros.
fn message(text: &str) -> [u8; 44] {
    let mut octets = hex(text);
    octets.resize(44, 0);
    octets.try_into().unwrap()
}

fn samples() -> Vec<[u8; 44]> {
    let texts = CAPTURED.iter().chain(&MADE);
    texts.map(|(text, _)| message(text)).collect()
}

#[test]
fn captured_messages_read_as_one_line_and_are_emitted_octet_for_octet() {
    //= LLC-001 test
    //= LLC-003 test
    //= LLC-008 test
    //= LLC-019 test
    //= LLC-042 test
    //= LLC-060 test
    for (text, line) in CAPTURED.iter().chain(&MADE) {
        let octets = message(text);
        let read = parse(&octets).unwrap();
        assert_eq!(format!("{read}"), *line);
        assert_eq!(read.emit_short(V1).unwrap(), octets, "{read}");
        assert_eq!(read.kind(V1), octets[0]);
        assert_eq!(read.is_reply(), octets[3] & 0x80 != 0);
    }
}

#[test]
fn every_type_and_size_is_distinguished() {
    //= CASE-H19 test
    //= LLC-001 test
    //= LLC-004 test
    //= LLC-005 test
    //= LLC-006 test
    //= LLC-007 test
    //= LLC-008 test
    let known = [1u8, 2, 3, 4, 6, 7, 8, 9];
    for kind in 0..=u8::MAX {
        for have in 1..=64usize {
            let mut octets = [0u8; 64];
            (octets[0], octets[1], octets[4]) = (kind, 44, 1);
            let result = parse(&octets[..have]);
            let error = match kind >> 6 {
                0b10 => LlcParseError::UnknownOptional { kind },
                0b11 => LlcParseError::Cdc { kind },
                _ if !known.contains(&kind) => LlcParseError::UnknownMandatory { kind },
                _ if have < 44 => LlcParseError::TooShort { have },
                _ => {
                    assert_eq!(result.unwrap().kind(V1), kind);
                    continue;
                }
            };
            assert_eq!(result, Err(error));
        }
    }
    assert_eq!(parse(&[]), Err(LlcParseError::TooShort { have: 0 }));
    for length in (0..=u8::MAX).filter(|length| *length != 44) {
        let mut octets = samples()[0];
        octets[1] = length;
        let error = LlcParseError::BadLength { length };
        assert_eq!(parse(&octets), Err(error));
    }
}

#[test]
fn counts_are_bounded_whatever_they_say() {
    //= CASE-D02 test
    //= LLC-036 test
    //= LLC-061 test
    //= LLC-062 test
    //= LLC-070 test
    for count in 0..=u8::MAX {
        let octets = |kind: u8, at: usize| {
            let mut octets = [0x11u8; 44];
            (octets[0], octets[1], octets[3], octets[at]) = (kind, 44, 0, count);
            parse(&octets).map(|message| message.to_static().unwrap())
        };
        let least_most = |result: &Result<LlcMessage<'_>, LlcParseError>| match *result {
            Err(LlcParseError::CountOutOfRange {
                least,
                most,
                count: said,
                ..
            }) => {
                assert_eq!(said, count);
                (least, most)
            }
            ref other => panic!("{other:?}"),
        };
        match octets(kind::ADD_LINK_CONTINUATION, 5).unwrap() {
            LlcMessage::AddLinkContinuation(m) => {
                assert_eq!(m.pairs.len(), usize::from(count.min(2)));
                assert_eq!(m.remaining, count);
            }
            other => panic!("{other}"),
        }
        match octets(kind::CONFIRM_RKEY, 4) {
            Ok(LlcMessage::ConfirmRkey(m)) if count <= 8 => {
                assert_eq!(m.others.len(), usize::from(count.min(2)));
            }
            other => assert_eq!(least_most(&other), (0, 8)),
        }
        match octets(kind::CONFIRM_RKEY_CONTINUATION, 4) {
            Ok(LlcMessage::ConfirmRkeyContinuation(m)) if (1..=8).contains(&count) => {
                assert_eq!(m.others.len(), usize::from(count.min(3)));
            }
            other => assert_eq!(least_most(&other), (1, 8)),
        }
        match octets(kind::DELETE_RKEY, 4) {
            Ok(LlcMessage::DeleteRkey(m)) if (1..=8).contains(&count) => {
                assert_eq!(m.rkeys.len(), usize::from(count));
            }
            other => assert_eq!(least_most(&other), (1, 8)),
        }
    }
}

#[test]
fn every_reason_to_delete_a_link_has_its_value() {
    //= LLC-042 test
    //= LLC-044 test
    for (reason, value) in [
        (DeleteLinkReason::LOST_PATH, 1),
        (DeleteLinkReason::OPERATOR, 2),
        (DeleteLinkReason::PROGRAM, 3),
        (DeleteLinkReason::PROTOCOL_VIOLATION, 4),
        (DeleteLinkReason::ASYMMETRIC_NOT_NEEDED, 5),
        (DeleteLinkReason::UNKNOWN_LINK, 16),
    ] {
        let message = LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ORDERLY,
            link: LinkNumber(7),
            reason,
        });
        assert_eq!(
            message.emit_short(V1).unwrap()[3..9],
            [0x20, 7, 0, value, 0, 0]
        );
    }
}

#[test]
fn either_bit_announces_that_there_is_no_eye_catcher() {
    //= LLC-015 test
    for bits in 0..=3u8 {
        let mut octets = message(CAPTURED[0].0);
        octets[3] = bits;
        let read = parse(&octets).unwrap();
        assert_eq!(read.emit_short(V1).unwrap(), octets);
        let LlcMessage::ConfirmLink(read) = read else {
            panic!("{read}");
        };
        assert_eq!(read.announces_no_eye_catcher(), bits != 0);
    }
}

#[test]
fn a_reason_counts_only_in_a_rejection() {
    //= LLC-024 test
    for reason in 0..=15u8 {
        let mut octets = message(CAPTURED[3].0);
        octets[2] = reason;
        let accepted = parse(&octets).unwrap();
        assert!(matches!(
            accepted,
            LlcMessage::AddLink(AddLink {
                rejection: None,
                ..
            })
        ));
        assert_eq!(accepted.emit_short(V1).unwrap(), message(CAPTURED[3].0));
        octets[3] |= 0x40;
        let rejected = parse(&octets).unwrap();
        assert_eq!(rejected.emit_short(V1).unwrap(), octets);
    }
}

#[test]
fn unused_entries_and_reserved_octets_are_ignored_and_not_kept() {
    //= LLC-001 test
    //= LLC-034 test
    //= LLC-035 test
    // Octets that count in each message; masks of octets 2, 3 and ADD LINK's 32.
    for (sample, used, flags) in [
        (0, 4..35, 0x83),
        (2, 4..36, 0xc0),
        (5, 4..24, 0x80),
        (7, 4..17, 0xb0),
        (8, 4..30, 0xb0),
        (9, 4..12, 0xa0),
        (11, 4..9, 0xe0),
        (13, 4..20, 0x80),
        (14, 4..44, 0xa0),
    ] {
        let octets = samples()[sample];
        let kind = octets[0];
        let read = parse(&octets).unwrap();
        for at in 2..44 {
            let reserved = match at {
                2 => 0xff,
                3 => !flags,
                10 | 11 if kind == kind::ADD_LINK => 0xff,
                32 if kind == kind::ADD_LINK => 0xf0,
                6 | 7 if matches!(kind, kind::ADD_LINK_CONTINUATION | kind::DELETE_RKEY) => 0xff,
                at if used.contains(&at) => 0,
                _ => 0xff,
            };
            for bit in (0..8).map(|bit| 1u8 << bit) {
                let mut other = octets;
                other[at] ^= bit;
                let same = parse(&other).as_ref() == Ok(&read);
                assert_eq!(
                    same,
                    bit & reserved != 0,
                    "type {kind} octet {at} bit {bit:02x}"
                );
            }
        }
    }
}

fn lists<T: core::fmt::Debug, S: Strategy<Value = T>, const N: usize>(
    entry: S,
    count: core::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = BoundedList<T, N>> {
    many(entry, count).prop_map(|list| list.into_iter().collect())
}

fn rtokens() -> impl Strategy<Value = RToken> {
    any::<(u32, u64)>().prop_map(|(rkey, address)| RToken {
        rkey: RKey(rkey),
        address,
    })
}

fn link_rtokens() -> impl Strategy<Value = LinkRToken> {
    (any::<u8>(), rtokens()).prop_map(|(link, rtoken)| LinkRToken {
        link: LinkNumber(link),
        rtoken,
    })
}

fn ends() -> impl Strategy<Value = (Mac, Gid, Qpn, LinkNumber)> {
    any::<([u8; 6], [u8; 16], u32, u8)>()
        .prop_map(|(mac, gid, qpn, link)| (Mac(mac), Gid(gid), Qpn::new(qpn), LinkNumber(link)))
}

fn link_messages() -> impl Strategy<Value = LlcMessage<'static>> {
    let reply = any::<bool>;
    prop_oneof![
        (reply(), 0..=3u8, ends(), any::<(u32, u8)>()).prop_map(|(reply, flags, end, n)| {
            LlcMessage::ConfirmLink(ConfirmLink {
                reply,
                flags: ConfirmLinkFlags::from_bits_truncate(flags),
                mac: end.0,
                gid: end.1,
                qpn: end.2,
                link: end.3,
                user_id: LinkUserId(n.0),
                max_links: n.1,
                max_connections: 0,
            })
        }),
        (
            reply(),
            prop::option::of(0..=15u8),
            ends(),
            any::<(u8, u32)>()
        )
            .prop_map(|(reply, rejection, end, n)| {
                LlcMessage::AddLink(AddLink {
                    reply,
                    rejection: rejection.map(AddLinkRejectReason),
                    mac: end.0,
                    gid: end.1,
                    qpn: end.2,
                    link: end.3,
                    mtu: Mtu::from_code(n.0),
                    psn: Psn::new(n.1),
                    extension: None,
                })
            }),
        any::<(bool, u8, u8, u32)>().prop_map(|(reply, flags, link, reason)| {
            LlcMessage::DeleteLink(DeleteLink {
                reply,
                flags: DeleteLinkFlags::from_bits_truncate(flags),
                link: LinkNumber(link),
                reason: DeleteLinkReason(reason),
            })
        }),
        any::<(bool, [u8; 16])>()
            .prop_map(|(reply, user_data)| LlcMessage::TestLink(TestLink { reply, user_data })),
    ]
}

fn rtoken_messages() -> impl Strategy<Value = LlcMessage<'static>> {
    let reply = any::<bool>;
    let pair = (any::<u32>(), rtokens()).prop_map(|(reference, new)| RTokenPair {
        reference: RKey(reference),
        new,
    });
    // A full list may stand for a higher count.
    let more = |listed: usize, full: usize, extra: u8, most: u8| {
        let extra = if listed == full { extra } else { 0 };
        (listed as u8).saturating_add(extra).min(most)
    };
    prop_oneof![
        (reply(), any::<(u8, u8)>(), lists(pair, 0..=2)).prop_map(move |(reply, n, pairs)| {
            LlcMessage::AddLinkContinuation(AddLinkContinuation {
                reply,
                link: LinkNumber(n.0),
                remaining: more(pairs.len(), 2, n.1, 255),
                pairs,
            })
        }),
        (
            reply(),
            any::<(u8, u8)>(),
            rtokens(),
            lists(link_rtokens(), 0..=2)
        )
            .prop_map(move |(reply, n, rtoken, others)| {
                LlcMessage::ConfirmRkey(ConfirmRkey {
                    reply,
                    flags: RkeyFlags::from_bits_truncate(n.0),
                    rtoken,
                    other_links: more(others.len(), 2, n.1, 8),
                    others,
                })
            }),
        (any::<(bool, bool, u8)>(), lists(link_rtokens(), 1..=3)).prop_map(move |(n, others)| {
            LlcMessage::ConfirmRkeyContinuation(ConfirmRkeyContinuation {
                reply: n.0,
                flags: negative(n.1),
                remaining: more(others.len(), 3, n.2, 8),
                others,
            })
        }),
        (
            any::<(bool, bool, u8)>(),
            many(any::<u32>().prop_map(RKey), 1..=8)
        )
            .prop_map(|(n, rkeys)| {
                LlcMessage::DeleteRkey(DeleteRkey {
                    reply: n.0,
                    flags: negative(n.1),
                    unknown: n.2,
                    rkeys: Entries::inline(rkeys),
                })
            }),
    ]
}

fn negative(set: bool) -> RkeyFlags {
    if set {
        RkeyFlags::NEGATIVE
    } else {
        RkeyFlags::empty()
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses_to_the_same(
        message in prop_oneof![link_messages(), rtoken_messages()],
    ) {
        //= LLC-001 test
        //= LLC-071 test
        //= LLC-075 test
        let octets = message.emit_short(V1).unwrap();
        prop_assert_eq!(octets[1], 44);
        prop_assert_eq!(parse(&octets), Ok(message.clone()));
        let line = format!("{message}");
        prop_assert!(line.starts_with("LLC ") && !line.contains('\n'));
    }

    #[test]
    fn arbitrary_octets_are_a_message_or_a_typed_error(
        kind in prop_oneof![0..=10u8, any::<u8>()],
        length in prop_oneof![Just(44u8), any::<u8>()],
        rest in many(any::<u8>(), 0..64),
    ) {
        let octets: Vec<u8> = [kind, length].into_iter().chain(rest).collect();
        match parse(&octets) {
            Ok(message) => {
                let emitted = message.emit_short(V1).unwrap();
                prop_assert_eq!(parse(&emitted), Ok(message));
            }
            Err(error) => {
                let line = format!("{error}");
                prop_assert!(!line.is_empty());
            }
        }
    }
}
