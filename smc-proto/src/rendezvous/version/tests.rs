//! Every choice, from facts to outcome.

use std::vec;
use std::vec::Vec;

use super::server::Choice;
use super::{accepted, choose, confirmed, offer};
use crate::config::{Config, Offers, ProposalVersion};
use crate::id::{DeviceId, LanId};
use crate::path::{IsmPath, LocalPath, Paths, RoceVersion, Route};
use crate::rendezvous::{ConnOptions, Proposed};
use crate::version::{SmcVersion, Technology};
use crate::wire::clc::{
    AcceptConfirm, AcceptConfirmV2, ClcVersion, FirstContactExtension, IsmArea, IsmGidList,
    OfferedPath, Proposal, SmcdOffer, Subnets, V2Offer,
};
use crate::wire::types::{
    AlertToken, BoundedList, BufferSize, Chid, DiagnosisCode as Code, Eid, FeatureMask, Gid,
    IsmGid, Mac, Mtu, PeerId, Psn, Qpn, RToken, Release, RmbeIndex,
};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ISM: IsmGid = IsmGid {
    gid: 7,
    gid_ext: 0,
    chid: Chid(5),
};

fn eid(text: &str) -> Eid {
    Eid::user(text).unwrap()
}

fn config(eids: &[&str]) -> Config {
    let mut config = Config::new(PeerId::new(1, MAC));
    config.offers = Offers::all();
    for text in eids {
        config.v2.ueids.push(eid(text)).unwrap();
    }
    config
}

fn rnic(roce: RoceVersion) -> LocalPath {
    let gid = match roce {
        RoceVersion::V1 => [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1],
        RoceVersion::V2 => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 9, 1],
    };
    LocalPath {
        device: DeviceId(0),
        port: 1,
        gid_index: 0,
        gid: Gid(gid),
        mac: MAC,
        mtu: Mtu::M1024,
        lan: LanId(0),
        subnet_match: true,
        roce,
        route: Route::Direct,
    }
}

const fn ism() -> IsmPath {
    IsmPath {
        pnet_match: true,
        reaches_v1: true,
        reaches: Some(ISM),
        ..IsmPath::new(DeviceId(1), ISM)
    }
}

/// A Proposal of everything, to be cut down by each test.
fn proposal(v1: OfferedPath, v2: OfferedPath) -> Proposal {
    let mut devices = IsmGidList::new();
    devices.push(ISM).unwrap();
    let mut eids = BoundedList::new();
    eids.push(eid("OTHER")).unwrap();
    eids.push(eid("COMMON")).unwrap();
    let smcd = SmcdOffer {
        seid: None,
        devices,
    };
    Proposal {
        version: ClcVersion::V2,
        v1,
        peer_id: PeerId::new(2, MAC),
        gid: Gid([1; 16]),
        mac: MAC,
        ism: v1.has_smcd().then_some(IsmArea {
            gid: 9,
            chid: Chid(6),
        }),
        subnets: Subnets::default(),
        v2_offer: (v2 != OfferedPath::Neither).then_some(V2Offer {
            path: v2,
            release: Release::V2_1,
            gid: rnic(RoceVersion::V2).gid,
            eids,
            max_connections: 100,
            max_links: 8,
            features: FeatureMask::EMULATED_ISM,
            smcd,
        }),
    }
}

/// What a server with these paths makes of it.
fn chosen(
    config: &Config,
    proposal: &Proposal,
    rnics: &[LocalPath],
    ism: &[IsmPath],
) -> Result<(Technology, SmcVersion), Code> {
    let proposed = Proposed::new(proposal, &config.v2);
    let (Choice::SmcR(negotiated) | Choice::SmcD { negotiated, .. }) =
        choose(config, &proposed, Paths { rnics, ism })?;
    Ok((negotiated.terms.technology, negotiated.terms.version))
}

fn both() -> Vec<LocalPath> {
    vec![rnic(RoceVersion::V1), rnic(RoceVersion::V2)]
}

