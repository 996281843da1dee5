//! What becomes of version 2 in a build that leaves it out.

use std::vec;
use std::vec::Vec;

use crate::config::{Config, Offers};
use crate::endpoint::{ConnOptions, Endpoint};
use crate::event::Event;
use crate::id::{ConnId, DeviceId, LanId};
use crate::path::{LocalPath, RoceVersion, Route};
use crate::storage::Fixed;
use crate::time::Instant;
use crate::wire::clc::{
    ClcHeader, ClcMessage, ClcVersion, EYE_CATCHER, MAX_LENGTH, OfferedPath, Proposal, Subnets,
};
use crate::wire::types::{DiagnosisCode, Eid, Gid, Mac, Mtu, PeerId};

type Stack = Endpoint<Fixed<1, 1, 1, 2, 2, 2>>;

const NOW: Instant = Instant::from_nanos(1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn path(roce: RoceVersion) -> LocalPath {
    LocalPath {
        device: DeviceId(0),
        port: 1,
        gid_index: 0,
        gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]),
        mac: MAC,
        mtu: Mtu::M1024,
        lan: LanId(0),
        subnet_match: true,
        roce,
        route: Route::Direct,
    }
}

/// A stack whose configuration offers everything.
fn stack() -> Stack {
    let mut config = Config::new(PeerId::new(1, MAC));
    config.offers = Offers::all();
    config.v2.ueids.push(Eid::user("EID").unwrap()).unwrap();
    Endpoint::new(config, 0x5eed, Fixed::new())
}

fn options() -> ConnOptions {
    ConnOptions::new(Subnets::default())
}

/// A Proposal of version 2 with an extension that offers SMC-R of version 2, as other
/// implementations send it.
fn proposal_of_v2(v1: OfferedPath) -> Vec<u8> {
    let plain = Proposal {
        version: ClcVersion::V2,
        v1,
        peer_id: PeerId::new(2, MAC),
        gid: path(RoceVersion::V1).gid,
        mac: MAC,
        ism: None,
        subnets: Subnets::default(),
        v2_offer: None,
    };
    let mut bytes = vec![0; MAX_LENGTH];
    let length = ClcMessage::Proposal(plain).emit(&mut bytes).unwrap();
    // Ahead of the last eye catcher: a header with one EID, 32 octets of which are reserved
    // or a GID, and the EID.
    bytes.truncate(length - EYE_CATCHER.len());
    let offset = (bytes.len() - 52) as u16;
    bytes[50..52].copy_from_slice(&offset.to_be_bytes());
    bytes.extend([1, 0, 0, 0x10, 0, 0, 0, 0]);
    bytes.extend([0; 32]);
    bytes.extend(Eid::user("EID").unwrap().0);
    bytes.extend(EYE_CATCHER);
    bytes[7] = (bytes[7] & 0xf3) | (OfferedPath::SmcR as u8) << 2;
    let length = bytes.len() as u16;
    bytes[5..7].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn said(stack: &mut Stack) -> (ClcHeader, ClcMessage) {
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = stack.poll_clc(NOW, &mut bytes).unwrap().unwrap();
    let header = ClcHeader::parse(&bytes[..length]).unwrap();
    (header, ClcMessage::parse(&bytes[..length]).unwrap().0)
}

fn proposed(v1: OfferedPath) -> (Stack, ConnId) {
    let mut server = stack();
    let conn = server.listen(NOW, options()).unwrap();
    let bytes = proposal_of_v2(v1);
    let progress = server.handle_clc(NOW, conn, &bytes).unwrap();
    assert!(
        matches!(progress, crate::endpoint::ClcProgress::Consumed { len, .. } if len == bytes.len())
    );
    assert_eq!(server.poll_event(), Some(Event::Proposed { conn }));
    (server, conn)
}

#[test]
fn a_client_proposes_version_1_alone() {
    let mut client = stack();
    let ports = [path(RoceVersion::V1), path(RoceVersion::V2)];
    client.connect(NOW, options(), &ports).unwrap();
    match said(&mut client) {
        (header, ClcMessage::Proposal(proposal)) => {
            assert_eq!(header.version, ClcVersion::V1);
            assert_eq!(proposal.v1, OfferedPath::SmcR);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_with_ports_of_version_2_alone_has_nothing_to_offer() {
    let mut client = stack();
    client
        .connect(NOW, options(), &[path(RoceVersion::V2)])
        .unwrap();
    match said(&mut client) {
        (header, ClcMessage::Decline(decline)) => {
            assert_eq!(header.version, ClcVersion::V1);
            assert_eq!(decline.diagnosis, DiagnosisCode::NO_DEVICE);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_offer_of_both_versions_is_accepted_in_version_1() {
    let (mut server, conn) = proposed(OfferedPath::SmcR);
    assert!(server.proposal(conn).unwrap().v2.is_none());
    let ports = [path(RoceVersion::V2), path(RoceVersion::V1)];
    server.accept(NOW, conn, &ports).unwrap();
    assert!(server.poll_rdma(NOW, DeviceId(0)).is_some(), "a queue pair");
}

#[test]
fn an_offer_of_version_2_alone_is_declined_in_version_1() {
    let (mut server, conn) = proposed(OfferedPath::Neither);
    server.accept(NOW, conn, &[path(RoceVersion::V2)]).unwrap();
    match said(&mut server) {
        (header, ClcMessage::Decline(decline)) => {
            assert_eq!(header.version, ClcVersion::V1);
            assert_eq!(decline.diagnosis, DiagnosisCode::PEER_NO_SMC);
        }
        other => panic!("{other:?}"),
    }
}
