//! Version 2 and SMC-D: layouts, lengths, and what hostile octets do.

use super::*;

/// 32 octets of text padded with blanks, as hexadecimal.
fn text(text: &str) -> std::string::String {
    format!("{text:32}")
        .bytes()
        .map(|b| format!("{b:02x}"))
        .collect()
}

fn accept_v2() -> Vec<u8> {
    hex(&[
        "e2d4c3d90200a028 2a76525400000001 00000000000000000000ffff0a090901 525400000001 000011",
        "0000038d 01 00000001 23 00 ff229c8101f10000 00 ebaf60",
        &text("MY.TEST.UEID"),
        "0000000000000000 80 21 0000",
        &text("server"),
        "ff 02 0001 00000000 0000000000000000 e2d4c3d9",
    ]
    .concat())
}

fn confirm_v2() -> Vec<u8> {
    let mut octets = accept_v2();
    octets[4] = 3;
    octets[5..7].copy_from_slice(&196u16.to_be_bytes());
    let gids = hex("02000000 00000000000000000000ffff0a090902 00000000000000000000ffff0a090802");
    octets.splice(156..156, gids);
    octets
}

fn smcd_accept(release: u8) -> Vec<u8> {
    let (length, limits) = match release {
        0 => ("0072", ""),
        _ => ("0082", "0000 0001 00000000 0000000000000000"),
    };
    hex(&[
        "e2d4c3c402",
        length,
        "29 2d4db8350a696417 0123456789abcdef 00 20 0000 00000100 ffff",
        &text("MY.TEST.UEID"),
        "a62a6334e6439989 00",
        &format!("2{release} 0000"),
        &text("server"),
        limits,
        "e2d4c3c4",
    ]
    .concat())
}

fn smcd_v1() -> Vec<u8> {
    let mut octets = hex("e2d4c3c402003019 2d4db8350a696417 0123456789abcdef 00 20 0000 00000100");
    octets.extend([0; 12]);
    octets.extend(EYE_CATCHER_SMCD);
    octets
}

/// Without the parts of a first contact.
fn subsequent(first: &[u8], length: usize) -> Vec<u8> {
    let mut octets = first[..length - 4].to_vec();
    octets.extend(&first[first.len() - 4..]);
    octets[5..7].copy_from_slice(&(length as u16).to_be_bytes());
    octets[7] &= !0x08;
    octets
}

fn whole() -> Vec<Vec<u8>> {
    [
        accept_v2(),
        confirm_v2(),
        subsequent(&accept_v2(), 108),
        smcd_accept(0),
        smcd_accept(1),
        subsequent(&smcd_accept(1), 78),
        smcd_v1(),
    ]
    .into()
}

#[test]
fn messages_of_version_2_read_as_one_line_and_are_emitted_octet_for_octet() {
    //= D-003 test
    //= V2-050 test
    //= V2-052 test
    //= V2-053 test
    //= D-020 test
    //= D-021 test
    //= D-022 test
    //= D-024 test
    let smcr = "peer 2a76@52:54:00:00:00:01 gid ::ffff:10.9.9.1 mac 52:54:00:00:00:01 qp 0x000011 \
                rmb 0x0000038d@0xff229c8101f10000 rmbe 1 token 0x00000001 size 64K mtu 1024 \
                psn 0xebaf60 eid MY.TEST.UEID";
    let stated = "os 0x2 (Linux) release 1 host server max-conns 255 max-links 2 features 0x0001";
    let smcd = "gid 0x2d4db8350a696417 dmb 0x0123456789abcdef dmbe 0 size 64K link-id 00000100";
    let v2 = "chid 0xffff gid-ext 0xa62a6334e6439989 eid MY.TEST.UEID";
    let lines = [
        format!("CLC Accept v2 first-contact {smcr} direct {stated}"),
        format!(
            "CLC Confirm v2 first-contact {smcr} direct {stated} \
             gids [::ffff:10.9.9.2 ::ffff:10.9.8.2]"
        ),
        format!("CLC Accept v2 subsequent-contact {smcr}"),
        format!(
            "CLC Accept SMC-D v2 first-contact {smcd} {v2} os 0x2 (Linux) release 0 host server"
        ),
        format!(
            "CLC Accept SMC-D v2 first-contact {smcd} {v2} os 0x2 (Linux) release 1 host server \
             max-conns 0 max-links 0 features 0x0001"
        ),
        format!("CLC Accept SMC-D v2 subsequent-contact {smcd} {v2}"),
        format!("CLC Accept SMC-D v1 first-contact {smcd}"),
    ];
    for (octets, line) in whole().into_iter().zip(lines) {
        let message = parse(&octets).unwrap();
        assert_eq!(format!("{message}"), line);
        assert_eq!(emit(&message), octets);
        assert_eq!(message.kind() as u8, octets[4]);
    }
    assert_eq!(
        whole().iter().map(Vec::len).collect::<Vec<_>>(),
        [160, 196, 108, 114, 130, 78, 48]
    );
}

