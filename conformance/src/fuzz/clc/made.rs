//! CLC messages made of bytes.

use smc_proto::wire::clc::{
    AcceptConfirm, AcceptConfirmV2, ClcMessage, ClcVersion, Decline, FirstContactExtension,
    Ipv6Prefix, IsmArea, IsmGidEntry, OfferedPath, PeerOs, Proposal, SmcdAcceptConfirm,
    SmcdAcceptConfirmV2, Subnets, V2Offer,
};
use smc_proto::wire::types::{
    AlertToken, BufferSize, Chid, DiagnosisCode, DmbToken, Eid, FeatureMask, Gid, Hostname, Mac,
    Mtu, PeerId, Psn, Qpn, RKey, RToken, Release, RmbeIndex,
};

use crate::fuzz::Reader;

/// A message as it is read: what does not apply is the default.
pub fn clc_message(r: &mut Reader<'_>) -> ClcMessage {
    match r.below(6) {
        0 => ClcMessage::Proposal(proposal(r)),
        1 => ClcMessage::Accept(accept_confirm(r, false)),
        2 => ClcMessage::Confirm(accept_confirm(r, true)),
        3 => ClcMessage::SmcdAccept(smcd_accept_confirm(r)),
        4 => ClcMessage::SmcdConfirm(smcd_accept_confirm(r)),
        _ => ClcMessage::Decline(decline(r)),
    }
}

fn version(r: &mut Reader<'_>) -> ClcVersion {
    ClcVersion::new(r.u8() & 0x0f).unwrap_or(ClcVersion::V1)
}

fn decline(r: &mut Reader<'_>) -> Decline {
    Decline {
        version: version(r),
        out_of_sync: r.flag(),
        peer_id: PeerId(r.array()),
        diagnosis: DiagnosisCode(r.u32()),
        os: PeerOs(r.u8() & 0x0f),
    }
}

fn accept_confirm(r: &mut Reader<'_>, confirm: bool) -> AcceptConfirm {
    let first_contact = r.flag();
    AcceptConfirm {
        first_contact,
        peer_id: PeerId(r.array()),
        gid: Gid(r.array()),
        mac: Mac(r.array()),
        qpn: Qpn::new(r.u32()),
        rtoken: RToken {
            rkey: RKey(r.u32()),
            address: r.u64(),
        },
        rmbe_index: RmbeIndex(r.u8()),
        alert_token: AlertToken(r.u32()),
        buffer_size: BufferSize::from_code(r.u8()),
        mtu: Mtu::from_code(r.u8()),
        psn: Psn::new(r.u32()),
        v2: r.flag().then(|| {
            let mut v2 = AcceptConfirmV2 {
                eid: Eid(r.array()),
                ..AcceptConfirmV2::default()
            };
            if first_contact {
                v2.extension = extension(r, true);
                for _ in 0..if confirm { r.below(9) } else { 0 } {
                    v2.gids.push(Gid(r.array())).expect("at most eight");
                }
            }
            v2
        }),
    }
}

fn smcd_accept_confirm(r: &mut Reader<'_>) -> SmcdAcceptConfirm {
    let first_contact = r.flag();
    SmcdAcceptConfirm {
        first_contact,
        gid: r.u64(),
        token: DmbToken(r.u64()),
        dmbe_index: r.u8(),
        buffer_size: BufferSize::from_code(r.u8()),
        link_id: r.array(),
        v2: r.flag().then(|| SmcdAcceptConfirmV2 {
            chid: Chid(r.u16()),
            eid: Eid(r.array()),
            gid_ext: r.u64(),
            extension: if first_contact {
                extension(r, false)
            } else {
                FirstContactExtension::default()
            },
        }),
    }
}

fn extension(r: &mut Reader<'_>, smcr: bool) -> FirstContactExtension {
    let mut extension = FirstContactExtension {
        os: PeerOs(r.u8() & 0x0f),
        release: Release::new(r.u8() & 3),
        hostname: Hostname(r.array()),
        ..FirstContactExtension::default()
    };
    if smcr {
        extension.direct = r.flag();
    }
    if extension.release.has_limits() {
        extension.features = FeatureMask::from_bits_retain(r.u16());
        if smcr {
            extension.max_connections = r.u8();
            extension.max_links = r.u8();
        }
    }
    extension
}

fn path(r: &mut Reader<'_>) -> OfferedPath {
    [
        OfferedPath::SmcR,
        OfferedPath::SmcD,
        OfferedPath::Neither,
        OfferedPath::Both,
    ][r.below(4)]
}

fn v2_offer(r: &mut Reader<'_>) -> Option<V2Offer> {
    let mut offer = V2Offer {
        path: path(r),
        ..V2Offer::default()
    };
    if offer.path == OfferedPath::Neither {
        return None;
    }
    offer.release = Release::new(r.u8() & 3);
    offer.gid = Gid(r.array());
    if offer.release.has_limits() {
        offer.max_connections = r.u8();
        offer.max_links = r.u8();
        offer.features = FeatureMask::from_bits_retain(r.u16());
    }
    for _ in 0..r.below(9) {
        offer.eids.push(Eid(r.array())).expect("at most eight");
    }
    if offer.path.has_smcd() {
        offer.smcd.seid = r.flag().then(|| Eid(r.array()));
        for _ in 0..r.below(9) {
            let chid = if r.flag() {
                Chid::LOOPBACK
            } else {
                Chid(r.u16())
            };
            let entry = IsmGidEntry { gid: r.u64(), chid };
            let devices = &mut offer.smcd.devices;
            devices.push_entry(entry).expect("at most eight");
        }
    }
    Some(offer)
}

fn proposal(r: &mut Reader<'_>) -> Proposal {
    let version = version(r);
    let v1 = path(r);
    let mut subnets = Subnets::default();
    if version.is_v1() || v1 != OfferedPath::Neither {
        subnets.network = r.array::<4>().into();
        subnets.prefix_length = r.u8();
        for _ in 0..r.below(9) {
            let prefix = Ipv6Prefix {
                address: r.array::<16>().into(),
                length: r.u8(),
            };
            subnets.ipv6.push(prefix).expect("at most eight");
        }
    }
    // The area is there in version 2 always, in version 1 only if it is filled.
    let has_ism = v1.has_smcd() && (!version.is_v1() || r.flag());
    Proposal {
        version,
        v1,
        peer_id: PeerId(r.array()),
        gid: Gid(r.array()),
        mac: Mac(r.array()),
        ism: has_ism.then(|| IsmArea {
            gid: r.u64(),
            chid: Chid(r.u16()),
        }),
        subnets,
        v2_offer: if version.is_v1() { None } else { v2_offer(r) },
    }
}
