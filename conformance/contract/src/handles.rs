//! Handles, which only an engine can make.

use smc_proto::command::{BufferKind, RdmaCommand};
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::{BufferId, ConnId, LinkId};
use smc_proto::path::{LocalPath, RoceVersion};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Eid, Gid, Mac, PeerId};

use crate::DEVICE;

/// Handles of a host in its first conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handles {
    pub(crate) link: LinkId,
    pub(crate) conn: ConnId,
    pub(crate) rmb: BufferId,
    pub(crate) send: BufferId,
}

const NOW: Instant = Instant::from_nanos(1);

fn engine(number: u8) -> (Endpoint<Owned>, [LocalPath; 1]) {
    let mac = Mac([2, 0, 0, 0, 0, number]);
    let mut config = Config::new(PeerId::new(number.into(), mac));
    config.offers = Offers::SMCR_V2;
    let eid = Eid::user("CONTRACT").expect("an EID");
    config.v2.ueids.push(eid).expect("room for one");
    let mut gid = [0; 16];
    (gid[10], gid[11], gid[12], gid[15]) = (0xff, 0xff, 10, number);
    let mut path = LocalPath::new(DEVICE, 1, Gid(gid), mac);
    path.subnet_match = true;
    path.roce = RoceVersion::V2;
    let storage = Owned::new(Limits::for_connections(1));
    (Endpoint::new(config, number.into(), storage), [path])
}

impl Handles {
    /// A server's that accepts a client: it then asks for everything at once.
    pub(crate) fn new() -> Self {
        let ((mut client, from), (mut server, to)) = (engine(1), engine(2));
        let options = ConnOptions::new(Subnets::default());
        let asking = client.connect(NOW, options.clone(), &from);
        asking.expect("room for a connection");
        let mut bytes = [0; MAX_LENGTH];
        let proposal = client.poll_clc(NOW, &mut bytes).expect("room");
        let (_, length) = proposal.expect("a Proposal");
        let conn = server.listen(NOW, options).expect("room");
        let proposal = bytes.get(..length).expect("its octets");
        let _ = server.handle_clc(NOW, conn, proposal).expect("a Proposal");
        server.accept(NOW, conn, &to).expect("a Proposal to accept");
        let (mut link, mut rmb, mut send) = (None, None, None);
        while let Some(command) = server.poll_rdma(NOW, DEVICE) {
            match command {
                RdmaCommand::CreateQp { link: of, .. } => link = Some(of),
                RdmaCommand::AllocBuffer { buffer, kind, .. } => match kind {
                    BufferKind::Rmb => rmb = Some(buffer),
                    BufferKind::Send => send = Some(buffer),
                },
                _ => {}
            }
        }
        Self {
            link: link.expect("a link"),
            conn,
            rmb: rmb.expect("an RMB"),
            send: send.expect("a send buffer"),
        }
    }
}
