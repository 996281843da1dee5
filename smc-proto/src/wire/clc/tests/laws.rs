//! What holds for every message and for every string of octets.

use proptest::collection::vec as many;
use proptest::prelude::*;

use super::*;

fn versions() -> impl Strategy<Value = ClcVersion> {
    prop_oneof![Just(1u8), Just(2), 1..=15u8].prop_map(|v| ClcVersion::new(v).unwrap())
}

fn proposals() -> impl Strategy<Value = ClcMessage> {
    let v1 = prop_oneof![
        Just(OfferedPath::SmcR),
        Just(OfferedPath::SmcD),
        Just(OfferedPath::Neither),
        Just(OfferedPath::Both)
    ];
    let ids = any::<([u8; 8], [u8; 16], [u8; 6])>();
    let ism = any::<Option<(u64, u16)>>();
    let v2 = prop::option::of(v2_offers());
    let ipv6 = many(any::<([u8; 16], u8)>(), 0..=8);
    let subnets = (any::<([u8; 4], u8)>(), ipv6).prop_map(|((network, prefix_length), ipv6)| {
        let ipv6 = ipv6.into_iter().map(|(address, length)| Ipv6Prefix {
            address: address.into(),
            length,
        });
        Subnets {
            network: network.into(),
            prefix_length,
            ipv6: ipv6.collect(),
        }
    });
    (versions(), v1, ids, ism, subnets, v2).prop_map(|(version, v1, ids, ism, subnets, v2)| {
        let empty = !version.is_v1() && v1 == OfferedPath::Neither;
        let ism = ism.map(|(gid, chid)| IsmArea {
            gid,
            chid: Chid(chid),
        });
        ClcMessage::Proposal(Proposal {
            version,
            v1,
            peer_id: PeerId(ids.0),
            gid: Gid(ids.1),
            mac: Mac(ids.2),
            // In version 2 the area is always there.
            ism: match (v1.has_smcd(), version.is_v1()) {
                (false, _) => None,
                (true, true) => ism,
                (true, false) => Some(ism.unwrap_or_default()),
            },
            subnets: if empty { Subnets::default() } else { subnets },
            v2_offer: v2.filter(|_| !version.is_v1()),
        })
    })
}

fn eids() -> impl Strategy<Value = Eid> {
    any::<[u8; 32]>().prop_map(Eid)
}

fn v2_offers() -> impl Strategy<Value = V2Offer> {
    let path = prop_oneof![
        Just(OfferedPath::SmcR),
        Just(OfferedPath::SmcD),
        Just(OfferedPath::Both)
    ];
    let entry = any::<(u64, u16, bool)>().prop_map(|(gid, chid, emulated)| IsmGidEntry {
        gid,
        chid: if emulated { Chid::LOOPBACK } else { Chid(chid) },
    });
    let smcd = (prop::option::of(eids()), many(entry, 0..=8)).prop_map(|(seid, entries)| {
        let mut devices = IsmGidList::new();
        entries
            .into_iter()
            .for_each(|entry| devices.push_entry(entry).unwrap());
        SmcdOffer { seid, devices }
    });
    let numbers = any::<([u8; 16], u8, u8, u16)>();
    (path, 0..=15u8, many(eids(), 0..=8), numbers, smcd).prop_map(
        |(path, release, eids, n, smcd)| {
            let release = Release::new(release);
            let stated = release.has_limits();
            V2Offer {
                path,
                release,
                gid: Gid(n.0),
                eids: eids.into_iter().collect(),
                max_connections: if stated { n.1 } else { 0 },
                max_links: if stated { n.2 } else { 0 },
                features: FeatureMask::from_bits_retain(if stated { n.3 } else { 0 }),
                smcd: if path.has_smcd() {
                    smcd
                } else {
                    SmcdOffer::default()
                },
            }
        },
    )
}

/// Extensions as they are read: without what is not stated.
pub(super) fn extensions(smcr: bool) -> impl Strategy<Value = FirstContactExtension> {
    let numbers = any::<(bool, u8, u8, u16)>();
    (0..=15u8, 0..=2u8, any::<[u8; 32]>(), numbers).prop_map(move |(os, release, hostname, n)| {
        let release = Release::new(release);
        let stated = release.has_limits();
        let limits = stated && smcr;
        FirstContactExtension {
            direct: n.0 && smcr,
            os: PeerOs(os),
            release,
            hostname: Hostname(hostname),
            max_connections: if limits { n.1 } else { 0 },
            max_links: if limits { n.2 } else { 0 },
            features: FeatureMask::from_bits_retain(if stated { n.3 } else { 0 }),
        }
    })
}

