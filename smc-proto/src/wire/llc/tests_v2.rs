//! Layouts, lengths and counts of LLC version 2.

use std::format;
use std::vec;
use std::vec::Vec;

use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;
use crate::wire::testing::hex;
use crate::wire::types::*;

const V2: SmcVersion = SmcVersion::V2;

fn parse(octets: &[u8]) -> Result<LlcMessage<'_>, LlcParseError> {
    LlcMessage::parse(octets, V2)
}

/// Octets, how they read, and how long the message is: zeros fill it.
const MADE: [(&str, &str, usize); 12] = [
    (
        "21002c03 525400000001 00000000000000000000ffff0a090901 000011 01 00000101 02 ff",
        "LLC v2 CONFIRM LINK request link 1 mac 52:54:00:00:00:01 gid ::ffff:10.9.9.1 \
         qp 0x000011 uid 0x00000101 max-links 2 max-conns 255 no-eye-catcher",
        44,
    ),
    (
        "22006800 525400000101 0000 00000000000000000000ffff0a090801 000011 02 03 fd13b4
         0000000000000000 80 00 00000000000000000000ffff0a090801 0000000000000000 0202
         0000030f 000003cd ff264f8d04340000 00000310 000003ce ff264f8d04350000",
        "LLC v2 ADD LINK request link 2 mac 52:54:00:00:01:01 gid ::ffff:10.9.8.1 qp 0x000011 \
         mtu 1024 psn 0xfd13b4 direct target ::ffff:10.9.8.1 \
         rtokens [0x0000030f=0x000003cd@0xff264f8d04340000 0x00000310=0x000003ce@0xff264f8d04350000]",
        104,
    ),
    (
        "22004880 525400000102 0000 00000000000000000000ffff0a090802 000011 02 03 244e0c
         0000000000000000 00 00 00000000000000000000ffff0a090802",
        "LLC v2 ADD LINK reply link 2 mac 52:54:00:00:01:02 gid ::ffff:10.9.8.2 qp 0x000011 \
         mtu 1024 psn 0x244e0c target ::ffff:10.9.8.2 rtokens []",
        72,
    ),
    (
        "22002cc0 525400000001 0000 00000000000000000000ffff0a090901 000012 02 03 b5b017",
        "LLC v2 ADD LINK reply link 2 mac 52:54:00:00:00:01 gid ::ffff:10.9.9.1 qp 0x000012 \
         mtu 1024 psn 0xb5b017 rejected 0x0 (unspecified)",
        44,
    ),
    (
        "24002c40 00 00030000",
        "LLC v2 DELETE LINK request all link 0 at-once reason 0x00030000 (program or inactivity)",
        44,
    ),
    (
        "25003c00 0000000000000000000000000000000000000000 02 000000
         00000000000000000000ffff0a090902 00000000000000000000ffff0a090802",
        "LLC v2 REQUEST ADD LINK request gids [::ffff:10.9.9.2 ::ffff:10.9.8.2]",
        60,
    ),
    ("25002c80", "LLC v2 REQUEST ADD LINK reply gids []", 44),
    (
        "26002c00 01 0000030f ff264f8d04340000 02 000003cd ff264f8d04340000",
        "LLC v2 CONFIRM RKEY request rmb 0x0000030f@0xff264f8d04340000 other-links 1 \
         [2:0x000003cd@0xff264f8d04340000]",
        44,
    ),
    (
        "27002c80 000102030405060708090a0b0c0d0e0f",
        "LLC v2 TEST LINK reply data 000102030405060708090a0b0c0d0e0f",
        44,
    ),
    (
        "29002c00 01 00 0000 0000038d",
        "LLC v2 DELETE RKEY request rkeys [0x0000038d] unknown 0",
        44,
    ),
    (
        "29002ca0 02 01 0000 0000038d 0000038e",
        "LLC v2 DELETE RKEY reply rkeys [0x0000038d 0x0000038e] negative unknown 1",
        44,
    ),
    (
        "29003000 0a 00 0000 00000001 00000002 00000003 00000004 00000005 00000006 00000007
         00000008 00000009 0000000a",
        "LLC v2 DELETE RKEY request rkeys [0x00000001 0x00000002 0x00000003 0x00000004 \
         0x00000005 0x00000006 0x00000007 0x00000008 0x00000009 0x0000000a] unknown 0",
        48,
    ),
];

fn made() -> Vec<Vec<u8>> {
    MADE.iter()
        .map(|(text, _, length)| {
            let mut octets = hex(text);
            octets.resize(*length, 0);
            octets
        })
        .collect()
}

