//! Further links of a group: how they come to be (RFC 7609 2.2, 3.5.1.6, 3.5.5.1.1, C.8).

use conformance::check;
use conformance::script::{Peer, Script, rnic};
use smc_proto::time::Duration;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::DeleteLinkReason;

#[test]
fn a_server_with_two_rnics_and_a_client_with_two_make_a_symmetric_group() {
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
