//! Correct conversations, for tests to spoil.

use core::net::Ipv4Addr;
use std::path::Path;

use smc_capture::follow::{Content, items};
use smc_capture::reader::CaptureReader;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, OfferedPath, PeerOs, Proposal, Subnets,
};
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmLinkFlags, ConfirmRkey, DeleteLink,
    DeleteLinkFlags, DeleteRkey, Entries, LinkRToken, LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AlertToken, BufferSize, DeleteLinkReason, DiagnosisCode, LinkNumber, LinkUserId, Mtu, PeerId,
    Psn, RKey, RToken, RmbeIndex,
};

use super::{CLIENT, Line, SERVER, Scenario, What, cdc, gid, mac, qpn};

/// The first packet number of a side on a link.
pub(crate) fn psn(link: usize, from: usize) -> Psn {
    Psn::new(0x10_0000 * (link as u32 + 1) + 0x1000 * from as u32)
}

/// Where an RMB of a host is on a link: the same element everywhere.
pub(crate) fn rtoken(host: usize, rmb: u32, link: usize) -> RToken {
    let number = 0x100 * (host as u32 + 1) + 0x10 * rmb + link as u32;
    RToken {
        rkey: RKey(number),
        address: u64::from(number) << 24,
    }
}

/// The token that a host gives a connection.
pub(crate) fn token(host: usize, connection: u32) -> u32 {
    0xa000 + 0x100 * host as u32 + connection
}

fn proposal() -> Proposal {
    let subnets = Subnets::ipv4(Ipv4Addr::new(10, 9, 9, 0), 24);
    Proposal {
        version: ClcVersion::V2,
        v1: OfferedPath::SmcR,
        peer_id: PeerId::new(CLIENT as u16, mac(CLIENT, 0)),
        gid: gid(CLIENT, 0),
        mac: mac(CLIENT, 0),
        ism: None,
        subnets,
        v2_offer: None,
    }
}

/// An Accept or Confirm for a connection over an RMB, on the first link.
pub(crate) fn end(host: usize, first_contact: bool, rmb: u32, connection: u32) -> AcceptConfirm {
    AcceptConfirm {
        first_contact,
        peer_id: PeerId::new(host as u16, mac(host, 0)),
        gid: gid(host, 0),
        mac: mac(host, 0),
        qpn: qpn(0, host),
        rtoken: rtoken(host, rmb, 0),
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(token(host, connection)),
        buffer_size: BufferSize::K16,
        mtu: Mtu::M1024,
        psn: psn(0, host),
        v2: None,
    }
}

pub(crate) fn confirm_link(link: usize, from: usize) -> ConfirmLink {
    ConfirmLink {
        reply: from == CLIENT,
        flags: ConfirmLinkFlags::NO_EYE_CATCHER,
        mac: mac(from, link),
        gid: gid(from, link),
        qpn: qpn(link, from),
        link: LinkNumber(link as u8 + 1),
        user_id: LinkUserId(link as u32),
        max_links: 2,
        max_connections: 0,
    }
}

pub(crate) fn add_link(from: usize) -> AddLink<'static> {
    AddLink {
        reply: from == CLIENT,
        rejection: None,
        mac: mac(from, 1),
        gid: gid(from, 1),
        qpn: qpn(1, from),
        link: LinkNumber(2),
        mtu: Mtu::M1024,
        psn: psn(1, from),
        extension: None,
    }
}

fn continuation(from: usize) -> AddLinkContinuation {
    let pair = RTokenPair {
        reference: rtoken(from, 1, 0).rkey,
        new: rtoken(from, 1, 1),
    };
    AddLinkContinuation {
        reply: from == CLIENT,
        link: LinkNumber(2),
        remaining: 1,
        pairs: [pair].into_iter().collect(),
    }
}

pub(crate) fn confirm_rkey(host: usize, reply: bool) -> ConfirmRkey {
    let other = LinkRToken {
        link: LinkNumber(2),
        rtoken: rtoken(host, 2, 1),
    };
    ConfirmRkey {
        reply,
        flags: RkeyFlags::empty(),
        rtoken: rtoken(host, 2, 0),
        other_links: 1,
        others: [other].into_iter().collect(),
    }
}

pub(crate) fn delete_rkey(host: usize, reply: bool) -> DeleteRkey<'static> {
    DeleteRkey {
        reply,
        flags: RkeyFlags::empty(),
        unknown: 0,
        rkeys: Entries::inline([rtoken(host, 2, 0).rkey]),
    }
}

pub(crate) fn delete_link(link: u8, flags: DeleteLinkFlags, reply: bool) -> DeleteLink {
    DeleteLink {
        reply,
        flags,
        link: LinkNumber(link),
        reason: if reply {
            DeleteLinkReason(0)
        } else {
            DeleteLinkReason::OPERATOR
        },
    }
}

