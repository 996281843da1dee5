//! One of each message, for captures that tests write.

use core::net::{Ipv4Addr, Ipv6Addr};

use smc_proto::wire::clc::{AcceptConfirm, ClcVersion, Ipv6Prefix, OfferedPath, Proposal, Subnets};
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmLinkFlags, ConfirmRkey,
    ConfirmRkeyContinuation, DeleteLink, DeleteLinkFlags, DeleteRkey, Entries, LinkRToken,
    LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, AlertToken, BufferSize, DeleteLinkReason, Gid, LinkNumber, LinkUserId,
    Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

pub(crate) const CLIENT_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub(crate) const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(crate) const TOKEN: RToken = RToken {
    rkey: RKey(0x1234_5678),
    address: 0x7f00_0000_1000,
};

/// A version-2 Proposal that offers version 1, as Linux sends it.
pub(crate) fn proposal(gid: Gid, ipv6: bool) -> Proposal {
    let mut subnets = Subnets::default();
    if ipv6 {
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
        subnets
            .ipv6
            .push(Ipv6Prefix {
                address,
                length: 64,
            })
            .unwrap();
    } else {
        subnets.network = Ipv4Addr::new(10, 9, 9, 0);
        subnets.prefix_length = 24;
    }
    Proposal {
        version: ClcVersion::V2,
        v1: OfferedPath::SmcR,
        peer_id: PeerId::new(0x643d, CLIENT_MAC),
        gid,
        mac: CLIENT_MAC,
        ism: None,
        subnets,
        v2_offer: None,
    }
}

/// An Accept of first contact.
pub(crate) fn accept(gid: Gid) -> AcceptConfirm {
    AcceptConfirm {
        first_contact: true,
        peer_id: PeerId::new(0x19b4, SERVER_MAC),
        gid,
        mac: SERVER_MAC,
        qpn: Qpn::new(0x11),
        rtoken: TOKEN,
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(0xdead_beef),
        buffer_size: BufferSize::K64,
        mtu: Mtu::M1024,
        psn: Psn::new(0xff_fffe),
        v2: None,
    }
}

/// Every LLC message, requests from the server and replies from the client.
pub(crate) fn link_messages(client: Gid, server: Gid) -> Vec<LlcMessage<'static>> {
    let confirm = ConfirmLink {
        reply: false,
        flags: ConfirmLinkFlags::NO_EYE_CATCHER,
        mac: SERVER_MAC,
        gid: server,
        qpn: Qpn::new(0x11),
        link: LinkNumber(1),
        user_id: LinkUserId(0x101),
        max_links: 2,
        max_connections: 0,
    };
    let add = AddLink {
        reply: false,
        rejection: None,
        mac: SERVER_MAC,
        gid: server,
        qpn: Qpn::new(0x33),
        link: LinkNumber(2),
        mtu: Mtu::M1024,
        psn: Psn::new(5),
        extension: None,
    };
    let pair = RTokenPair {
        reference: TOKEN.rkey,
        new: TOKEN,
    };
    let continuation = AddLinkContinuation {
        reply: false,
        link: LinkNumber(2),
        remaining: 1,
        pairs: [pair].into_iter().collect(),
    };
    let other = LinkRToken {
        link: LinkNumber(2),
        rtoken: TOKEN,
    };
    let confirm_rkey = ConfirmRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        rtoken: TOKEN,
        other_links: 1,
        others: [other].into_iter().collect(),
    };
    let delete_rkey = DeleteRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        unknown: 0,
        rkeys: Entries::inline([TOKEN.rkey, RKey(9)]),
    };
    vec![
        LlcMessage::ConfirmLink(confirm),
        LlcMessage::ConfirmLink(ConfirmLink {
            reply: true,
            mac: CLIENT_MAC,
            gid: client,
            qpn: Qpn::new(0x22),
            ..confirm
        }),
        LlcMessage::AddLink(add),
        LlcMessage::AddLink(AddLink {
            reply: true,
            rejection: Some(AddLinkRejectReason::NO_ALTERNATE_PATH),
            ..add
        }),
        LlcMessage::AddLinkContinuation(continuation),
        LlcMessage::ConfirmRkey(confirm_rkey.clone()),
        LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: true,
            flags: RkeyFlags::NEGATIVE | RkeyFlags::RETRY,
            ..confirm_rkey
        }),
        LlcMessage::ConfirmRkeyContinuation(ConfirmRkeyContinuation {
            reply: false,
            flags: RkeyFlags::empty(),
            remaining: 1,
            others: [other].into_iter().collect(),
        }),
        LlcMessage::TestLink(TestLink {
            reply: true,
            user_data: *b"sixteen octets..",
        }),
        LlcMessage::DeleteRkey(delete_rkey),
        LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ORDERLY,
            link: LinkNumber(2),
            reason: DeleteLinkReason::OPERATOR,
        }),
    ]
}