fn smcd_accepts() -> impl Strategy<Value = SmcdAcceptConfirm> {
    let v2 = (any::<(u16, u64)>(), eids(), extensions(false));
    let numbers = any::<(u64, u64, u8, u8, [u8; 4])>();
    (any::<bool>(), numbers, prop::option::of(v2)).prop_map(|(first_contact, n, v2)| {
        SmcdAcceptConfirm {
            first_contact,
            gid: n.0,
            token: DmbToken(n.1),
            dmbe_index: n.2,
            buffer_size: BufferSize::from_code(n.3),
            link_id: n.4,
            v2: v2.map(|(n, eid, extension)| SmcdAcceptConfirmV2 {
                chid: Chid(n.0),
                eid,
                gid_ext: n.1,
                extension: if first_contact {
                    extension
                } else {
                    FirstContactExtension::default()
                },
            }),
        }
    })
}

/// Of both versions; `gids`: as a Confirm can have them.
fn accepts_v2(gids: bool) -> impl Strategy<Value = AcceptConfirm> {
    let most = if gids { 8 } else { 0 };
    let v2 = (eids(), extensions(true), many(any::<[u8; 16]>(), 0..=most));
    (accepts(), prop::option::of(v2)).prop_map(|(accept, v2)| AcceptConfirm {
        v2: v2.map(|(eid, extension, octets)| {
            let mut v2 = AcceptConfirmV2 {
                eid,
                ..AcceptConfirmV2::default()
            };
            if accept.first_contact {
                v2.extension = extension;
                octets
                    .into_iter()
                    .for_each(|gid| v2.gids.push(Gid(gid)).unwrap());
            }
            v2
        }),
        ..accept
    })
}

fn accepts() -> impl Strategy<Value = AcceptConfirm> {
    let ids = any::<([u8; 8], [u8; 16], [u8; 6])>();
    let numbers = any::<(u32, u32, u64, u8, u32, u8, u8, u32)>();
    (any::<bool>(), ids, numbers).prop_map(|(first_contact, ids, n)| AcceptConfirm {
        first_contact,
        peer_id: PeerId(ids.0),
        gid: Gid(ids.1),
        mac: Mac(ids.2),
        qpn: Qpn::new(n.0),
        rtoken: RToken {
            rkey: RKey(n.1),
            address: n.2,
        },
        rmbe_index: RmbeIndex(n.3),
        alert_token: AlertToken(n.4),
        buffer_size: BufferSize::from_code(n.5),
        mtu: Mtu::from_code(n.6),
        psn: Psn::new(n.7),
        v2: None,
    })
}

fn declines() -> impl Strategy<Value = ClcMessage> {
    (versions(), any::<(bool, [u8; 8], u32)>(), 0..=15u8).prop_map(|(version, fields, os)| {
        ClcMessage::Decline(Decline {
            version,
            out_of_sync: fields.0,
            peer_id: PeerId(fields.1),
            diagnosis: DiagnosisCode(fields.2),
            os: PeerOs(os),
        })
    })
}

fn messages() -> impl Strategy<Value = ClcMessage> {
    prop_oneof![
        proposals(),
        accepts_v2(false).prop_map(ClcMessage::Accept),
        accepts_v2(true).prop_map(ClcMessage::Confirm),
        smcd_accepts().prop_map(ClcMessage::SmcdAccept),
        smcd_accepts().prop_map(ClcMessage::SmcdConfirm),
        declines(),
    ]
}

proptest! {
    #[test]
    fn bug_ec33f2e5a2d0_what_is_emitted_parses_to_the_same(message in messages()) {
        //= CASE-A09 test
        //= CLC-010 test
        //= CLC-011 test
        //= CLC-036 test
        //= CLC-042 test
        let octets = emit(&message);
        prop_assert_eq!(parse(&octets), Ok(message.clone()));
        let line = format!("{message}");
        prop_assert!(line.starts_with("CLC ") && !line.contains('\n'));
    }

    #[test]
    fn arbitrary_octets_are_a_message_or_a_typed_error(octets in many(any::<u8>(), 0..700)) {
        if let Err(error) = ClcMessage::parse(&octets) {
            let line = format!("{error}");
            prop_assert!(!line.is_empty());
        }
    }

    #[test]
    fn damaged_messages_are_a_message_or_a_typed_error(
        which in 0..samples().len(),
        damage in many((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut octets = samples().swap_remove(which);
        for (at, value) in damage {
            // The type, the Length and the eye catchers have tests of their own.
            let at = 7 + at.index(octets.len() - 11);
            octets[at] = value;
        }
        if let Ok((message, length)) = ClcMessage::parse(&octets) {
            prop_assert_eq!(length, octets.len());
            prop_assert!(message.encoded_len() <= length);
            let emitted = emit(&message);
            prop_assert_eq!(parse(&emitted), Ok(message));
        }
    }
}