pub(crate) fn test_link(reply: bool) -> LlcMessage<'static> {
    LlcMessage::TestLink(TestLink {
        reply,
        user_data: *b"sixteen octets..",
    })
}

/// A WRITE into the element of an RMB of `to`.
pub(crate) fn write(link: usize, to: usize, rmb: u32, offset: u64, length: u32) -> What {
    let rtoken = rtoken(to, rmb, link);
    What::Write {
        rkey: rtoken.rkey.0,
        address: rtoken.address + offset,
        length,
        mtu: 1024,
    }
}

fn flagged(mut cdc: Cdc, producer: ProducerFlags, connection: ConnectionFlags) -> Cdc {
    cdc.producer_flags = producer;
    cdc.connection_flags = connection;
    cdc
}

pub(crate) fn decline(host: usize, diagnosis: DiagnosisCode) -> ClcMessage {
    ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::new(host as u16, mac(host, 0)),
        diagnosis,
        os: PeerOs::UNKNOWN,
    })
}

/// A whole conversation of version 1: a first contact with two links, urgent data, a
/// change of link, a second connection with RMBs of its own, ends of all kinds, and a
/// connection that is declined.
pub(crate) fn whole() -> Scenario {
    const NONE: ProducerFlags = ProducerFlags::empty();
    const OPEN: ConnectionFlags = ConnectionFlags::empty();
    let urgent = ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT;
    let validation = ProducerFlags::FAILOVER_VALIDATION;
    let (done, closed) = (
        ConnectionFlags::SENDING_DONE,
        ConnectionFlags::PEER_CONNECTION_CLOSED,
    );
    let aborted = ConnectionFlags::ABNORMAL_CLOSE;
    let hand = |name, on| {
        let options = What::Handshake {
            client: true,
            server: true,
        };
        Line::new(name, on, CLIENT, options)
    };
    let clc = |name, on, from, message| Line::new(name, on, from, What::Clc(message));
    let llc = |name, on, from, message| Line::new(name, on, from, What::Llc(message));
    let cdc_line = |name, on, from, message| Line::new(name, on, from, What::Cdc(message));
    // Tokens of the receivers.
    let (to_server, to_client) = (token(SERVER, 1), token(CLIENT, 1));
    let (to_server_2, to_client_2) = (token(SERVER, 2), token(CLIENT, 2));
    let all = DeleteLinkFlags::ALL;
    Scenario(vec![
        hand("syn 1", 0),
        clc("proposal 1", 0, CLIENT, ClcMessage::Proposal(proposal())),
        clc(
            "accept 1",
            0,
            SERVER,
            ClcMessage::Accept(end(SERVER, true, 1, 1)),
        ),
        clc(
            "confirm 1",
            0,
            CLIENT,
            ClcMessage::Confirm(end(CLIENT, true, 1, 1)),
        ),
        llc(
            "confirm link",
            0,
            SERVER,
            LlcMessage::ConfirmLink(confirm_link(0, SERVER)),
        ),
        llc(
            "confirm link reply",
            0,
            CLIENT,
            LlcMessage::ConfirmLink(confirm_link(0, CLIENT)),
        ),
        llc("add link", 0, SERVER, LlcMessage::AddLink(add_link(SERVER))),
        llc(
            "add link reply",
            0,
            CLIENT,
            LlcMessage::AddLink(add_link(CLIENT)),
        ),
        llc(
            "continuation",
            0,
            SERVER,
            LlcMessage::AddLinkContinuation(continuation(SERVER)),
        ),
        llc(
            "continuation reply",
            0,
            CLIENT,
            LlcMessage::AddLinkContinuation(continuation(CLIENT)),
        ),
        llc(
            "confirm link 2",
            1,
            SERVER,
            LlcMessage::ConfirmLink(confirm_link(1, SERVER)),
        ),
        llc(
            "confirm link 2 reply",
            1,
            CLIENT,
            LlcMessage::ConfirmLink(confirm_link(1, CLIENT)),
        ),
        // Data, then a byte of urgent data.
        Line::new("write 1", 0, CLIENT, write(0, SERVER, 1, 0, 2000)),
        cdc_line("cdc 1", 0, CLIENT, cdc(1, to_server, 2000, 0)),
        Line::new("write 2", 0, CLIENT, write(0, SERVER, 1, 2000, 1)),
        cdc_line(
            "cdc 2",
            0,
            CLIENT,
            flagged(cdc(2, to_server, 2001, 0), urgent, OPEN),
        ),
        cdc_line("update", 0, SERVER, cdc(1, to_client, 0, 2001)),
        Line::new("write 3", 0, CLIENT, write(0, SERVER, 1, 2001, 10)),
        cdc_line("cdc 3", 0, CLIENT, cdc(3, to_server, 2011, 0)),
        // The client's side changes its link.
        cdc_line(
            "validation",
            1,
            CLIENT,
            flagged(cdc(3, to_server, 0, 0), validation, OPEN),
        ),
        Line::new("write 4", 1, CLIENT, write(1, SERVER, 1, 2011, 5)),
        cdc_line("cdc 4", 1, CLIENT, cdc(4, to_server, 2016, 0)),
        llc("test link", 1, SERVER, test_link(false)),
        llc("test link reply", 1, CLIENT, test_link(true)),
        // Another connection, over RMBs of its own.
        hand("syn 2", 1),
        clc("proposal 2", 1, CLIENT, ClcMessage::Proposal(proposal())),
        llc(
            "confirm rkey",
            0,
            SERVER,
            LlcMessage::ConfirmRkey(confirm_rkey(SERVER, false)),
        ),
        llc(
            "confirm rkey reply",
            0,
            CLIENT,
            LlcMessage::ConfirmRkey(confirm_rkey(SERVER, true)),
        ),
        clc(
            "accept 2",
            1,
            SERVER,
            ClcMessage::Accept(end(SERVER, false, 2, 2)),
        ),
        llc(
            "confirm rkey 2",
            0,
            CLIENT,
            LlcMessage::ConfirmRkey(confirm_rkey(CLIENT, false)),
        ),
        llc(
            "confirm rkey 2 reply",
            0,
            SERVER,
            LlcMessage::ConfirmRkey(confirm_rkey(CLIENT, true)),
        ),
        clc(
            "confirm 2",
            1,
            CLIENT,
            ClcMessage::Confirm(end(CLIENT, false, 2, 2)),
        ),
        Line::new("write 5", 0, SERVER, write(0, CLIENT, 2, 0, 100)),
        cdc_line("cdc 5", 0, SERVER, cdc(1, to_client_2, 100, 0)),
        cdc_line(
            "abort",
            0,
            CLIENT,
            flagged(cdc(1, to_server_2, 0, 0), NONE, aborted),
        ),
        cdc_line(
            "abort reply",
            0,
            SERVER,
            flagged(cdc(2, to_client_2, 100, 0), NONE, aborted),
        ),
        llc(
            "delete rkey",
            0,
            SERVER,
            LlcMessage::DeleteRkey(delete_rkey(SERVER, false)),
        ),
        llc(
            "delete rkey reply",
            0,
            CLIENT,
            LlcMessage::DeleteRkey(delete_rkey(SERVER, true)),
        ),
        // The first connection ends.
        cdc_line(
            "done",
            1,
            CLIENT,
            flagged(cdc(5, to_server, 2016, 0), NONE, done),
        ),
        cdc_line(
            "closed",
            0,
            SERVER,
            flagged(cdc(2, to_client, 0, 2016), NONE, done | closed),
        ),
        cdc_line(
            "closed too",
            1,
            CLIENT,
            flagged(cdc(6, to_server, 2016, 0), NONE, done | closed),
        ),
        // A connection that is declined.
        hand("syn 3", 2),
        clc("proposal 3", 2, CLIENT, ClcMessage::Proposal(proposal())),
        clc(
            "decline",
            2,
            SERVER,
            decline(SERVER, DiagnosisCode(0x0301_0000)),
        ),
        Line::new("data", 2, CLIENT, What::Tcp(b"over TCP then".to_vec())),
        // A link ends, then the group.
        llc(
            "delete link",
            0,
            SERVER,
            LlcMessage::DeleteLink(delete_link(1, DeleteLinkFlags::ORDERLY, false)),
        ),
        llc(
            "delete link reply",
            0,
            CLIENT,
            LlcMessage::DeleteLink(delete_link(1, DeleteLinkFlags::ORDERLY, true)),
        ),
        llc(
            "delete all",
            1,
            SERVER,
            LlcMessage::DeleteLink(delete_link(0, all, false)),
        ),
    ])
}

/// The CLC messages of the first connection in a capture of kernels.
pub(crate) fn of_kernels(name: &str) -> Scenario {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/vectors");
    let capture = CaptureReader::open(vectors.join(name)).expect("a capture");
    let options = What::Handshake {
        client: true,
        server: true,
    };
    let mut scenario = Scenario(vec![Line::new("syn", 0, CLIENT, options)]);
    for item in items(capture) {
        let Content::Clc(message) = item.expect("an item").content else {
            continue;
        };
        let (name, from) = match message {
            ClcMessage::Proposal(_) => ("proposal", CLIENT),
            ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_) => ("accept", SERVER),
            ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_) => ("confirm", CLIENT),
            ClcMessage::Decline(_) => ("decline", SERVER),
        };
        scenario
            .0
            .push(Line::new(name, 0, from, What::Clc(message)));
        if name == "confirm" {
            break;
        }
    }
    scenario
}
