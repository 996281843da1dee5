//! A client like Linux, which lost its end of a group of SMC-D: it announces that in a Decline,
//! and a server that kept the group would never carry a connection of it again.

use conformance::rig::Ism;
use conformance::rig::linux::offering;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{
    ClcMessage, ClcVersion, Decline, MAX_LENGTH, OfferedPath, SmcdAcceptConfirm, Subnets, V2Offer,
};
use smc_proto::wire::types::{Chid, DiagnosisCode, Eid, IsmGid, Mac, PeerId, PeerOs, Release};

const DEVICE: DeviceId = DeviceId(0);

const fn device(gid: u64) -> IsmGid {
    IsmGid {
        gid,
        gid_ext: 0,
        chid: Chid(0x07c1),
    }
}

fn eid() -> Eid {
    Eid::user("COMMON").expect("it is one")
}

struct Server {
    endpoint: Endpoint<Owned>,
    device: Ism,
    now: Instant,
}

impl Server {
    fn new() -> Self {
        let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
        config.offers = Offers::SMCD_V2;
        config.v2.ueids.push(eid()).expect("the first one");
        config.v2.release = Release::V2_0;
        Self {
            endpoint: Endpoint::new(config, 1, Owned::new(Limits::for_connections(8))),
            device: Ism::default(),
            now: Instant::from_nanos(1),
        }
    }

    /// The device of the server does what it is asked for.
    fn serve(&mut self) {
        while let Some(command) = self.endpoint.poll_ism(self.now, DEVICE) {
            self.device.check(&command).unwrap();
            if let Some(answer) = self.device.done(&command) {
                self.endpoint.handle_ism(self.now, answer);
            }
        }
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(next) = self.endpoint.poll_timeout().filter(|next| *next < end) {
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            self.serve();
        }
        while self.endpoint.poll_tcp().is_some() {}
        while self.endpoint.poll_event().is_some() {}
        self.now = end;
    }

    fn receives(&mut self, conn: ConnId, message: &ClcMessage) {
        let mut bytes = [0; MAX_LENGTH];
        let length = message.emit(&mut bytes).unwrap();
        let _ = self
            .endpoint
            .handle_clc(self.now, conn, &bytes[..length])
            .unwrap();
    }

    /// The server's Accept of a Proposal of the client.
    fn accepts(&mut self) -> (ConnId, SmcdAcceptConfirm) {
        let mut offer = V2Offer {
            path: OfferedPath::SmcD,
            ..V2Offer::default()
        };
        offer.eids.push(eid()).unwrap();
        offer.smcd.devices.push(device(2)).unwrap();
        let proposal = offering(offer);
        let options = ConnOptions::new(Subnets::default());
        let conn = self.endpoint.listen(self.now, options).unwrap();
        self.receives(conn, &ClcMessage::Proposal(proposal));
        let ism = [{
            let mut path = IsmPath::new(DEVICE, device(1));
            path.reaches = Some(device(2));
            path.attaches = true;
            path
        }];
        let paths = Paths::new(&[], &ism);
        self.endpoint.accept(self.now, conn, paths).unwrap();
        self.serve();
        let mut bytes = [0; MAX_LENGTH];
        let polled = self.endpoint.poll_clc(self.now, &mut bytes).unwrap();
        let (_, length) = polled.expect("a message");
        match ClcMessage::parse(&bytes[..length]).unwrap().0 {
            ClcMessage::SmcdAccept(accept) => (conn, accept),
            other => panic!("{other}"),
        }
    }

    /// The client agrees.
    fn carries(&mut self, conn: ConnId, accept: &SmcdAcceptConfirm) {
        let confirm = SmcdAcceptConfirm {
            gid: device(2).gid,
            ..*accept
        };
        self.receives(conn, &ClcMessage::SmcdConfirm(confirm));
        self.serve();
        assert!(self.endpoint.conn(conn).unwrap().state().is_some());
    }

    fn declined_as_out_of_sync(&mut self, conn: ConnId) {
        let decline = Decline {
            version: ClcVersion::V2,
            out_of_sync: true,
            peer_id: PeerId::default(),
            diagnosis: DiagnosisCode::OUT_OF_SYNC,
            os: PeerOs::LINUX,
        };
        self.receives(conn, &ClcMessage::Decline(decline));
        self.serve();
    }
}

#[test]
fn a_group_that_the_client_lost_is_given_up_when_it_is_unused() {
    //= D-056 test
    let mut server = Server::new();
    let (first, accept) = server.accepts();
    assert!(accept.first_contact);
    server.carries(first, &accept);
    // The Decline of another client must not end what works.
    let (second, accept) = server.accepts();
    assert!(!accept.first_contact);
    server.declined_as_out_of_sync(second);
    assert!(server.endpoint.conn(first).unwrap().state().is_some());
    assert_eq!(server.endpoint.usage().groups, 1);
    // But if the group is not used, it is as good as gone.
    let now = server.now;
    server.endpoint.conn(first).unwrap().abort(now);
    server.serve();
    server.wait(Duration::from_secs(200));
    assert!(server.endpoint.conn(first).is_none());
    let (third, accept) = server.accepts();
    assert!(!accept.first_contact);
    server.declined_as_out_of_sync(third);
    let (fourth, accept) = server.accepts();
    assert!(accept.first_contact);
    server.carries(fourth, &accept);
}
