//! What becomes of SMC-D in a build that leaves it out.

use crate::command::TcpCommand;
use crate::config::{Config, Offers};
use crate::endpoint::{ClcProgress, ConnOptions, Endpoint, Next};
use crate::id::{ConnId, DeviceId, LanId};
use crate::path::{IsmPath, LocalPath, Paths, RoceVersion, Route};
use crate::storage::Fixed;
use crate::time::Instant;
use crate::wire::clc::{
    ClcMessage, ClcVersion, Decline, IsmArea, MAX_LENGTH, OfferedPath, Proposal, SmcdAcceptConfirm,
    SmcdOffer, Subnets, V2Offer,
};
use crate::wire::types::{
    BufferSize, Chid, DiagnosisCode, DmbToken, Eid, Gid, IsmGid, Mac, Mtu, PeerId, Release,
};

type Stack = Endpoint<Fixed<1, 1, 1, 1, 2, 2>>;

const NOW: Instant = Instant::from_nanos(1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: IsmGid = IsmGid {
    gid: 7,
    gid_ext: 0,
    chid: Chid(0),
};

fn stack() -> Stack {
    let mut config = Config::new(PeerId::new(1, MAC));
    config.offers = Offers::all();
    Endpoint::new(config, 0x5eed, Fixed::new())
}

/// A device with which a build that has SMC-D would accept.
fn device() -> IsmPath {
    IsmPath {
        pnet_match: true,
        reaches_v1: true,
        reaches: Some(PEER),
        ..IsmPath::new(DeviceId(0), PEER)
    }
}

fn proposal(v1: OfferedPath, v2: OfferedPath) -> ClcMessage {
    let seid = Some(Eid::user("SEID").unwrap());
    ClcMessage::Proposal(Proposal {
        version: ClcVersion::V2,
        v1,
        peer_id: PeerId::new(2, MAC),
        gid: Gid([0; 16]),
        mac: MAC,
        ism: v1.has_smcd().then_some(IsmArea {
            gid: PEER.gid,
            chid: PEER.chid,
        }),
        subnets: Subnets::default(),
        v2_offer: (v2 != OfferedPath::Neither).then(|| V2Offer {
            path: v2,
            release: Release::V2_0,
            smcd: SmcdOffer {
                seid,
                ..SmcdOffer::default()
            },
            ..V2Offer::default()
        }),
    })
}

fn give(stack: &mut Stack, conn: ConnId, message: &ClcMessage) -> ClcProgress {
    let mut bytes = [0; MAX_LENGTH];
    let length = message.emit(&mut bytes).unwrap();
    stack.handle_clc(NOW, conn, &bytes[..length]).unwrap()
}

fn declined(stack: &mut Stack) -> DiagnosisCode {
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = stack.poll_clc(NOW, &mut bytes).unwrap().unwrap();
    match ClcMessage::parse(&bytes[..length]) {
        Ok((ClcMessage::Decline(Decline { diagnosis, .. }), _)) => diagnosis,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_proposal_of_smcd_alone_is_declined_for_want_of_a_device() {
    use OfferedPath::{Neither, SmcD};
    for (v1, v2, code) in [
        (SmcD, Neither, DiagnosisCode::NO_SMCD_DEVICE),
        (Neither, SmcD, DiagnosisCode::NO_ISM_V2),
    ] {
        let mut server = stack();
        let conn = server
            .listen(NOW, ConnOptions::new(Subnets::default()))
            .unwrap();
        let _ = give(&mut server, conn, &proposal(v1, v2));
        let ism = [device()];
        let paths = Paths {
            rnics: &[],
            ism: &ism,
        };
        server.accept(NOW, conn, paths).unwrap();
        assert_eq!(declined(&mut server), code, "{v1:?} {v2:?}");
        assert!(matches!(
            server.poll_tcp(),
            Some((_, TcpCommand::HandOver { .. }))
        ));
    }
}

#[test]
fn a_client_offers_no_smcd_and_declines_an_accept_of_it() {
    let mut client = stack();
    let port = LocalPath {
        device: DeviceId(1),
        port: 1,
        gid_index: 0,
        gid: Gid([0xfe; 16]),
        mac: MAC,
        mtu: Mtu::M1024,
        lan: LanId(0),
        subnet_match: true,
        roce: RoceVersion::V1,
        route: Route::Direct,
    };
    let paths = Paths {
        rnics: &[port],
        ism: &[device()],
    };
    let options = ConnOptions::new(Subnets::default());
    let conn = client.connect(NOW, options, paths).unwrap();
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = client.poll_clc(NOW, &mut bytes).unwrap().unwrap();
    match ClcMessage::parse(&bytes[..length]) {
        Ok((ClcMessage::Proposal(proposal), _)) => {
            assert!(proposal.v1.has_smcr() && !proposal.v1.has_smcd());
            let v2 = proposal.v2_offer;
            assert!(v2.is_none_or(|v2| !v2.path.has_smcd()));
        }
        other => panic!("{other:?}"),
    }
    let accept = ClcMessage::SmcdAccept(SmcdAcceptConfirm {
        first_contact: true,
        gid: PEER.gid,
        token: DmbToken(3),
        dmbe_index: 0,
        buffer_size: BufferSize::K64,
        link_id: [0; 4],
        v2: None,
    });
    let progress = give(&mut client, conn, &accept);
    assert!(matches!(
        progress,
        ClcProgress::Consumed {
            next: Next::Stop | Next::MaybeDecline,
            ..
        }
    ));
    assert_eq!(declined(&mut client), DiagnosisCode::MODE_MISMATCH);
}