#[test]
fn the_order_is_smcd_v2_smcd_v1_smcr_v2_smcr_v1() {
    //= V2-100 test
    let all = proposal(OfferedPath::Both, OfferedPath::Both);
    let mut own = config(&["COMMON"]);
    let (r, d) = (Technology::SmcR, Technology::SmcD);
    for (outcome, next) in [
        ((d, SmcVersion::V2), Offers::SMCD_V2),
        ((d, SmcVersion::V1), Offers::SMCD_V1),
        ((r, SmcVersion::V2), Offers::SMCR_V2),
        ((r, SmcVersion::V1), Offers::SMCR_V1),
    ] {
        assert_eq!(chosen(&own, &all, &both(), &[ism()]), Ok(outcome));
        own.offers -= next;
    }
    let nothing = chosen(&own, &all, &both(), &[ism()]);
    assert_eq!(nothing, Err(Code::PEER_NO_SMC));
}

#[test]
fn every_combination_of_offers_ends_on_the_best_common_one() {
    //= V2-100 test
    //= V2-101 test
    let order = [
        (Offers::SMCD_V2, (Technology::SmcD, SmcVersion::V2)),
        (Offers::SMCD_V1, (Technology::SmcD, SmcVersion::V1)),
        (Offers::SMCR_V2, (Technology::SmcR, SmcVersion::V2)),
        (Offers::SMCR_V1, (Technology::SmcR, SmcVersion::V1)),
    ];
    let code = |r: bool, d: bool| match (r, d) {
        (true, true) => OfferedPath::Both,
        (true, false) => OfferedPath::SmcR,
        (false, true) => OfferedPath::SmcD,
        (false, false) => OfferedPath::Neither,
    };
    for theirs in (0..16).map(Offers::from_bits_retain) {
        for ours in (0..16).map(Offers::from_bits_retain) {
            let has = |flag| theirs.contains(flag);
            let offered = proposal(
                code(has(Offers::SMCR_V1), has(Offers::SMCD_V1)),
                code(has(Offers::SMCR_V2), has(Offers::SMCD_V2)),
            );
            let mut own = config(&["COMMON"]);
            own.offers = ours;
            let best = order
                .iter()
                .find(|(flag, _)| (theirs & ours).contains(*flag));
            let expected = best.map(|(_, outcome)| *outcome).ok_or(Code::PEER_NO_SMC);
            let outcome = chosen(&own, &offered, &both(), &[ism()]);
            assert_eq!(outcome, expected, "{theirs:?} met {ours:?}");
        }
    }
}

