//! What the peer sends, and its effect.

use smc_proto::endpoint::{ClcError, ClcProgress};
use smc_proto::id::ConnId;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{
    ClcMessage, ClcVersion, IsmArea, MAX_LENGTH, OfferedPath, Proposal, SmcdAcceptConfirm,
    SmcdAcceptConfirmV2, Subnets, V2Offer,
};
use smc_proto::wire::types::{BufferSize, DmbToken, Gid, Mac, PeerId, Release};

use super::{Hand, Mode, eid};

impl Hand {
    // ---- what the peer does -----------------------------------------------------------

    /// Its Proposal.
    #[must_use]
    pub fn proposal(&self) -> ClcMessage {
        let device = self.mode.device(2);
        let proposal = Proposal {
            version: ClcVersion::V1,
            v1: OfferedPath::SmcD,
            peer_id: PeerId::default(),
            gid: Gid::default(),
            mac: Mac::default(),
            ism: Some(IsmArea {
                gid: device.gid,
                chid: device.chid,
            }),
            subnets: Subnets::default(),
            v2_offer: None,
        };
        ClcMessage::Proposal(match self.mode.version {
            SmcVersion::V1 => proposal,
            SmcVersion::V2 => {
                let mut offer = V2Offer {
                    path: OfferedPath::SmcD,
                    release: Release::V2_0,
                    ..V2Offer::default()
                };
                offer.eids.push(eid()).expect("the first one");
                offer.smcd.devices.push(device).expect("the first one");
                Proposal {
                    version: ClcVersion::V2,
                    v1: OfferedPath::Neither,
                    ism: None,
                    v2_offer: Some(offer),
                    ..proposal
                }
            }
        })
    }

    /// Its half of a connection, with its DMB of this token.
    #[must_use]
    pub fn half(&self, first_contact: bool, token: u64) -> SmcdAcceptConfirm {
        let device = self.mode.device(2);
        let v2 = SmcdAcceptConfirmV2 {
            chid: device.chid,
            eid: eid(),
            gid_ext: device.gid_ext,
            ..SmcdAcceptConfirmV2::default()
        };
        SmcdAcceptConfirm {
            first_contact,
            gid: device.gid,
            token: DmbToken(token),
            dmbe_index: 0,
            buffer_size: BufferSize::K16,
            link_id: [0; 4],
            v2: (self.mode.version == SmcVersion::V2).then_some(v2),
        }
    }

    /// Bytes over TCP: what the engine makes of them.
    ///
    /// # Errors
    /// The engine's.
    pub fn octets(&mut self, conn: ConnId, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        let result = self.endpoint.handle_clc(self.now, conn, bytes);
        self.pump();
        result
    }

    /// A whole message, which must be taken.
    #[track_caller]
    pub fn clc(&mut self, conn: ConnId, message: &ClcMessage) {
        let mut bytes = [0; MAX_LENGTH];
        let len = message.emit(&mut bytes).expect("it fits");
        let taken = self.octets(conn, bytes.get(..len).unwrap_or_default());
        assert!(
            matches!(taken, Ok(ClcProgress::Consumed { len: l, .. }) if l == len),
            "{taken:?}"
        );
    }

    // ---- what both come to ------------------------------------------------------------

    /// A connection as client, whose peer gives it its DMB of this token.
    #[track_caller]
    pub fn client(&mut self, first_contact: bool, token: u64) -> ConnId {
        let conn = self.connect();
        let accept = self.half(first_contact, token);
        self.clc(conn, &ClcMessage::SmcdAccept(accept));
        conn
    }

    /// A connection as server whose Accept is kept.
    #[track_caller]
    pub fn accepts(&mut self) -> ConnId {
        let conn = self.listen();
        let proposal = self.proposal();
        self.clc(conn, &proposal);
        conn
    }

    /// A connection as server.
    #[track_caller]
    pub fn server(&mut self, first_contact: bool, token: u64) -> ConnId {
        let conn = self.accepts();
        let confirm = self.half(first_contact, token);
        self.clc(conn, &ClcMessage::SmcdConfirm(confirm));
        conn
    }

    /// A new group and its first connection.
    #[must_use]
    #[track_caller]
    pub fn connected(mode: Mode, client: bool) -> (Self, ConnId) {
        let mut hand = Self::new(mode);
        let conn = match client {
            true => hand.client(true, 0xa),
            false => hand.server(true, 0xa),
        };
        assert!(hand.is_established(conn), "{:?}", hand.events);
        (hand, conn)
    }
}