fn emit(message: &LlcMessage<'_>) -> Vec<u8> {
    let length = message.encoded_len(V2);
    let mut short = vec![0xaa; length - 1];
    let error = message.emit(V2, &mut short).unwrap_err();
    assert_eq!(error.needed, length);
    assert!(short.iter().all(|octet| *octet == 0xaa));
    let mut buffer = vec![0xaa; length + 3];
    assert_eq!(message.emit(V2, &mut buffer), Ok(length));
    assert_eq!(buffer.split_off(length), [0xaa; 3]);
    buffer
}

fn with(octets: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut octets = octets.to_vec();
    octets[at] = value;
    octets
}

#[test]
fn every_message_reads_as_one_line_and_is_emitted_octet_for_octet() {
    //= V2-150 test
    //= V2-152 test
    //= V2-153 test
    //= V2-154 test
    //= V2-156 test
    //= V2-158 test
    //= V2-159 test
    //= V2-160 test
    //= V2-161 test
    for (octets, (_, line, length)) in made().iter().zip(MADE) {
        let message = parse(octets).unwrap();
        assert_eq!(format!("{}", message.display(V2)), line);
        assert_eq!(emit(&message), *octets, "{message}");
        assert_eq!(
            (message.encoded_len(V2), message.kind(V2)),
            (length, octets[0])
        );
        assert_eq!(message.is_reply(), octets[3] & 0x80 != 0);
    }
    assert!(size_of::<LlcMessage<'_>>() <= 128);
}

#[test]
fn the_length_is_good_if_either_order_makes_it_44() {
    //= CASE-D04 test
    //= V2-151 test
    for octets in made() {
        let read = parse(&octets);
        for length in 0..=u16::MAX {
            let [high, low] = length.to_be_bytes();
            let other = with(&with(&octets, 1, high), 2, low);
            let result = parse(&other);
            if length >= 44 || length.swap_bytes() >= 44 {
                assert_eq!(result, read);
            } else {
                assert_eq!(result, Err(LlcParseError::BadLengthV2 { length }));
            }
        }
    }
}

#[test]
fn every_type_is_version_2_or_an_error() {
    //= V2-150 test
    //= V2-162 test
    let octets = &made()[9];
    // No length makes a message of another type, or one of less than 44 octets.
    for kind in 0..=u8::MAX {
        for have in 1..=64 {
            let mut zeros = [0; 64];
            (zeros[0], zeros[2], zeros[4]) = (kind, 44, 1);
            let result = parse(&zeros[..have]);
            match kind {
                0x21 | 0x22 | 0x24..=0x27 | 0x29 if have < 44 => {
                    assert_eq!(result, Err(LlcParseError::TooShort { have }));
                }
                0x22 if (45..72).contains(&have) => assert!(result.is_err()),
                0x21 | 0x22 | 0x24..=0x27 | 0x29 => assert_eq!(result.unwrap().kind(V2), kind),
                _ => assert!(result.is_err()),
            }
        }
    }
    for kind in 0..=u8::MAX {
        let other = with(octets, 0, kind);
        let result = parse(&other);
        match kind {
            0x21 | 0x22 | 0x24..=0x27 | 0x29 => assert_eq!(result.unwrap().kind(V2), kind),
            0x80..=0xbf => assert_eq!(result, Err(LlcParseError::UnknownOptional { kind })),
            0xc0..=0xff => assert_eq!(result, Err(LlcParseError::Cdc { kind })),
            _ => assert_eq!(result, Err(LlcParseError::UnknownMandatory { kind })),
        }
    }
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_list() {
    //= V2-155 test
    //= V2-157 test
    //= V2-158 test
    for octets in made() {
        for have in 0..octets.len() {
            let cut = &octets[..have];
            let result = parse(cut);
            match (octets[0], have) {
                (_, ..44) => assert_eq!(result, Err(LlcParseError::TooShort { have })),
                (0x22, 44) => assert!(matches!(
                    result,
                    Ok(LlcMessage::AddLink(AddLink {
                        extension: None,
                        ..
                    }))
                )),
                (0x22, ..72) => assert_eq!(result, Err(LlcParseError::ShortExtension { have })),
                (0x22, _) => {
                    let Ok(LlcMessage::AddLink(message)) = result else {
                        panic!("{have}")
                    };
                    assert_eq!(message.extension.unwrap().rtokens.len(), (have - 72) / 16);
                }
                (0x25, _) => {
                    let Ok(LlcMessage::RequestAddLink(message)) = result else {
                        panic!("{have}")
                    };
                    assert_eq!(message.gids.len(), (have - 28) / 16);
                }
                _ => assert!(matches!(result, Err(LlcParseError::CountOutOfRange { .. }))),
            }
        }
    }
}

#[test]
fn the_count_of_rtokens_is_sent_in_both_octets_and_not_believed() {
    //= CASE-D04 test
    //= V2-155 test
    let octets = made().swap_remove(1);
    let read = parse(&octets);
    for count in 0..=u16::MAX {
        let [high, low] = count.to_be_bytes();
        let other = with(&with(&octets, 70, high), 71, low);
        assert_eq!(parse(&other), read);
    }
    let Ok(LlcMessage::AddLink(link)) = read else {
        panic!()
    };
    for count in 0..600usize {
        let pairs: Vec<RTokenPair> = (0..count as u32)
            .map(|n| RTokenPair {
                reference: RKey(n),
                ..RTokenPair::default()
            })
            .collect();
        let extension = Some(AddLinkExtension {
            rtokens: pairs.as_slice().into(),
            ..AddLinkExtension::default()
        });
        let octets = emit(&LlcMessage::AddLink(AddLink { extension, ..link }));
        let sent = count.min(507);
        assert_eq!(octets.len(), 72 + 16 * sent);
        assert_eq!(octets[70..72], [count.min(255) as u8; 2]);
        let Ok(LlcMessage::AddLink(again)) = parse(&octets) else {
            panic!()
        };
        let rtokens = again.extension.unwrap().rtokens;
        assert!(rtokens.iter().eq(pairs.iter().take(507).copied()));
        assert_eq!(rtokens.is_empty(), count == 0);
    }
}

#[test]
fn every_count_of_keys_links_and_gids_is_bounded_by_the_message() {
    //= CASE-D02 test
    //= V2-158 test
    //= V2-159 test
    //= V2-160 test
    let [request, confirm, delete, ten] = [5, 7, 9, 11].map(|at| made().swap_remove(at));
    for count in 0..=u8::MAX {
        let octets = with(&request, 24, count);
        let Ok(LlcMessage::RequestAddLink(message)) = parse(&octets) else {
            panic!()
        };
        assert_eq!(message.gids.len(), usize::from(count.min(2)));

        let octets = with(&confirm, 4, count);
        assert_eq!(parse(&octets).is_ok(), count <= 2);

        for (octets, most) in [(&delete, 9), (&ten, 10)] {
            let octets = with(octets, 4, count);
            match parse(&octets) {
                Ok(LlcMessage::DeleteRkey(message)) => {
                    assert_eq!(message.rkeys.len(), usize::from(count));
                    assert!((1..=most).contains(&count));
                }
                result => {
                    assert!(!(1..=most).contains(&count));
                    let error = LlcParseError::CountOutOfRange {
                        kind: 0x29,
                        count,
                        least: 1,
                        most,
                    };
                    assert_eq!(result, Err(error));
                }
            }
        }
    }
    // What a message cannot carry is not sent.
    let keys: Vec<RKey> = (0..300).map(RKey).collect();
    let octets = emit(&LlcMessage::DeleteRkey(DeleteRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        unknown: 0,
        rkeys: keys.as_slice().into(),
    }));
    assert_eq!((octets.len(), octets[4]), (8 + 4 * 255, 255));
    let gids: Vec<Gid> = (0..300u16).map(|n| Gid([n as u8; 16])).collect();
    let octets = emit(&LlcMessage::RequestAddLink(RequestAddLink {
        reply: false,
        rejected: false,
        gids: gids.as_slice().into(),
    }));
    assert_eq!((octets.len(), octets[24]), (28 + 16 * 255, 255));
}

#[test]
fn nothing_behind_the_longest_message_is_read() {
    //= V2-152 test
    let mut octets = made().swap_remove(1);
    octets.resize(9000, 0x5a);
    let read = parse(&octets).unwrap();
    assert_eq!(read.encoded_len(V2), 72 + 16 * 507);
    assert_eq!(parse(&octets[..8192]), Ok(read));
}

#[test]
fn only_a_message_of_44_octets_is_short() {
    let mut shorts = 0;
    for octets in made() {
        let message = parse(&octets).unwrap();
        let short = message.emit_short(V2);
        match octets.len() {
            44 => assert_eq!(short.map(|short| short.to_vec()), Some(octets.clone())),
            _ => assert_eq!(short, None, "{message}"),
        }
        shorts += usize::from(short.is_some());
    }
    assert!((1..MADE.len()).contains(&shorts), "both lengths");
}

#[test]
fn version_1_keeps_its_own_form() {
    //= V2-165 test
    let LlcMessage::ConfirmLink(confirm) = parse(&made()[0]).unwrap() else {
        panic!()
    };
    let octets = LlcMessage::ConfirmLink(confirm)
        .emit_short(SmcVersion::V1)
        .unwrap();
    assert_eq!((octets[0], octets[1], octets[35]), (1, 44, 0));
    let Ok(LlcMessage::ConfirmLink(read)) =
        LlcMessage::parse(&with(&octets, 35, 9), SmcVersion::V1)
    else {
        panic!()
    };
    assert_eq!(read.max_connections, 0);
    assert_eq!(
        parse(&octets),
        Err(LlcParseError::UnknownMandatory { kind: 1 })
    );
    assert_eq!(
        LlcMessage::parse(&made()[0][..44], SmcVersion::V1),
        Err(LlcParseError::UnknownMandatory { kind: 0x21 })
    );
}

fn rtoken() -> impl Strategy<Value = RToken> {
    any::<(u32, u64)>().prop_map(|(rkey, address)| RToken {
        rkey: RKey(rkey),
        address,
    })
}

type Ends = (bool, [u8; 6], [u8; 16], u32, u8);

fn common() -> impl Strategy<Value = LlcMessage<'static>> {
    let others = many((any::<u8>(), rtoken()), 0..=2);
    prop_oneof![
        any::<(Ends, u8, u32, u8, u8)>().prop_map(|(end, flags, uid, links, connections)| {
            LlcMessage::ConfirmLink(ConfirmLink {
                reply: end.0,
                flags: ConfirmLinkFlags::from_bits_truncate(flags),
                mac: Mac(end.1),
                gid: Gid(end.2),
                qpn: Qpn::new(end.3),
                link: LinkNumber(end.4),
                user_id: LinkUserId(uid),
                max_links: links,
                max_connections: connections,
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
        (any::<(bool, u8)>(), rtoken(), others).prop_map(|(n, rtoken, others)| {
            LlcMessage::ConfirmRkey(ConfirmRkey {
                reply: n.0,
                flags: RkeyFlags::from_bits_truncate(n.1),
                rtoken,
                other_links: others.len() as u8,
                others: others
                    .into_iter()
                    .map(|(link, rtoken)| LinkRToken {
                        link: LinkNumber(link),
                        rtoken,
                    })
                    .collect(),
            })
        }),
    ]
}

fn check(message: &LlcMessage<'_>) {
    let octets = emit(message);
    assert_eq!(octets[1..3], (octets.len() as u16).to_be_bytes());
    assert_eq!(parse(&octets).as_ref(), Ok(message));
    let line = format!("{}", message.display(V2));
    assert!(line.starts_with("LLC v2 ") && !line.contains('\n'));
}

proptest! {
    #[test]
    fn what_is_emitted_parses_to_the_same(message in common()) {
        check(&message);
    }

    #[test]
    fn add_link_round_trips(
        (end, rejected, mtu, psn) in any::<(Ends, bool, u8, u32)>(),
        pairs in many((any::<u32>(), rtoken()), 0..40),
        extension in any::<Option<(bool, [u8; 16])>>(),
    ) {
        let pairs: Vec<RTokenPair> = pairs
            .into_iter()
            .map(|(reference, new)| RTokenPair { reference: RKey(reference), new })
            .collect();
        check(&LlcMessage::AddLink(AddLink {
            reply: end.0,
            rejection: rejected.then_some(AddLinkRejectReason::UNSPECIFIED),
            mac: Mac(end.1),
            gid: Gid(end.2),
            qpn: Qpn::new(end.3),
            link: LinkNumber(end.4),
            mtu: Mtu::from_code(mtu),
            psn: Psn::new(psn),
            extension: extension.map(|(direct, gid)| AddLinkExtension {
                direct,
                target_gid: Gid(gid),
                rtokens: pairs.as_slice().into(),
            }),
        }));
    }

    #[test]
    fn lists_round_trip(
        (reply, negative, unknown) in any::<(bool, bool, u8)>(),
        keys in many(any::<u32>().prop_map(RKey), 1..=255),
        gids in many(any::<[u8; 16]>().prop_map(Gid), 0..=255),
    ) {
        check(&LlcMessage::DeleteRkey(DeleteRkey {
            reply,
            flags: if negative { RkeyFlags::NEGATIVE } else { RkeyFlags::empty() },
            unknown,
            rkeys: keys.as_slice().into(),
        }));
        check(&LlcMessage::RequestAddLink(RequestAddLink {
            reply,
            rejected: negative,
            gids: gids.as_slice().into(),
        }));
    }

    #[test]
    fn arbitrary_octets_are_a_message_or_a_typed_error(
        mut octets in many(any::<u8>(), 1..200),
        kind in prop::option::of(0x20..0x2au8),
    ) {
        octets[0] = kind.unwrap_or(octets[0]);
        match parse(&octets) {
            Ok(message) => check(&message),
            Err(error) => {
                let line = format!("{error}");
                prop_assert!(!line.is_empty());
            }
        }
    }
}