#[test]
fn each_reason_of_the_server_has_its_code() {
    //= D-030 test
    //= RENDEZVOUS-003 test
    //= V2-232 test
    //= V2-028 test
    //= V2-101 test
    //= V2-103 test
    //= V2-104 test
    //= V2-105 test
    //= V2-106 test
    //= D-032 test
    let (r, d) = (OfferedPath::SmcR, OfferedPath::SmcD);
    let neither = OfferedPath::Neither;
    let own = config(&["COMMON"]);
    let stranger = config(&["STRANGER"]);
    let no_eids = |mut p: Proposal| {
        p.v2_offer.as_mut().unwrap().eids.clear();
        p
    };
    let limits = |connections, links| {
        let mut p = proposal(r, r);
        let offer = p.v2_offer.as_mut().unwrap();
        (offer.max_connections, offer.max_links) = (connections, links);
        p
    };
    let no_devices = |mut p: Proposal| {
        p.v2_offer.as_mut().unwrap().smcd.devices = IsmGidList::new();
        p
    };
    let with_seid = |mut p: Proposal| {
        p.v2_offer.as_mut().unwrap().smcd.seid = Some(Eid::system(1, 2));
        p
    };
    let off = |mut path: LocalPath| {
        path.subnet_match = false;
        path
    };
    let unroutable = LocalPath {
        route: Route::None,
        ..rnic(RoceVersion::V2)
    };
    let not_ipv4 = LocalPath {
        gid: Gid([0x20; 16]),
        ..rnic(RoceVersion::V2)
    };
    let far = IsmPath {
        reaches: None,
        reaches_v1: false,
        ..ism()
    };
    let old = IsmPath { v2: false, ..ism() };
    let v1 = || vec![rnic(RoceVersion::V1)];
    let v2 = || vec![rnic(RoceVersion::V2)];
    type Case<'a> = (Code, &'a Config, Proposal, Vec<LocalPath>, &'a [IsmPath]);
    let cases: [Case<'_>; 19] = [
        (
            Code::PEER_NO_SMC,
            &own,
            proposal(neither, neither),
            both(),
            &[ism()],
        ),
        (
            Code::NO_UEID,
            &own,
            no_eids(proposal(neither, r)),
            both(),
            &[],
        ),
        (
            Code::NO_UEID,
            &own,
            no_eids(proposal(neither, d)),
            both(),
            &[ism()],
        ),
        (
            Code::NO_SEID,
            &own,
            with_seid(no_eids(proposal(neither, d))),
            both(),
            &[ism()],
        ),
        (Code::NO_ISM_V2, &own, proposal(neither, d), both(), &[]),
        (Code::NO_ISM_V2, &own, proposal(neither, d), both(), &[old]),
        (
            Code::NO_SMCD_V2_EXTENSION,
            &own,
            no_devices(proposal(neither, d)),
            both(),
            &[ism()],
        ),
        (
            Code::NO_SMCD_V2_DEVICE,
            &own,
            proposal(neither, d),
            both(),
            &[far],
        ),
        (
            Code::NO_DEVICE,
            &stranger,
            proposal(neither, d),
            both(),
            &[ism()],
        ),
        (
            Code::NO_DEVICE,
            &stranger,
            proposal(neither, r),
            both(),
            &[],
        ),
        (Code::MAX_CONNECTIONS, &own, limits(15, 2), both(), &[]),
        (Code::MAX_LINKS, &own, limits(16, 0), both(), &[]),
        (
            Code::PREFIX_MISMATCH,
            &own,
            proposal(r, neither),
            vec![off(rnic(RoceVersion::V1))],
            &[],
        ),
        (
            Code::NO_SMCD_DEVICE,
            &own,
            proposal(d, neither),
            v1(),
            &[far],
        ),
        (Code::NO_SMCR_DEVICE, &own, proposal(r, neither), v2(), &[]),
        // A device for something else is none.
        (
            Code::NO_SMCR_DEVICE,
            &own,
            proposal(r, neither),
            vec![],
            &[far],
        ),
        (Code::NO_SMCR_DEVICE, &own, proposal(neither, r), v1(), &[]),
        (
            Code::NO_SMCR_DEVICE,
            &own,
            proposal(neither, r),
            vec![not_ipv4],
            &[],
        ),
        (
            Code::NO_ROUTE,
            &own,
            proposal(neither, r),
            vec![unroutable],
            &[],
        ),
    ];
    for (index, (code, config, proposal, rnics, ism)) in cases.iter().enumerate() {
        let outcome = chosen(config, proposal, rnics, ism);
        assert_eq!(outcome, Err(*code), "case {index}");
    }
}

#[test]
fn the_first_reason_found_is_declined_with_but_later_ways_are_tried() {
    //= V2-100 test
    //= V2-106 test
    let r = OfferedPath::SmcR;
    let mut rnics = both();
    rnics.iter_mut().for_each(|path| path.subnet_match = false);
    let own = config(&["COMMON"]);
    // The subnets differ: version 1 is out, version 2 is not.
    let outcome = chosen(&own, &proposal(r, r), &rnics, &[]);
    assert_eq!(outcome, Ok((Technology::SmcR, SmcVersion::V2)));
    let outcome = chosen(&config(&["STRANGER"]), &proposal(r, r), &rnics, &[]);
    assert_eq!(outcome, Err(Code::PREFIX_MISMATCH));
}

