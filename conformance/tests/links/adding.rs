//! Further links of a group: which are made, and how (RFC 7609 2.2, 3.5.1.6, C.8).

use conformance::check;
use conformance::script::{Peer, Script, rnic};
use smc_proto::wire::types::{AddLinkRejectReason, DeleteLinkReason};

#[test]
fn a_server_with_two_rnics_and_a_client_with_two_make_a_symmetric_group() {
    //= RENDEZVOUS-027 test
    //= RENDEZVOUS-034 test
    //= LLC-018 test
    //= LLC-019 test
    //= LLC-026 test
    //= LLC-028 test
    //= LLC-032 test
    //= LINK-026 test
    let mut s = Script::server().rnics(2);
    let (conn, accept) = s.server_asks_to_confirm();
    s.over(1).send(Peer::confirms(1, 1));
    let offer = s.over(1).expect_add_link();
    check!(s, offer.link.0, 2);
    check!(s, (offer.gid, offer.mac), (rnic(2).gid, rnic(2).mac));
    s.over(1).send(Peer::takes(2, 2));
    let request = s.over(1).expect_continuation();
    check!(s, (request.link.0, request.remaining), (2, 1));
    check!(s, request.pairs[0].reference, accept.rtoken.rkey);
    s.expect_silence();
    s.over(1).send(Peer::continuation(1, 2, &[1], true));
    let request = s.over(2).expect_confirm_link();
    check!(s, (request.link.0, request.gid), (2, rnic(2).gid));
    s.expect_silence();
    s.expect_no_link_event();
    s.over(2).send(Peer::confirms(2, 2));
    s.expect_established(conn);
    s.expect_link_up(1);
    s.expect_link_up(2);
    s.expect_silence();
    s.end();
}

#[test]
fn a_client_with_two_rnics_and_a_server_with_two_make_a_symmetric_group() {
    //= RENDEZVOUS-034 test
    //= LLC-022 test
    //= LLC-023 test
    //= LLC-037 test
    //= LLC-009 test
    //= LLC-013 test
    let mut s = Script::client().rnics(2);
    let (conn, confirm) = s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 2));
    let reply = s.over(1).expect_add_link_reply();
    check!(s, (reply.rejection, reply.link.0), (None, 2));
    check!(s, (reply.gid, reply.mac), (rnic(2).gid, rnic(2).mac));
    s.over(1).send(Peer::continuation(1, 2, &[1], false));
    let reply = s.over(1).expect_continuation_reply();
    check!(s, (reply.link.0, reply.remaining), (2, 1));
    check!(s, reply.pairs[0].reference, confirm.rtoken.rkey);
    s.expect_silence();
    s.over(2).send(Peer::asks(2, 2));
    let reply = s.over(2).expect_confirm_link_reply();
    check!(s, (reply.link.0, reply.gid), (2, rnic(2).gid));
    s.expect_established(conn);
    s.expect_link_up(1);
    s.expect_link_up(2);
    s.expect_silence();
    s.end();
}

// Table 6.3: what a client makes of an offer.

#[test]
fn offered_the_same_server_rnic_a_client_without_a_spare_one_rejects() {
    //= RENDEZVOUS-031 test
    //= LLC-020 test
    //= LINK-005 test
    //= LINK-007 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 1));
    let reply = s.over(1).expect_add_link_rejection();
    check!(s, reply.link.0, 2);
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn offered_the_same_server_rnic_a_client_with_a_spare_one_takes_an_asymmetric_link() {
    //= LLC-021 test
    //= LINK-008 test
    let mut s = Script::client().rnics(2);
    let (conn, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 1));
    let reply = s.over(1).expect_add_link_reply();
    check!(s, (reply.rejection, reply.gid), (None, rnic(2).gid));
    s.peer_asks_continuations(1, 2, &[1]);
    s.over(2).send(Peer::asks(2, 1));
    s.over(2).expect_confirm_link_reply();
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn offered_another_server_rnic_a_client_with_a_spare_one_takes_a_symmetric_link() {
    //= LLC-022 test
    let mut s = Script::client().rnics(2);
    s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 2));
    let reply = s.over(1).expect_add_link_reply();
    check!(s, (reply.rejection, reply.gid), (None, rnic(2).gid));
    s.end();
}

