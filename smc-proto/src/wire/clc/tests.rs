//! Captured messages, messages of a hostile peer, and laws.

use core::net::Ipv4Addr;
use std::format;
use std::vec::Vec;

use super::*;
use crate::wire::testing::hex;
use crate::wire::types::*;

mod hostile;
mod laws;
mod v2;

// Linux 6.12 to Linux 6.12: version-1 rendezvous, first contact.
const PROPOSAL: &str = "e2d4c3d901005c28 f664525400000002 00000000000000000000ffff0a090902
    525400000002 0028 0000000000000000 0000 0000 00000000000000000000000000000000000000000000000000000000
    0a090900 18 0000 00 e2d4c3d9";
const ACCEPT: &str = "e2d4c3d902004418 2a76525400000001 00000000000000000000ffff0a090901
    525400000001 000011 0000038d 01 00000001 23 00 ff229c8101f10000 00 ebaf60 e2d4c3d9";
const CONFIRM: &str = "e2d4c3d903004418 f664525400000002 00000000000000000000ffff0a090902
    525400000002 000011 00000390 01 00000001 23 00 ff229638c1f10000 00 5cb937 e2d4c3d9";
const CONFIRM_SUBSEQUENT: &str = "e2d4c3d903004410 f664525400000002
    00000000000000000000ffff0a090902 525400000002 000011 00000390 01 00000002 23 00
    ff229638c1f10000 00 5cb937 e2d4c3d9";
// Version 2: SMC-R alone with one EID, SMC-D alone, and the server's refusal.
const PROPOSAL_V2_SMCR: &str = "e2d4c3d901009c22 0000000000000000 00000000000000000000000000000000
    000000000000 0000 0000000000000000 0000 001c 00000000000000000000000000000000000000000000000000000000
    0100001000000000 00000000000000000000ffff0a090902 ff020001 000000000000000000000000
    4d592e544553542e554549442020202020202020202020202020202020202020 e2d4c3d9";
const PROPOSAL_V2_SMCD: &str = "e2d4c3d90100e026 0000000000000000 00000000000000000000000000000000
    000000000000 0000 0000000000000000 0000 001c 00000000000000000000000000000000000000000000000000000000
    0102001000000040 00000000000000000000000000000000 01000000 000000000000000000000000
    4d592e544553542e554549442020202020202020202020202020202020202020
    0000000000000000000000000000000000000000000000000000000000000000 00000000000000000000000000000000
    2d4db8350a696417ffff a62a6334e6439989ffff e2d4c3d9";
const DECLINE_V2: &str = "e2d4c3d904002c20 a523525400000001 03030000 20 000000
    00000000000000000000000000000000 e2d4c3d9";

/// The least Proposal of RFC 7609: IPv4, nothing to skip.
fn p1() -> Vec<u8> {
    hex(
        "E2D4C3D901003410 A65600163E0CCB04 00000000000000000000FFFF0A000001
         02163E0CCB04 0000 FFFFFF00 18 0000 00 E2D4C3D9",
    )
}