#[test]
fn release_and_limits_are_the_lower_of_both() {
    //= V2-102 test
    //= V2-103 test
    //= V2-057 test
    let r = OfferedPath::SmcR;
    for (theirs, ours) in [(0, 0), (0, 1), (1, 0), (1, 1), (5, 1)] {
        let mut p = proposal(OfferedPath::Neither, r);
        p.v2_offer.as_mut().unwrap().release = Release::new(theirs);
        let mut own = config(&["COMMON"]);
        own.v2.release = Release::new(ours);
        own.connections_per_group = 200;
        own.max_links = 1;
        let proposed = Proposed::new(&p, &own.v2);
        let paths = both();
        let Ok(Choice::SmcR(negotiated)) = choose(&own, &proposed, Paths::from(&paths)) else {
            panic!("SMC-R of version 2 was due");
        };
        let terms = negotiated.terms;
        assert_eq!(negotiated.eid, eid("COMMON"));
        assert_eq!(terms.release.number(), theirs.min(ours));
        let expected = if theirs.min(ours) == 0 {
            (255, 2)
        } else {
            (100, 1)
        };
        assert_eq!((terms.max_connections, terms.max_links), expected);
    }
}

#[test]
fn the_system_eid_goes_before_user_eids_and_the_client_says_which_of_those() {
    //= D-031 test
    let chosen = |own: &Config, theirs: Option<Eid>, eids: &[&str]| {
        let mut p = proposal(OfferedPath::Neither, OfferedPath::SmcD);
        let offer = p.v2_offer.as_mut().unwrap();
        offer.smcd.seid = theirs;
        offer.eids = eids.iter().map(|text| eid(text)).collect();
        let proposed = Proposed::new(&p, &own.v2);
        let paths = Paths {
            rnics: &[],
            ism: &[ism()],
        };
        choose(own, &proposed, paths).map(|choice| match choice {
            Choice::SmcD { negotiated, .. } => negotiated.eid,
            Choice::SmcR(_) => panic!("SMC-D was due"),
        })
    };
    let (here, there) = (Eid::system(1, 2), Eid::system(3, 4));
    let mut own = config(&["FIRST", "SECOND"]);
    own.v2.seid = Some(here);
    let both = ["SECOND", "FIRST"];
    assert_eq!(chosen(&own, Some(here), &both), Ok(here));
    assert_eq!(chosen(&own, Some(here), &[]), Ok(here));
    assert_eq!(chosen(&own, Some(there), &both), Ok(eid("SECOND")));
    assert_eq!(chosen(&own, None, &both), Ok(eid("SECOND")));
    assert_eq!(chosen(&own, Some(there), &["X"]), Err(Code::NO_DEVICE));
    assert_eq!(chosen(&own, Some(there), &[]), Err(Code::NO_SEID));
    own.v2.seid = None;
    assert_eq!(chosen(&own, Some(here), &both), Ok(eid("SECOND")));
}

#[test]
fn release_and_features_of_smcd_are_the_lower_of_both() {
    //= D-036 test
    for (theirs, ours, agreed) in [(0, 1, 0), (1, 0, 0), (1, 1, 1), (5, 1, 1)] {
        for (offered, known) in [(1, 1), (1, 0), (0, 1), (3, 1)] {
            let mut p = proposal(OfferedPath::Neither, OfferedPath::SmcD);
            let offer = p.v2_offer.as_mut().unwrap();
            offer.release = Release::new(theirs);
            offer.features = FeatureMask::from_bits_retain(offered);
            let mut own = config(&["COMMON"]);
            own.v2.release = Release::new(ours);
            own.v2.features = FeatureMask::from_bits_retain(known);
            let paths = Paths {
                rnics: &[],
                ism: &[ism()],
            };
            let chosen = choose(&own, &Proposed::new(&p, &own.v2), paths);
            let Ok(Choice::SmcD { negotiated, .. }) = chosen else {
                panic!("SMC-D was due: {chosen:?}");
            };
            let terms = negotiated.terms;
            assert_eq!(terms.release.number(), agreed);
            let features = if agreed == 0 { 0 } else { offered & known };
            assert_eq!(terms.features.bits(), features);
        }
    }
}