#[test]
fn either_eye_catcher_is_taken_at_either_end() {
    //= V2-004 test
    for octets in samples().into_iter().chain(whole()) {
        let message = parse(&octets).unwrap();
        let again = emit(&message);
        for start in [EYE_CATCHER, EYE_CATCHER_SMCD] {
            for end in [EYE_CATCHER, EYE_CATCHER_SMCD] {
                let other = with(&with(&octets, 0, start), octets.len() - 4, end);
                assert_eq!(parse(&other), Ok(message.clone()));
            }
        }
        let smcd = matches!(
            message,
            ClcMessage::SmcdAccept(_) | ClcMessage::SmcdConfirm(_)
        );
        let sent = if smcd { EYE_CATCHER_SMCD } else { EYE_CATCHER };
        assert_eq!(
            (&again[..4], &again[again.len() - 4..]),
            (&sent[..], &sent[..])
        );
    }
}

#[test]
fn a15_every_length_reads_what_the_flags_announce_or_is_an_error() {
    //= CASE-A15 test
    //= V2-055 test
    //= D-025 test
    for octets in whole() {
        let version = octets[7] >> 4;
        let own = octets.len();
        let read = parse(&octets).unwrap();
        for length in 0..=700usize {
            let mut other = octets[..own - 4].to_vec();
            other.resize(length.max(12) - 4, 0x5a);
            other.extend(EYE_CATCHER);
            other[5..7].copy_from_slice(&(length as u16).to_be_bytes());
            let result = ClcMessage::parse(&other);
            let fits = match version {
                1 => length == own,
                _ => (own..=MAX_LENGTH).contains(&length),
            };
            match result {
                Ok((message, taken)) => assert!(fits && taken == length && message == read),
                Err(error) => {
                    assert!(!fits, "{length}: {error}");
                    assert!(matches!(error, ClcParseError::BadLength { .. }));
                }
            }
        }
    }
}

#[test]
fn every_truncation_asks_for_the_rest() {
    //= V2-080 test
    for octets in samples().into_iter().chain(whole()) {
        for have in 0..octets.len() {
            let needed = if have < 8 { 8 } else { octets.len() };
            assert_eq!(
                ClcMessage::parse(&octets[..have]),
                Err(ClcParseError::TooShort { have, needed })
            );
        }
        let mut longer = octets.clone();
        longer.extend([0xff; 9]);
        assert_eq!(
            ClcMessage::parse(&longer),
            Ok((parse(&octets).unwrap(), octets.len()))
        );
    }
}

#[test]
fn the_number_of_gids_in_a_confirm_is_bounded_by_its_length() {
    //= CASE-H11 test
    //= V2-053 test
    let octets = confirm_v2();
    for count in 0..=u8::MAX {
        let result = parse(&with(&octets, 156, [count]));
        match (count, result) {
            (0..=2, Ok(ClcMessage::Confirm(confirm))) => {
                let gids = confirm.v2.unwrap().gids;
                assert_eq!(gids.as_slice().len(), usize::from(count));
            }
            (3..=8, Err(ClcParseError::BadLength { .. })) => {}
            (9.., Err(error)) => assert_eq!(error, ClcParseError::TooManyGids { count }),
            (_, other) => panic!("{count}: {other:?}"),
        }
    }
    let mut list = GidList::new();
    for n in 0..8 {
        assert_eq!(list.push(Gid([n; 16])), Ok(()));
    }
    assert_eq!(list.push(Gid([9; 16])), Err(Gid([9; 16])));
    assert_eq!(list.as_slice().len(), 8);
}