#[test]
fn offered_another_server_rnic_a_client_without_a_spare_one_takes_an_asymmetric_link() {
    //= LLC-022 test
    //= LINK-008 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 2));
    let reply = s.over(1).expect_add_link_reply();
    check!(s, (reply.rejection, reply.gid), (None, rnic(1).gid));
    s.peer_asks_continuations(1, 2, &[1]);
    s.over(2).send(Peer::asks(2, 2));
    s.over(2).expect_confirm_link_reply();
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

// The same choice as the server finds it in the client's answer.

#[test]
fn a_server_with_one_rnic_offers_it_again_and_a_client_with_two_makes_it_a_link() {
    //= RENDEZVOUS-027 test
    //= LINK-005 test
    //= LINK-008 test
    let mut s = Script::server();
    let (conn, _) = s.server_asks_to_confirm();
    s.over(1).send(Peer::confirms(1, 1));
    check!(s, s.over(1).expect_add_link().gid, rnic(1).gid);
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_server_with_two_rnics_and_a_client_with_one_make_an_asymmetric_link() {
    //= LINK-008 test
    //= LINK-039 test
    let mut s = Script::server().rnics(2);
    let (conn, _) = s.server_adds_link();
    s.peer_joins(1, 2, 1, &[1]);
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 2);
    s.write(conn, 100);
    let link = s.link_no(1);
    check!(s, s.expect_cdc().0, link);
    s.end();
}

#[test]
fn an_answer_that_would_make_a_parallel_link_is_undone_over_the_other_link() {
    //= CASE-H16 test
    //= CASE-G13 test
    //= LLC-029 test
    //= LINK-007 test
    let mut s = Script::server();
    let (conn, _) = s.server_adds_link();
    s.over(1).send(Peer::takes(2, 1));
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 2);
    s.expect_silence();
    s.over(1)
        .send(Peer::delete_link_with(request.flags, 2, true));
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn an_answer_with_an_undefined_mtu_is_undone() {
    //= CASE-H16 test
    //= LLC-025 test
    for code in [0, 6, 15] {
        let (mut s, conn, _) = Script::server_offers_second();
        let mtu = smc_proto::wire::types::Mtu::from_code(code);
        s.over(1).send(Peer::takes_with(2, 2, |m| m.mtu = mtu));
        let request = s.over(1).expect_delete_link();
        s.over(1)
            .send(Peer::delete_link_with(request.flags, 2, true));
        s.expect_established(conn);
        s.end();
    }
}

#[test]
fn a_client_does_not_take_a_second_asymmetric_link() {
    //= LLC-031 test
    //= LINK-020 test
    //= LINK-038 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    s.peer_adds(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.over(1).send(Peer::offer(3, 3));
    s.over(1).expect_add_link_rejection();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_server_undoes_a_second_asymmetric_link() {
    //= LINK-020 test
    //= LINK-038 test
    let mut s = Script::server().rnics(3);
    let (conn, _) = s.server_adds_link();
    s.peer_joins(1, 2, 1, &[1]);
    s.expect_established(conn);
    // The client announces that it has another port, and then does not use it.
    s.over(1).send(Peer::hint(2));
    check!(s, s.over(1).expect_add_link().gid, rnic(3).gid);
    s.over(1).send(Peer::takes(3, 1));
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 3);
    s.over(1)
        .send(Peer::delete_link_with(request.flags, 3, true));
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn offers_that_lead_nowhere_are_rejected() {
    //= CASE-H16 test
    //= CASE-D10 test
    //= LLC-024 test
    //= LINK-025 test
    type Spoil = fn(&mut smc_proto::wire::llc::AddLink);
    let spoils: [(Spoil, AddLinkRejectReason); 5] = [
        (
            |m| m.gid = rnic(1).gid,
            AddLinkRejectReason::NO_ALTERNATE_PATH,
        ),
        (
            |m| m.gid = rnic(2).gid,
            AddLinkRejectReason::NO_ALTERNATE_PATH,
        ),
        (|m| m.link.0 = 0, AddLinkRejectReason::NO_ALTERNATE_PATH),
        (|m| m.link.0 = 1, AddLinkRejectReason::NO_ALTERNATE_PATH),
        (
            |m| m.mtu = smc_proto::wire::types::Mtu::from_code(0),
            AddLinkRejectReason::INVALID_MTU,
        ),
    ];
    for (spoil, reason) in spoils {
        let (mut s, conn, _) = Script::client_awaits_second();
        s.over(1).send(Peer::offer_with(2, 2, spoil));
        let reply = s.over(1).expect_add_link_reply();
        check!(s, reply.rejection, Some(reason));
        s.expect_established(conn);
        check!(s, s.endpoint.usage().links, 1);
        s.skip();
        s.end();
    }
}

#[test]
fn a_third_link_that_makes_the_group_symmetric_retires_the_asymmetric_one() {
    //= V2-213 test
    //= LINK-009 test
    //= LINK-010 test
    //= LLC-044 test
    //= LINK-021 test
    // The client had one RNIC; now it gets a second one and announces it.
    let mut s = Script::server().rnics(2);
    let (conn, _) = s.server_adds_link();
    s.peer_joins(1, 2, 1, &[1]);
    s.expect_established(conn);
    s.expect_link_up(1);
    s.expect_link_up(2);
    s.over(1).send(Peer::hint(2));
    let offer = s.over(1).expect_add_link();
    check!(s, (offer.link.0, offer.gid), (3, rnic(2).gid));
    s.peer_joins(1, 3, 2, &[1]);
    s.expect_link_up(3);
    let request = s.expect_delete_link();
    check!(s, request.link.0, 2);
    check!(s, request.reason, DeleteLinkReason::ASYMMETRIC_NOT_NEEDED);
    s.over(1)
        .send(Peer::delete_link_with(request.flags, 2, true));
    s.expect_link_down(2);
    check!(s, s.endpoint.usage().links, 2);
    s.expect_silence();
    s.end();
}

#[test]
fn a_client_follows_from_asymmetric_to_symmetric() {
    //= LINK-009 test
    //= LINK-010 test
    //= LINK-041 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    s.peer_adds(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.link_events.clear();
    s.port_up(2);
    check!(s, s.expect_add_link().gid, rnic(2).gid);
    s.peer_adds(1, 3, 2, &[1]);
    s.expect_link_up(3);
    s.over(1).send(Peer::delete_because(
        2,
        DeleteLinkReason::ASYMMETRIC_NOT_NEEDED,
    ));
    let reply = s.over(1).expect_delete_link_reply();
    check!(s, reply.link.0, 2);
    s.expect_link_down(2);
    check!(s, s.endpoint.usage().links, 2);
    s.expect_silence();
    s.end();
}