#[test]
fn limits_are_sent_as_far_as_they_can_be_expressed() {
    //= V2-027 test
    //= V2-214 test
    let mut own = config(&[]);
    for (wanted, sent) in [(1, 16), (15, 16), (16, 16), (17, 17), (255, 255)] {
        own.connections_per_group = wanted;
        assert_eq!(own.advertised_connections(), sent);
    }
    for (wanted, sent) in [(0, 1), (1, 1), (2, 2), (3, 2), (8, 2)] {
        own.max_links = wanted;
        assert_eq!(own.advertised_links(), sent);
    }
    // Unassigned bits survive reading and writing.
    let mut p = proposal(OfferedPath::Neither, OfferedPath::SmcR);
    for bits in [0, 1, 0x8000, 0xffff] {
        p.v2_offer.as_mut().unwrap().features = FeatureMask::from_bits_retain(bits);
        let mut bytes = [0; crate::wire::clc::MAX_LENGTH];
        let message = crate::wire::clc::ClcMessage::Proposal(p.clone());
        let length = message.emit(&mut bytes).unwrap();
        let read = crate::wire::clc::ClcMessage::parse(&bytes[..length]).unwrap();
        let crate::wire::clc::ClcMessage::Proposal(read) = read.0 else {
            panic!("a Proposal was due");
        };
        assert_eq!(read.v2_offer.unwrap().features.bits(), bits);
    }
}

fn accept(v2: Option<FirstContactExtension>) -> AcceptConfirm {
    AcceptConfirm {
        first_contact: true,
        peer_id: PeerId::new(2, MAC),
        gid: Gid([1; 16]),
        mac: MAC,
        qpn: Qpn::new(1),
        rtoken: RToken::default(),
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(1),
        buffer_size: BufferSize::K64,
        mtu: Mtu::M1024,
        psn: Psn::new(1),
        v2: v2.map(|extension| AcceptConfirmV2 {
            eid: eid("COMMON"),
            extension,
            ..AcceptConfirmV2::default()
        }),
    }
}

fn extension() -> FirstContactExtension {
    FirstContactExtension {
        direct: true,
        release: Release::V2_1,
        max_connections: 16,
        max_links: 2,
        features: FeatureMask::all(),
        ..FirstContactExtension::default()
    }
}

#[test]
fn the_client_takes_only_what_it_offered() {
    //= V2-130 test
    //= V2-131 test
    //= V2-132 test
    let own = config(&["COMMON"]);
    let judge = |offers, change: fn(&mut FirstContactExtension), route| {
        let mut extension = extension();
        change(&mut extension);
        accepted(&own, offers, &accept(Some(extension)), route).map(|n| n.terms)
    };
    let (all, same) = (Offers::SMCR, |_: &mut FirstContactExtension| {});
    let terms = judge(all, same, Route::Direct).unwrap();
    assert_eq!((terms.max_connections, terms.max_links), (16, 2));
    assert_eq!(terms.features, FeatureMask::EMULATED_ISM);
    assert!(terms.direct);
    let refused = |offers, change, route| judge(offers, change, route).unwrap_err();
    assert_eq!(
        refused(Offers::SMCR_V1, same, Route::Direct),
        Code::MODE_MISMATCH
    );
    let v1 = accepted(&own, Offers::SMCR_V2, &accept(None), Route::Direct);
    assert_eq!(v1.unwrap_err(), Code::MODE_MISMATCH);
    let few: fn(&mut FirstContactExtension) = |e| e.max_connections = 15;
    assert_eq!(refused(all, few, Route::Direct), Code::MAX_CONNECTIONS);
    let none: fn(&mut FirstContactExtension) = |e| e.max_links = 0;
    assert_eq!(refused(all, none, Route::Direct), Code::MAX_LINKS);
    let more: fn(&mut FirstContactExtension) = |e| e.max_links = 3;
    assert_eq!(refused(all, more, Route::Direct), Code::MAX_LINKS);
    let newer: fn(&mut FirstContactExtension) = |e| e.release = Release::new(2);
    assert_eq!(refused(all, newer, Route::Direct), Code::RELEASE_MISMATCH);
    let far: fn(&mut FirstContactExtension) = |e| e.direct = false;
    assert_eq!(refused(all, far, Route::Direct), Code::INDIRECT_MISMATCH);
    assert_eq!(refused(all, far, Route::None), Code::NO_ROUTE);
    assert!(!judge(all, far, Route::Gateway).unwrap().direct);
    // Release 0 sends no limits, and none is judged.
    let old: fn(&mut FirstContactExtension) = |e| {
        e.release = Release::V2_0;
        (e.max_connections, e.max_links) = (0, 0);
    };
    let terms = judge(all, old, Route::Direct).unwrap();
    assert_eq!((terms.max_connections, terms.max_links), (255, 2));
}

