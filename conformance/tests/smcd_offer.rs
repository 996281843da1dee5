//! What a client of SMC-D takes for an answer to its offer (docs/smc-d.md, 3).

use smc_proto::command::TcpCommand;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next};
use smc_proto::id::DeviceId;
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{
    ClcMessage, MAX_LENGTH, SmcdAcceptConfirm, SmcdAcceptConfirmV2, Subnets,
};
use smc_proto::wire::types::{BufferSize, Chid, DmbToken, Eid, IsmGid, Mac, PeerId};

const NOW: Instant = Instant::from_nanos(1);

#[test]
fn an_accept_of_a_device_that_was_not_offered_ends_the_connection() {
    //= D-026 test
    //= CASE-A08 test
    let offered = Chid(0x07c1);
    for chid in [offered, Chid(0), Chid(0xffff), Chid(0x07c0)] {
        let eid = Eid::user("SMCD-STORIES").expect("it is one");
        let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
        config.offers = Offers::SMCD_V2;
        config.v2.ueids.push(eid).expect("the first one");
        let mut client = Endpoint::new(config, 1, Owned::new(Limits::for_connections(1)));
        let gid = IsmGid {
            gid: 1,
            gid_ext: 0,
            chid: offered,
        };
        let ism = [IsmPath {
            attaches: true,
            ..IsmPath::new(DeviceId(0), gid)
        }];
        let paths = Paths {
            rnics: &[],
            ism: &ism,
        };
        let options = ConnOptions::new(Subnets::default());
        let conn = client.connect(NOW, options, paths).expect("a free slot");
        let mut octets = [0; MAX_LENGTH];
        let said = client.poll_clc(NOW, &mut octets).expect("it fits");
        assert!(said.is_some(), "the Proposal");
        let accept = ClcMessage::SmcdAccept(SmcdAcceptConfirm {
            first_contact: true,
            gid: 2,
            token: DmbToken(7),
            dmbe_index: 0,
            buffer_size: BufferSize::K16,
            link_id: [0; 4],
            v2: Some(SmcdAcceptConfirmV2 {
                chid,
                eid,
                ..SmcdAcceptConfirmV2::default()
            }),
        });
        let length = accept.emit(&mut octets).expect("it fits");
        let taken = client.handle_clc(NOW, conn, &octets[..length]);
        let fine = chid == offered;
        let next = if fine { Next::MaybeDecline } else { Next::Stop };
        let len = length;
        assert_eq!(taken, Ok(ClcProgress::Consumed { len, next }));
        let reset = (!fine).then_some((conn, TcpCommand::Reset));
        assert_eq!(client.poll_tcp(), reset, "{chid}");
        assert_eq!(client.usage().groups, u32::from(fine));
    }
}
