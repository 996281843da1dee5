//! The messages of a Linux peer of version 2 with one soft-RoCE port.

use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{
    AcceptConfirm, AcceptConfirmV2, ClcVersion, FirstContactExtension, GidList, OfferedPath,
    Proposal, Subnets, V2Offer,
};
use smc_proto::wire::llc::{
    AddLink, AddLinkExtension, ConfirmLink, ConfirmLinkFlags, LLC_LENGTH, LLC_V2_MAX_LENGTH,
    LlcMessage, RTokenPair,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, AlertToken, BufferSize, FeatureMask, Gid, Hostname, LinkNumber,
    LinkUserId, Mac, Mtu, PeerId, PeerOs, Psn, Qpn, RKey, RToken, Release, RmbeIndex,
};

use crate::rig::{gid, mac};
use crate::versions::eid;

/// The peer's first queue pair.
pub const QPN: Qpn = Qpn::new(0x11);

/// A Proposal of version 2 alone, which leaves the identity out.
#[must_use]
pub fn proposal() -> Proposal {
    let mut offer = V2Offer {
        path: OfferedPath::SmcR,
        release: Release::V2_1,
        gid: gid(2, 0),
        max_connections: 255,
        max_links: 2,
        features: FeatureMask::EMULATED_ISM,
        ..V2Offer::default()
    };
    offer.eids.push(eid("COMMON")).expect("the first");
    offering(offer)
}

/// A Proposal of version 2 alone that offers this, and leaves the identity out.
#[must_use]
pub fn offering(offer: V2Offer) -> Proposal {
    Proposal {
        version: ClcVersion::V2,
        v1: OfferedPath::Neither,
        peer_id: PeerId::default(),
        gid: Gid::default(),
        mac: Mac::default(),
        ism: None,
        subnets: Subnets::default(),
        v2_offer: Some(offer),
    }
}

/// Accept or Confirm of a first contact.
#[must_use]
pub fn half() -> AcceptConfirm {
    let mut gids = GidList::new();
    gids.push(gid(2, 0)).expect("the first");
    AcceptConfirm {
        first_contact: true,
        peer_id: PeerId::new(2, mac(2, 0)),
        gid: gid(2, 0),
        mac: mac(2, 0),
        qpn: QPN,
        rtoken: rmb(1),
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(1),
        buffer_size: BufferSize::K16,
        mtu: Mtu::M1024,
        psn: Psn::new(7),
        v2: Some(AcceptConfirmV2 {
            eid: eid("COMMON"),
            extension: FirstContactExtension {
                direct: true,
                os: PeerOs::LINUX,
                release: Release::V2_1,
                hostname: Hostname::new("peer"),
                max_connections: 255,
                max_links: 2,
                features: FeatureMask::EMULATED_ISM,
            },
            gids,
        }),
    }
}

/// The peer's RMB of this number, on its first link.
#[must_use]
pub const fn rmb(number: u32) -> RToken {
    RToken {
        rkey: RKey(0x200 + number),
        address: 0xff00_0000 + (number as u64) * 0x10_0000,
    }
}

/// CONFIRM LINK of the peer's first queue pair.
#[must_use]
pub fn confirm_link(reply: bool, link: LinkNumber) -> ConfirmLink {
    ConfirmLink {
        reply,
        flags: ConfirmLinkFlags::all(),
        mac: mac(2, 0),
        gid: gid(2, 0),
        qpn: QPN,
        link,
        user_id: LinkUserId(0x101),
        max_links: 2,
        max_connections: 255,
    }
}

/// ADD LINK of the peer for a port.
#[must_use]
pub const fn add_link(reply: bool, link: LinkNumber, rnic: u8) -> AddLink<'static> {
    AddLink {
        reply,
        rejection: None,
        mac: mac(2, rnic),
        gid: gid(2, rnic),
        qpn: Qpn::new(0x12),
        link,
        mtu: Mtu::M1024,
        psn: Psn::new(9),
        extension: None,
    }
}

/// ADD LINK with its extension, as bytes of a little-endian machine.
#[must_use]
pub fn extended(link: AddLink<'_>, rtokens: &[RTokenPair]) -> Vec<u8> {
    bytes(&LlcMessage::AddLink(AddLink {
        extension: Some(AddLinkExtension {
            direct: true,
            target_gid: link.gid,
            rtokens: rtokens.into(),
        }),
        ..link
    }))
}

/// A rejection, which has no extension.
#[must_use]
pub fn rejection(mut link: AddLink<'_>) -> Vec<u8> {
    link.reply = true;
    link.rejection = Some(AddLinkRejectReason::NO_ALTERNATE_PATH);
    bytes(&LlcMessage::AddLink(link))
}

/// A message as a little-endian machine writes it: its length, and the number of RTokens.
#[must_use]
pub fn bytes(message: &LlcMessage<'_>) -> Vec<u8> {
    let mut bytes = vec![0; LLC_V2_MAX_LENGTH];
    let length = message
        .emit(SmcVersion::V2, &mut bytes)
        .expect("the longest fits");
    bytes.truncate(length);
    bytes.swap(1, 2);
    if let LlcMessage::AddLink(_) = message
        && length > LLC_LENGTH
    {
        bytes[71] = 0;
    }
    bytes
}