#[test]
fn the_server_wants_its_terms_repeated() {
    //= V2-109 test
    let own = config(&["COMMON"]);
    let terms = accepted(
        &own,
        Offers::SMCR,
        &accept(Some(extension())),
        Route::Direct,
    );
    let terms = terms.unwrap().terms;
    let judge = |change: fn(&mut FirstContactExtension)| {
        let mut extension = extension();
        change(&mut extension);
        confirmed(terms, &extension)
    };
    assert_eq!(
        judge(|e| e.features = FeatureMask::empty())
            .unwrap()
            .features
            .bits(),
        0
    );
    assert_eq!(
        judge(|e| e.release = Release::V2_0),
        Err(Code::RELEASE_MISMATCH)
    );
    assert_eq!(
        judge(|e| e.max_connections = 17),
        Err(Code::MAX_CONNECTIONS)
    );
    assert_eq!(judge(|e| e.max_links = 1), Err(Code::MAX_LINKS));
}

#[test]
fn what_a_client_offers_follows_from_its_facts() {
    //= CASE-A09 test
    //= V2-031 test
    //= V2-032 test
    //= V2-136 test
    let own = config(&["COMMON"]);
    let options = ConnOptions::new(Subnets::default());
    let ipv6 = ConnOptions {
        ipv4: false,
        ..options.clone()
    };
    let no_subnets = ConnOptions {
        subnets: None,
        ..options.clone()
    };
    let offers = |config: &Config, options: &ConnOptions, rnics: &[LocalPath]| {
        let paths = Paths { rnics, ism: &[] };
        offer(config, options, paths).map(|(offers, _)| offers)
    };
    let (v1, v2) = (Offers::SMCR_V1, Offers::SMCR_V2);
    let silent = config(&[]);
    assert_eq!(offers(&own, &options, &both()), Ok(v1 | v2));
    assert_eq!(offers(&own, &ipv6, &both()), Ok(v1));
    assert_eq!(offers(&own, &no_subnets, &both()), Ok(v2));
    assert_eq!(offers(&silent, &options, &both()), Ok(v1));
    let old = Config {
        proposal_version: ProposalVersion::V1,
        ..own
    };
    assert_eq!(offers(&old, &options, &both()), Ok(v1));
    let rxe = [rnic(RoceVersion::V2)];
    assert_eq!(offers(&own, &options, &rxe), Ok(v2));
    assert_eq!(offers(&silent, &options, &rxe), Err(Code::NO_DEVICE));
    assert_eq!(offers(&own, &options, &[]), Err(Code::NO_SMCR_DEVICE));
    assert_eq!(offers(&old, &no_subnets, &[]), Err(Code::NO_SMCR_DEVICE));
    assert_eq!(
        offers(&silent, &no_subnets, &both()),
        Err(Code::CONFIGURATION)
    );
    // Both versions share the one MAC of a Proposal.
    let mut apart = both();
    apart[1].mac = Mac([9; 6]);
    assert_eq!(offers(&own, &options, &apart), Ok(v1));
    apart.swap(0, 1);
    assert_eq!(offers(&own, &options, &apart), Ok(v2));
    let all = Paths {
        rnics: &both(),
        ism: &[ism()],
    };
    assert_eq!(offer(&own, &options, all).unwrap().0, Offers::all());
    assert_eq!(offer(&silent, &options, all).unwrap().0, Offers::V1);
}