/// A Proposal that offers everything in both versions, 222 octets.
fn p2() -> Vec<u8> {
    let mut octets = hex(
        "E2D4C3D90100DE2F A65600163E0CCB04 00000000000000000000FFFF0A000001
         02163E0CCB04 0028 0102030405060708 C001 0024",
    );
    octets.extend([0; 28]);
    octets.extend(hex("FFFFFF00 18 0000 00 0101001000000040
         00000000000000000000FFFF0A000001 FF02"));
    octets.extend([0; 14]);
    octets.extend(*b"SMCV2-TEST-EID                  ");
    octets.extend([b' '; 32]);
    octets.extend([0; 16]);
    octets.extend(hex("0102030405060708 C001 E2D4C3D9"));
    assert_eq!(octets.len(), 222);
    octets
}

/// Parses all of `octets`.
fn parse(octets: &[u8]) -> Result<ClcMessage, ClcParseError> {
    let (message, length) = ClcMessage::parse(octets)?;
    assert_eq!(length, octets.len());
    Ok(message)
}

fn emit(message: &ClcMessage) -> Vec<u8> {
    let mut buffer = [0xaa; MAX_LENGTH];
    let length = message.emit(&mut buffer).unwrap();
    assert_eq!(length, message.encoded_len());
    assert_eq!(buffer[length..], [0xaa; MAX_LENGTH][length..]);
    let mut short = [0xaa; MAX_LENGTH];
    assert_eq!(
        message.emit(&mut short[..length - 1]),
        Err(BufferTooSmall { needed: length })
    );
    assert_eq!(short, [0xaa; MAX_LENGTH], "nothing may be written");
    buffer[..length].to_vec()
}

fn proposal(octets: &[u8]) -> Result<Proposal, ClcParseError> {
    match parse(octets)? {
        ClcMessage::Proposal(proposal) => Ok(proposal),
        other => panic!("{other}"),
    }
}

/// `octets` with `value` written at `offset`.
fn with<const N: usize>(octets: &[u8], offset: usize, value: [u8; N]) -> Vec<u8> {
    let mut octets = octets.to_vec();
    octets[offset..offset + N].copy_from_slice(&value);
    octets
}

#[test]
fn captured_messages_are_emitted_octet_for_octet() {
    //= V2-025 test
    //= D-011 test
    //= CLC-002 test
    //= CLC-003 test
    //= CLC-007 test
    //= CLC-009 test
    //= CLC-010 test
    //= CLC-013 test
    for text in [
        PROPOSAL,
        ACCEPT,
        CONFIRM,
        CONFIRM_SUBSEQUENT,
        PROPOSAL_V2_SMCR,
        PROPOSAL_V2_SMCD,
        DECLINE_V2,
    ] {
        let octets = hex(text);
        let message = parse(&octets).unwrap();
        assert_eq!(emit(&message), octets, "{message}");
    }
    assert_eq!(emit(&parse(&p1()).unwrap()), p1());
}

#[test]
fn the_fields_of_an_accept_stand_where_linux_puts_them() {
    //= CLC-016 test
    //= CLC-019 test
    //= CLC-032 test
    //= CLC-034 test
    //= CLC-036 test
    //= CLC-042 test
    let mac = Mac(hex("525400000001").try_into().unwrap());
    let accept = AcceptConfirm {
        first_contact: true,
        peer_id: PeerId::new(0x2a76, mac),
        gid: Gid(Ipv4Addr::new(10, 9, 9, 1).to_ipv6_mapped().octets()),
        mac,
        qpn: Qpn::new(0x11),
        rtoken: RToken {
            rkey: RKey(0x38d),
            address: 0xff22_9c81_01f1_0000,
        },
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(1),
        buffer_size: BufferSize::K64,
        mtu: Mtu::M1024,
        psn: Psn::new(0xeb_af60),
        v2: None,
    };
    assert_eq!(parse(&hex(ACCEPT)), Ok(ClcMessage::Accept(accept)));
}

#[test]
fn captured_messages_read_as_one_line() {
    //= CLC-021 test
    //= CLC-022 test
    //= CLC-031 test
    //= CLC-038 test
    //= CLC-039 test
    //= CLC-043 test
    for (text, line) in [
        (
            PROPOSAL,
            "CLC Proposal v2 peer f664@52:54:00:00:00:02 gid ::ffff:10.9.9.2 \
             mac 52:54:00:00:00:02 v1 SMC-R net 10.9.9.0/24",
        ),
        (
            ACCEPT,
            "CLC Accept v1 first-contact peer 2a76@52:54:00:00:00:01 gid ::ffff:10.9.9.1 \
             mac 52:54:00:00:00:01 qp 0x000011 rmb 0x0000038d@0xff229c8101f10000 rmbe 1 \
             token 0x00000001 size 64K mtu 1024 psn 0xebaf60",
        ),
        (
            CONFIRM_SUBSEQUENT,
            "CLC Confirm v1 subsequent-contact peer f664@52:54:00:00:00:02 gid ::ffff:10.9.9.2 \
             mac 52:54:00:00:00:02 qp 0x000011 rmb 0x00000390@0xff229638c1f10000 rmbe 1 \
             token 0x00000002 size 64K mtu 1024 psn 0x5cb937",
        ),
        (
            DECLINE_V2,
            "CLC Decline v2 peer a523@52:54:00:00:00:01 \
             diagnosis 0x03030000 (no SMC device found) os 0x2 (Linux)",
        ),
        (
            PROPOSAL_V2_SMCD,
            "CLC Proposal v2 peer 0000@00:00:00:00:00:00 gid :: mac 00:00:00:00:00:00 \
             v1 none net 0.0.0.0/0 v2 SMC-D release 1 gid :: eids [MY.TEST.UEID] max-conns 1 max-links 0 features 0x0000 \
             ism-gids [0x2d4db8350a696417/0xffff 0xa62a6334e6439989/0xffff]",
        ),
    ] {
        assert_eq!(format!("{}", parse(&hex(text)).unwrap()), line);
    }
    assert_eq!(
        format!("{}", parse(&p2()).unwrap()),
        "CLC Proposal v2 peer a656@00:16:3e:0c:cb:04 gid ::ffff:10.0.0.1 mac 02:16:3e:0c:cb:04 \
         v1 SMC-R+D net 255.255.255.0/24 ism 0x0102030405060708/0xc001 \
         v2 SMC-R+D release 1 gid ::ffff:10.0.0.1 eids [SMCV2-TEST-EID] max-conns 255 max-links 2 \
         features 0x0000 ism-gids [0x0102030405060708/0xc001]"
    );
}

#[test]
fn an_offer_of_version_2_is_reported_and_its_version_1_part_usable() {
    let smcr = proposal(&hex(PROPOSAL_V2_SMCR)).unwrap();
    let offer = smcr.v2_offer.clone().unwrap();
    assert_eq!(smcr.v1, OfferedPath::Neither);
    assert_eq!(
        (offer.path, offer.release),
        (OfferedPath::SmcR, Release::V2_1)
    );
    assert_eq!(offer.eids[..], [Eid::user("MY.TEST.UEID").unwrap()]);
    assert_eq!((offer.max_connections, offer.max_links), (255, 2));
    assert_eq!(offer.features, FeatureMask::EMULATED_ISM);
    assert_eq!(smcr.ism_gids().count(), 0);

    let both = proposal(&p2()).unwrap();
    assert!(both.v1.has_smcr() && both.v1.has_smcd());
    assert_eq!(both.subnets.network, Ipv4Addr::new(255, 255, 255, 0));
    assert_eq!(both.subnets.prefix_length, 24);
    let device = IsmGid {
        gid: 0x0102_0304_0506_0708,
        gid_ext: 0,
        chid: Chid(0xc001),
    };
    let IsmGid { gid, chid, .. } = device;
    assert_eq!(both.ism, Some(IsmArea { gid, chid }));
    //= D-012 test
    assert_eq!(both.ism_gids().collect::<Vec<_>>(), [device, device]);
    assert_eq!(both.v2_offer.as_ref().unwrap().smcd.seid, None);
    // The system EID without its flag is not kept; the rest is.
    let emitted = emit(&ClcMessage::Proposal(both.clone()));
    assert_eq!(proposal(&emitted), Ok(both));
    let mut expected = p2();
    expected[160..192].fill(0);
    assert_eq!(emitted, expected);
}

#[test]
fn every_type_and_version_is_judged_by_the_header() {
    //= V2-001 test
    //= V2-003 test
    //= V2-005 test
    //= CLC-009 test
    let mut octets = p1();
    for kind in 0..=u8::MAX {
        for octet in 0..=u8::MAX {
            for length in [28u16, 44, 68, 92] {
                octets[4] = kind;
                octets[5..7].copy_from_slice(&length.to_be_bytes());
                octets[7] = octet;
                let result = ClcHeader::parse(&octets);
                let version = octet >> 4;
                let fine = match (kind, version) {
                    (1..=4, 0) => result == Err(ClcParseError::VersionZero),
                    (2 | 3, _) if octet & 2 != 0 => {
                        matches!(result, Err(ClcParseError::UnknownTechnology { .. }))
                    }
                    (2 | 3, 2..) if octet & 1 != 0 => result.is_ok() == (length == 92),
                    (2 | 3, 2..) => result.is_err(),
                    (2 | 3, 1) if octet & 1 != 0 => result.is_err(),
                    (1, _) => result.is_ok() == (length == 92 || (version == 1 && length == 68)),
                    (2 | 3, _) => result.is_ok() == (length == 68),
                    (4, 1) => result.is_ok() == (length == 28),
                    (4, _) => result.is_ok() == (length == 44),
                    _ => result == Err(ClcParseError::UnknownType { kind }),
                };
                assert!(fine, "{kind} {octet:02x} {length} {result:?}");
                if let Ok(header) = result {
                    assert_eq!(header.version.number(), version);
                    assert_eq!(header.flags, octet & 0x0f);
                }
            }
        }
    }
}

#[test]
fn both_eye_catchers_are_verified_in_every_message() {
    //= CLC-002 test
    //= CLC-003 test
    //= CLC-004 test
    for octets in samples() {
        for offset in [0, octets.len() - 4] {
            for index in offset..offset + 4 {
                let mut broken = octets.clone();
                broken[index] ^= 0x0d;
                assert!(matches!(
                    ClcMessage::parse(&broken),
                    Err(ClcParseError::EyeCatcher { offset: at, .. }) if at == offset
                ));
            }
        }
    }
}

#[test]
fn every_truncation_names_what_is_needed_and_nothing_behind_is_read() {
    //= CASE-H10 test
    //= CLC-014 test
    //= CLC-015 test
    for octets in samples() {
        let whole = parse(&octets).unwrap();
        for have in 0..octets.len() {
            let needed = if have < 8 { 8 } else { octets.len() };
            assert_eq!(
                ClcMessage::parse(&octets[..have]),
                Err(ClcParseError::TooShort { have, needed })
            );
        }
        let mut longer = octets.clone();
        longer.extend(&octets);
        assert_eq!(ClcMessage::parse(&longer), Ok((whole, octets.len())));
    }
}

#[test]
fn bug_6_12_48_reserved_bits_are_accepted_and_not_kept() {
    //= CASE-A10 test
    //= CLC-005 test
    //= CLC-006 test
    // Octet and mask of what is reserved, ranges as single octets.
    let accept: Vec<(usize, u8)> = [(7, 0x04), (51, 0xff), (60, 0xff)].into();
    let mut decline: Vec<(usize, u8)> = [(7, 0x07), (20, 0x0f)].into();
    decline.extend((21..40).map(|at| (at, 0xff)));
    let mut linux: Vec<(usize, u8)> = [(85, 0xff), (86, 0xff)].into();
    linux.extend((40..80).map(|at| (at, 0xff)));
    let plain: Vec<(usize, u8)> = [(7, 0x0c), (45, 0xff), (46, 0xff)].into();
    for (octets, reserved) in [
        (hex(ACCEPT), accept.clone()),
        (hex(CONFIRM), accept),
        (hex(DECLINE_V2), decline),
        (hex(PROPOSAL), linux),
        (p1(), plain),
    ] {
        let message = parse(&octets).unwrap();
        for (at, mask) in reserved {
            for bit in (0..8).map(|bit| 1u8 << bit).filter(|bit| bit & mask != 0) {
                let mut other = octets.clone();
                other[at] ^= bit;
                let read = parse(&other).unwrap();
                assert_eq!(read, message, "octet {at} bit {bit:02x}");
                assert_eq!(emit(&read), octets);
            }
        }
    }
}

#[test]
fn skipped_octets_are_skipped_and_not_sent_again() {
    //= CLC-026 test
    //= CLC-027 test
    let plain = proposal(&p1()).unwrap();
    for skip in 0..=40u8 {
        let mut octets = p1();
        octets[6] += skip;
        octets[39] = skip;
        for _ in 0..skip {
            octets.insert(40, 0x5a);
        }
        assert_eq!(proposal(&octets).unwrap(), plain);
        // The same from a peer that offers SMC-D: 40 octets are its device.
        octets[7] = 0x11;
        assert_eq!(proposal(&octets).unwrap().ism.is_some(), skip == 40);
    }
    assert_eq!(emit(&ClcMessage::Proposal(plain)), p1());
}

#[test]
fn a_decline_of_version_1_has_diagnosis_and_out_of_sync() {
    //= CLC-019 test
    //= CLC-044 test
    //= CLC-045 test
    let octets = hex("e2d4c3d904001c18 f664525400000002 04000000 00000000 e2d4c3d9");
    let decline = Decline {
        version: ClcVersion::V1,
        out_of_sync: true,
        peer_id: PeerId(hex("f664525400000002").try_into().unwrap()),
        diagnosis: DiagnosisCode::OUT_OF_SYNC,
        os: PeerOs::UNKNOWN,
    };
    assert_eq!(parse(&octets), Ok(ClcMessage::Decline(decline)));
    assert_eq!(emit(&ClcMessage::Decline(decline)), octets);
}

#[test]
fn ipv6_prefixes_are_17_octets_each() {
    //= CLC-011 test
    //= CLC-023 test
    //= CLC-025 test
    for n in 0..=8u8 {
        let mut octets = p1();
        octets[6] += 17 * n;
        octets[40..45].fill(0);
        octets[47] = n;
        for i in (0..n).rev() {
            let mut entry = hex("20010db8000000000000000000000000 40");
            entry[7] = i;
            octets.splice(48..48, entry);
        }
        let read = proposal(&octets).unwrap();
        assert_eq!(octets.len(), 52 + 17 * usize::from(n));
        assert_eq!(read.subnets.ipv6.len(), usize::from(n));
        for (i, prefix) in read.subnets.ipv6.iter().enumerate() {
            assert_eq!(
                format!("{}", prefix.address),
                if i == 0 {
                    "2001:db8::".into()
                } else {
                    format!("2001:db8:0:{i}::")
                }
            );
            assert_eq!(prefix.length, 64);
        }
        assert_eq!(emit(&ClcMessage::Proposal(read)), octets);
    }
}

#[test]
fn an_address_is_in_a_network_if_all_its_bits_are() {
    //= RENDEZVOUS-004 test
    //= RENDEZVOUS-005 test
    let of_ipv4 = |network: [u8; 4], prefix_length| Subnets {
        network: network.into(),
        prefix_length,
        ipv6: BoundedList::new(),
    };
    let local = core::net::IpAddr::from([10, 1, 2, 3]);
    for (network, length, expected) in [
        ([10, 1, 2, 0], 24, true),
        ([10, 1, 3, 0], 24, false),
        ([10, 1, 3, 0], 23, true),
        ([10, 1, 2, 3], 32, true),
        ([10, 1, 2, 2], 32, false),
        ([138, 1, 2, 3], 1, false),
        // Host bits may be anything; no length and one that is too long are none.
        ([10, 1, 2, 255], 24, true),
        ([10, 1, 2, 3], 0, false),
        ([10, 1, 2, 3], 33, false),
        ([10, 1, 2, 3], 255, false),
    ] {
        let subnets = of_ipv4(network, length);
        assert_eq!(subnets.contain(local), expected, "{subnets}");
    }

    let mut subnets = of_ipv4([10, 1, 2, 0], 24);
    let local = |first: u16, last| core::net::IpAddr::from([first, 0, 0, 0, 0, 0, 0, last]);
    assert!(!subnets.contain(local(0xfe80, 1)), "no prefix");
    for (first, length) in [(0x2001, 16), (0xfe80, 128), (0xfd00, 0), (0xfc00, 129)] {
        let address = [first, 0, 0, 0, 0, 0, 0, 1].into();
        subnets.ipv6.push(Ipv6Prefix { address, length }).unwrap();
    }
    for (first, last, expected) in [
        (0x2001, 7, true),
        (0x2002, 7, false),
        (0xfe80, 1, true),
        (0xfe80, 2, false),
        (0xfd00, 1, false),
        (0xfc00, 1, false),
    ] {
        assert_eq!(subnets.contain(local(first, last)), expected, "{first:x}");
    }
}

/// One of each form.
fn samples() -> Vec<Vec<u8>> {
    [
        PROPOSAL,
        ACCEPT,
        CONFIRM,
        CONFIRM_SUBSEQUENT,
        PROPOSAL_V2_SMCR,
        PROPOSAL_V2_SMCD,
        DECLINE_V2,
    ]
    .into_iter()
    .map(hex)
    .chain([p1(), p2()])
    .collect()
}
