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
    (versions(), v1, ids, ism, subnets).prop_map(|(version, v1, ids, ism, subnets)| {
        let empty = !version.is_v1() && v1 == OfferedPath::Neither;
        let ism = ism.map(|(gid, chid)| IsmArea { gid, chid });
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
            v2_offer: None,
        })
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
        accepts().prop_map(ClcMessage::Accept),
        accepts().prop_map(ClcMessage::Confirm),
        declines(),
    ]
}

proptest! {
    #[test]
    fn bug_ec33f2e5a2d0_what_is_emitted_parses_to_the_same(message in messages()) {
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
        which in 0..9usize,
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
            let emitted = emit(&message);
            if let ClcMessage::Proposal(proposal) = message {
                let kept = Proposal { v2_offer: None, ..proposal };
                prop_assert_eq!(parse(&emitted), Ok(ClcMessage::Proposal(kept)));
            } else {
                prop_assert_eq!(parse(&emitted), Ok(message));
            }
        }
    }
}