#[test]
fn what_does_not_apply_is_neither_sent_nor_read() {
    //= V2-008 test
    //= D-023 test
    let stated = FirstContactExtension {
        direct: true,
        os: PeerOs::LINUX,
        release: Release::V2_0,
        hostname: Hostname::new("host"),
        max_connections: 7,
        max_links: 8,
        features: FeatureMask::EMULATED_ISM,
    };
    let bare = FirstContactExtension {
        max_connections: 0,
        max_links: 0,
        features: FeatureMask::empty(),
        ..stated
    };
    let Ok(ClcMessage::Accept(accept)) = parse(&accept_v2()) else {
        panic!()
    };
    let with_extension = |extension, first_contact| {
        let mut accept = AcceptConfirm {
            first_contact,
            ..accept
        };
        let v2 = accept.v2.as_mut().unwrap();
        v2.extension = extension;
        v2.gids.push(Gid([7; 16])).unwrap();
        accept
    };
    let read = |message| match parse(&emit(&message)) {
        Ok(ClcMessage::Accept(m) | ClcMessage::Confirm(m)) => m.v2.unwrap(),
        other => panic!("{other:?}"),
    };
    let v2 = read(ClcMessage::Accept(with_extension(stated, true)));
    assert_eq!((v2.extension, v2.gids), (bare, GidList::new()));
    let v2 = read(ClcMessage::Confirm(with_extension(stated, true)));
    assert_eq!((v2.extension, v2.gids.as_slice().len()), (bare, 1));
    // Nor are the limits of a Proposal.
    let limits = |release| {
        let proposal = Proposal {
            version: ClcVersion::V2,
            v1: OfferedPath::Neither,
            peer_id: PeerId([3; 8]),
            gid: Gid([4; 16]),
            mac: Mac([5; 6]),
            ism: None,
            subnets: Subnets::default(),
            v2_offer: Some(V2Offer {
                path: OfferedPath::SmcR,
                release,
                max_connections: 7,
                max_links: 8,
                ..V2Offer::default()
            }),
        };
        match parse(&emit(&ClcMessage::Proposal(proposal))) {
            Ok(ClcMessage::Proposal(read)) => {
                let offer = read.v2_offer.unwrap();
                (offer.max_connections, offer.max_links)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(limits(Release::V2_0), (0, 0));
    assert_eq!(limits(Release::V2_1), (7, 8));
    let v2 = read(ClcMessage::Confirm(with_extension(stated, false)));
    assert_eq!(v2.extension, FirstContactExtension::default());
    assert_eq!(v2.gids, GidList::new());

    // Release 2.1 has limits, of SMC-R only.
    let release = Release::V2_1;
    let limited = FirstContactExtension { release, ..stated };
    let v2 = read(ClcMessage::Accept(with_extension(limited, true)));
    assert_eq!(v2.extension, limited);
    let Ok(ClcMessage::SmcdAccept(mut smcd)) = parse(&smcd_accept(1)) else {
        panic!()
    };
    smcd.v2.as_mut().unwrap().extension = FirstContactExtension { release, ..stated };
    let Ok(ClcMessage::SmcdAccept(smcd)) = parse(&emit(&ClcMessage::SmcdAccept(smcd))) else {
        panic!()
    };
    let extension = smcd.v2.unwrap().extension;
    assert!(!extension.direct);
    assert_eq!((extension.max_connections, extension.max_links), (0, 0));
    assert_eq!(extension.features, FeatureMask::EMULATED_ISM);
}

#[test]
fn a10_reserved_octets_of_version_2_are_ignored_and_not_sent() {
    //= CASE-A10 test
    //= V2-007 test
    let accept: Vec<usize> = [51, 60]
        .into_iter()
        .chain(96..104)
        .chain([106, 107])
        .chain(144..156)
        .collect();
    let mut confirm = accept.clone();
    confirm.extend(157..160);
    let smcd = |end| {
        [26, 27]
            .into_iter()
            .chain([74, 76, 77])
            .chain(end)
            .collect()
    };
    let smcd_2: Vec<usize> = smcd(110..112);
    let smcd_2: Vec<usize> = smcd_2.into_iter().chain(114..126).collect();
    let smcd_1 = [26, 27].into_iter().chain(32..44).collect();
    let p1 = proposal(&hex(PROPOSAL_V2_SMCD)).unwrap();
    let both = emit(&ClcMessage::Proposal(p1));
    let offer = [82, 84, 85].into_iter().chain(108..120).chain(184..200);
    let cases: [(Vec<u8>, Vec<usize>); 5] = [
        (accept_v2(), accept),
        (confirm_v2(), confirm),
        (smcd_accept(1), smcd_2),
        (smcd_v1(), smcd_1),
        (both, offer.collect()),
    ];
    for (octets, reserved) in cases {
        let message = parse(&octets).unwrap();
        for at in reserved {
            for bit in (0..8).map(|bit| 1u8 << bit) {
                let other = with(&octets, at, [octets[at] ^ bit]);
                let read = parse(&other).unwrap();
                assert_eq!(read, message, "octet {at} bit {bit:02x}");
                assert_eq!(emit(&read), octets);
            }
        }
    }
}

#[test]
fn a_proposal_of_every_combination_has_the_length_of_its_parts() {
    //= V2-002 test
    //= V2-020 test
    //= V2-021 test
    //= V2-024 test
    //= V2-029 test
    let paths = [
        OfferedPath::SmcR,
        OfferedPath::SmcD,
        OfferedPath::Neither,
        OfferedPath::Both,
    ];
    for (v1, v2) in paths.iter().flat_map(|v1| paths.map(|v2| (*v1, v2))) {
        for (n, e, g) in [(0, 0, 0), (1, 1, 1), (8, 8, 8), (3, 2, 5)] {
            let mut offer = V2Offer {
                path: v2,
                release: Release::V2_1,
                gid: Gid([7; 16]),
                max_connections: 255,
                ..V2Offer::default()
            };
            for k in 0..e {
                offer.eids.push(Eid([k; 32])).unwrap();
            }
            if v2.has_smcd() {
                offer.smcd.seid = Some(Eid::system(1, 2));
                for gid in 0..g {
                    let chid = Chid(7);
                    offer
                        .smcd
                        .devices
                        .push_entry(IsmGidEntry { gid, chid })
                        .unwrap();
                }
            }
            let mut subnets = Subnets::default();
            if v1 != OfferedPath::Neither {
                for k in 0..n {
                    let address = [k; 16].into();
                    subnets
                        .ipv6
                        .push(Ipv6Prefix {
                            address,
                            length: 64,
                        })
                        .unwrap();
                }
            }
            let proposal = Proposal {
                version: ClcVersion::V2,
                v1,
                peer_id: PeerId([3; 8]),
                gid: Gid([4; 16]),
                mac: Mac([5; 6]),
                ism: v1.has_smcd().then(IsmArea::default),
                subnets,
                v2_offer: (v2 != OfferedPath::Neither).then_some(offer),
            };
            let octets = emit(&ClcMessage::Proposal(proposal.clone()));
            let mut length = 84;
            if v1 != OfferedPath::Neither {
                length += 8 + 17 * usize::from(n);
            }
            if v2 != OfferedPath::Neither {
                length += 40 + 32 * usize::from(e);
            }
            if v2.has_smcd() {
                length += 48 + 10 * g as usize;
            }
            assert_eq!(octets.len(), length);
            assert_eq!(octets[7], 0x20 | (v2 as u8) << 2 | v1 as u8);
            assert_eq!(parse(&octets), Ok(ClcMessage::Proposal(proposal)));
            // Any other Length is refused, whatever is there.
            for other in [length - 1, length + 1] {
                let mut octets = octets.clone();
                octets.resize(other, 0);
                octets[other - 4..].copy_from_slice(&EYE_CATCHER);
                octets[5..7].copy_from_slice(&(other as u16).to_be_bytes());
                assert!(ClcMessage::parse(&octets).is_err());
            }
        }
    }
}

#[test]
fn the_known_examples_have_their_lengths() {
    //= V2-029 test
    let r_only = proposal(&hex(PROPOSAL_V2_SMCR)).unwrap();
    let emitted = emit(&ClcMessage::Proposal(r_only.clone()));
    assert_eq!((emitted.len(), emitted[7]), (156, 0x22));
    let both = Proposal {
        v1: OfferedPath::SmcR,
        ..r_only
    };
    let emitted = emit(&ClcMessage::Proposal(both.clone()));
    assert_eq!((emitted.len(), emitted[7]), (164, 0x20));
    let v1_only = Proposal {
        v2_offer: None,
        ..both
    };
    let emitted = emit(&ClcMessage::Proposal(v1_only));
    assert_eq!((emitted.len(), emitted[7]), (92, 0x28));
}
