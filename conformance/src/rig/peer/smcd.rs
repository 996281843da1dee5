//! The messages of a peer of SMC-D.

use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{
    ClcMessage, ClcVersion, IsmArea, OfferedPath, Proposal, SmcdAcceptConfirm, SmcdAcceptConfirmV2,
    Subnets, V2Offer,
};
use smc_proto::wire::types::{BufferSize, Chid, DmbToken, Eid, Gid, IsmGid, Mac, PeerId, Release};

/// How the two sides speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Version of SMC-D.
    pub version: SmcVersion,
    /// Whether the peer's DMBs are mapped, and not moved to.
    pub maps: bool,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [
        Self::new(SmcVersion::V1, false),
        Self::new(SmcVersion::V1, true),
        Self::new(SmcVersion::V2, false),
        Self::new(SmcVersion::V2, true),
    ];

    /// Creates a mode.
    #[must_use]
    pub const fn new(version: SmcVersion, maps: bool) -> Self {
        Self { version, maps }
    }

    /// A device: 1 is the engine's, any other one a peer's. Those of version 2 emulate.
    #[must_use]
    pub const fn device(self, gid: u64) -> IsmGid {
        let (gid_ext, chid) = match self.version {
            SmcVersion::V1 => (0, Chid(0x07c1)),
            SmcVersion::V2 => (9, Chid::LOOPBACK),
        };
        IsmGid { gid, gid_ext, chid }
    }
}

/// The EID that both sides have.
#[must_use]
pub fn eid() -> Eid {
    crate::versions::eid("COMMON")
}

/// The peer's Proposal.
#[must_use]
pub fn proposal(mode: Mode) -> ClcMessage {
    let device = mode.device(2);
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
    ClcMessage::Proposal(match mode.version {
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

/// The peer's half of a connection, with its DMB of this token.
#[must_use]
pub fn half(mode: Mode, first_contact: bool, token: u64) -> SmcdAcceptConfirm {
    let device = mode.device(2);
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
        v2: (mode.version == SmcVersion::V2).then_some(v2),
    }
}
