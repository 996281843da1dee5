//! Ports and devices that go between `connect` and the Proposal: what is left is
//! offered, and nothing else.

use conformance::rig::{ipv4_gid, local_port};
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::DeviceId;
use smc_proto::path::{IsmPath, LocalPath, PathEvent, Paths, RoceVersion};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, OfferedPath, Proposal, Subnets};
use smc_proto::wire::types::{Chid, DiagnosisCode, Eid, IsmGid, Mac, PeerId};

const NOW: Instant = Instant::from_nanos(1);
/// The port that both versions of SMC-R prefer, one of version 1, and ISM.
const BOTH: DeviceId = DeviceId(0);
const OLD: DeviceId = DeviceId(1);
const ISM: DeviceId = DeviceId(2);

fn rnic(device: DeviceId, roce: RoceVersion) -> LocalPath {
    let mac = Mac([2, 0, 0, 0, 0, device.0]);
    let mut path = local_port(device, 1, ipv4_gid([10, 0, 0, device.0]), mac);
    path.roce = roce;
    path
}

/// The first message of a client after these devices went.
fn first_message_without(gone: &[DeviceId]) -> ClcMessage {
    let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
    config.offers = Offers::SMCR | Offers::SMCD_V2;
    config.v2.ueids.push(Eid::user("COMMON").unwrap()).unwrap();
    let mut client = Endpoint::new(config, 1, Owned::new(Limits::for_connections(1)));
    let rnics = [
        rnic(BOTH, RoceVersion::V2),
        rnic(BOTH, RoceVersion::V1),
        rnic(OLD, RoceVersion::V1),
    ];
    let ism = [{
        let mut path = IsmPath::new(
            ISM,
            IsmGid {
                gid: 1,
                gid_ext: 0,
                chid: Chid(0x07c1),
            },
        );
        path.attaches = true;
        path
    }];
    let paths = Paths::new(&rnics, &ism);
    let options = ConnOptions::new(Subnets::default());
    client.connect(NOW, options, paths).unwrap();
    for device in gone {
        let event = PathEvent::DeviceRemoved { device: *device };
        client.handle_path(NOW, event);
    }
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = client.poll_clc(NOW, &mut bytes).unwrap().unwrap();
    ClcMessage::parse(&bytes[..length]).unwrap().0
}

fn proposal_without(gone: &[DeviceId]) -> Proposal {
    match first_message_without(gone) {
        ClcMessage::Proposal(proposal) => proposal,
        other => panic!("{gone:?}: {other}"),
    }
}

#[test]
fn what_is_left_is_offered_and_nothing_else() {
    //= V2-136 test
    for (gone, v1, v2) in [
        (&[][..], OfferedPath::SmcR, Some(OfferedPath::Both)),
        (&[ISM], OfferedPath::SmcR, Some(OfferedPath::SmcR)),
        (&[BOTH], OfferedPath::SmcR, Some(OfferedPath::SmcD)),
        (&[BOTH, ISM], OfferedPath::SmcR, None),
        (&[BOTH, OLD], OfferedPath::Neither, Some(OfferedPath::SmcD)),
    ] {
        let proposal = proposal_without(gone);
        let offer = proposal.v2_offer.as_ref();
        let found = (proposal.v1, offer.map(|offer| offer.path));
        assert_eq!(found, (v1, v2), "{gone:?}");
        let devices = offer.map_or(0, |offer| offer.smcd.devices.iter().count());
        assert_eq!(devices, usize::from(v2.is_some_and(OfferedPath::has_smcd)));
    }
}

#[test]
fn nothing_left_is_a_decline() {
    let ClcMessage::Decline(decline) = first_message_without(&[BOTH, OLD, ISM]) else {
        panic!("a Decline");
    };
    assert_eq!(decline.diagnosis, DiagnosisCode::NO_SMCD_DEVICE);
    assert!(!decline.out_of_sync);
    let ClcMessage::Decline(decline) = first_message_without(&[ISM, BOTH, OLD]) else {
        panic!("a Decline");
    };
    assert_eq!(decline.diagnosis, DiagnosisCode::NO_SMCR_DEVICE);
    assert!(!decline.out_of_sync);
}
