//! What is asked of an RNIC, and what never is (RFC 7609 1.1, 2.1, 3.3).

use std::collections::BTreeSet;

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::QpAddress;
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{PeerId, Psn, Qpn};

/// A queue pair of the peer as CLC or LLC announced it.
fn announced(link: u8, psn: u32) -> QpAddress {
    let (gid, mac) = Peer::port(link);
    QpAddress::new(Peer::qpn_of(link), Psn::new(psn), gid, mac)
}

#[test]
fn queue_pairs_are_connected_by_what_clc_and_llc_announce_and_nothing_else_is_needed() {
    //= LINK-002 test
    //= LINK-001 test
    //= CLC-042 test
    for start in [Script::two_link_client, Script::two_link_server] {
        let (s, _, _) = start();
        // By hand from INIT to RTS: no connection manager, no address to resolve, no
        // queue pair of another type. A new kind of command must be checked here.
        for kind in Kind::CONTROL {
            let expected = match kind {
                Kind::CreateQp | Kind::ConnectQp | Kind::ActivateQp => 2,
                Kind::QpToError | Kind::DestroyQp => 0,
                Kind::Alloc => 2,
                Kind::Register => 4,
                Kind::Deregister | Kind::Free | Kind::Clear => 0,
                Kind::Write | Kind::Send => unreachable!("not a control command"),
            };
            if s.adapter.asked(kind) != expected {
                s.fail(format_args!("{kind}: {} times", s.adapter.asked(kind)));
            }
        }
        let peers: Vec<_> = s.adapter.connected.iter().map(|(peer, _)| *peer).collect();
        check!(s, peers, vec![announced(1, 0x77), announced(2, 2)]);
        s.end();
    }
}

#[test]
fn llc_is_sent_on_links_of_the_group_and_writes_nothing() {
    //= LLC-002 test
    //= LLC-001 test
    let (mut s, conn, _) = Script::two_link_server();
    let sent = s.adapter.asked(Kind::Send);
    // One of each: a request of this side, and answers to the peer's.
    let second = s.server_wants_rmb();
    let request = s.expect_confirm_rkey();
    s.over(2)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(request)));
    s.expect_accept(second);
    for message in [
        Peer::confirm_rkey_on(1, 7, &[2]),
        Peer::delete_rkey_on(1, &[7]),
        Peer::test_link(1, false),
    ] {
        s.over(1).send(message);
        let answer = s.expect_llc();
        check!(s, answer.emit_short(SmcVersion::V1).unwrap().len(), 44);
    }
    let link = s.link_no(2);
    s.endpoint.delete_link(s.now, link);
    s.pump();
    let own = s.over(1).expect_delete_link();
    s.agree(1, own);
    check!(s, s.adapter.asked(Kind::Send), sent + 5);
    check!(s, s.adapter.asked(Kind::Write), 0);
    s.write(conn, 5);
    check!(s, s.adapter.asked(Kind::Write), 1);
    s.end();
}

#[test]
fn an_rmb_is_registered_for_one_peer_only() {
    //= RMB-007 test
    //= SEC-006 test
    //= RENDEZVOUS-055 test
    let (mut s, _, _) = Script::two_link_server();
    s.server_joins(2);
    let one = s.group.expect("a group");
    let first_peer = s.peer;
    s.peer.id = PeerId::new(10, s.peer.mac);
    s.peer.qpn = Qpn::new(0x99);
    let (conn, accept) = s.server_accepts();
    check!(s, accept.first_contact, true);
    let link = s.link_of(accept.qpn).expect("a queue pair");
    s.confirm(conn, s.peer.accept(1));
    s.expect_confirm_link();
    s.send_on(link, s.peer.confirm_link_reply());
    let offer = s.expect_add_link();
    s.send_on(link, Peer::rejects(offer.link.0));
    s.expect_established(conn);
    let other = s.group.expect("another group");
    check!(s, one == other, false);
    s.peer = first_peer;

    let mut seen = BTreeSet::new();
    let registrations: Vec<_> = s.adapter.registrations().collect();
    check!(s, registrations.len(), 6);
    for (buffer, links) in registrations {
        let mut groups = BTreeSet::new();
        for link in links {
            let status = s.endpoint.link(link).expect("a link");
            groups.insert(format!("{}", status.group));
        }
        if groups.len() != 1 {
            s.fail(format_args!("{buffer} is registered for {groups:?}"));
        }
        seen.append(&mut groups);
    }
    check!(s, seen.len(), 2);
    s.end();
}
