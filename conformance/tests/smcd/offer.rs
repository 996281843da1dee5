//! What a client of SMC-D takes for an answer to its offer (docs/smc-d.md, 3).

use conformance::rig::peer::smcd::{Mode, eid, half};
use smc_proto::command::TcpCommand;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Chid, DiagnosisCode, IsmGid, Mac, PeerId};

const NOW: Instant = Instant::from_nanos(1);

const OFFERED: Chid = Chid(0x07c1);

/// The client's device.
const OWN: IsmGid = IsmGid {
    gid: 1,
    gid_ext: 0,
    chid: OFFERED,
};

/// A client that has proposed this path.
fn proposing(path: IsmPath) -> (Endpoint<Owned>, ConnId) {
    let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
    config.offers = Offers::SMCD_V2;
    config.v2.ueids.push(eid()).expect("the first one");
    let mut client = Endpoint::new(config, 1, Owned::new(Limits::for_connections(1)));
    let ism = [path];
    let paths = Paths::new(&[], &ism);
    let options = ConnOptions::new(Subnets::default());
    let conn = client.connect(NOW, options, paths).expect("a free slot");
    let mut bytes = [0; MAX_LENGTH];
    let polled = client.poll_clc(NOW, &mut bytes).expect("it fits");
    assert!(polled.is_some(), "the Proposal");
    (client, conn)
}

/// The Accept of a server's device.
fn accept(gid: u64, gid_ext: u64, chid: Chid) -> ClcMessage {
    let mut half = half(Mode::new(SmcVersion::V2, true), true, 7);
    half.gid = gid;
    let v2 = half.v2.as_mut().expect("version 2");
    (v2.chid, v2.gid_ext) = (chid, gid_ext);
    ClcMessage::SmcdAccept(half)
}

fn mapped() -> IsmPath {
    let mut path = IsmPath::new(DeviceId(0), OWN);
    path.attaches = true;
    path
}

#[test]
fn an_accept_of_a_device_that_was_not_offered_ends_the_connection() {
    //= D-026 test
    //= CASE-A08 test
    for chid in [OFFERED, Chid(0), Chid(0xffff), Chid(0x07c0)] {
        let (mut client, conn) = proposing(mapped());
        let mut bytes = [0; MAX_LENGTH];
        let accept = accept(2, 0, chid);
        let length = accept.emit(&mut bytes).expect("it fits");
        let taken = client.handle_clc(NOW, conn, &bytes[..length]);
        let fine = chid == OFFERED;
        let next = if fine { Next::MaybeDecline } else { Next::Stop };
        let len = length;
        assert_eq!(taken, Ok(ClcProgress::Consumed { len, next }));
        let reset = (!fine).then_some((conn, TcpCommand::Reset));
        assert_eq!(client.poll_tcp(), reset, "{chid}");
        assert_eq!(client.usage().groups, u32::from(fine));
    }
}

/// A client that knows its server's device before the Accept.
#[test]
fn an_accept_of_another_device_than_the_servers_is_declined() {
    let known = IsmGid {
        gid: 2,
        gid_ext: 9,
        chid: OFFERED,
    };
    for (gid, gid_ext) in [(2, 9), (3, 9), (2, 8), (1, 0)] {
        let mut path = mapped();
        path.reaches = Some(known);
        let (mut client, conn) = proposing(path);
        let mut bytes = [0; MAX_LENGTH];
        let len = accept(gid, gid_ext, OFFERED).emit(&mut bytes).unwrap();
        let _ = client.handle_clc(NOW, conn, &bytes[..len]).unwrap();
        let fine = (gid, gid_ext) == (2, 9);
        assert_eq!(client.usage().groups, u32::from(fine), "{gid} {gid_ext}");
        let command = client.poll_ism(NOW, DeviceId(0));
        assert_eq!(command.is_some(), fine, "{command:?}");
        let sent = client.poll_clc(NOW, &mut bytes).expect("it fits");
        if fine {
            assert_eq!(sent, None, "it awaits its device");
            continue;
        }
        let (message, _) = ClcMessage::parse(&bytes).unwrap();
        let ClcMessage::Decline(decline) = message else {
            panic!("{message:?}");
        };
        assert_eq!(decline.diagnosis, DiagnosisCode::NO_SMCD_DEVICE);
    }
}
