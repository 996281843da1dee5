//! RMBs on several links: DELETE RKEY (RFC 7609 3.5.5.2.2, A.3.7).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};

#[test]
fn an_rmb_is_withdrawn_by_its_key_on_the_link_that_carries_the_message() {
    //= LLC-070 test
    //= LLC-071 test
    //= LLC-073 test
    let (mut s, _, _) = Script::two_link_server();
    for rmb in [5, 6] {
        s.over(1).send(Peer::confirm_rkey_on(1, rmb, &[2]));
        s.over(1).expect_confirm_rkey_reply();
    }
    check!(s, s.endpoint.usage().remote_rmbs, 3);
    // Over link 2 the keys of link 1 name nothing.
    s.over(2).send(Peer::delete_rkey_on(1, &[5]));
    let reply = s.over(2).expect_delete_rkey_reply();
    check!(s, (reply.flags, reply.unknown), (RkeyFlags::NEGATIVE, 0x80));
    s.over(2).send(Peer::delete_rkey_on(2, &[99, 5, 98, 6]));
    let reply = s.over(2).expect_delete_rkey_reply();
    check!(s, (reply.flags, reply.unknown), (RkeyFlags::NEGATIVE, 0xa0));
    check!(s, s.endpoint.usage().remote_rmbs, 1);
    s.end();
}

#[test]
fn an_own_rmb_is_withdrawn_over_another_link_if_its_own_is_gone() {
    //= LLC-070 test
    //= LLC-072 test
    //= RMB-030 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(1);
    s.over(2).expect_delete_link();
    s.over(2).send(Peer::delete_link(1));
    s.over(2).expect_delete_link_reply();
    s.on(conn, |c, now| c.abort(now));
    s.skip();
    s.wait(Duration::from_secs(5));
    s.skip();
    s.pass(Duration::from_secs(60), &[2]);
    let request = LlcMessage::DeleteRkey(s.over(2).expect_delete_rkey());
    // The send buffer needed no message.
    check!(s, s.endpoint.usage().buffers, 1);
    s.over(2)
        .send(Peer::rkey_reply(&request, RkeyFlags::NEGATIVE));
    check!(s, s.endpoint.usage().buffers, 0);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn an_rmb_that_is_withdrawn_while_in_use_ends_the_connections_that_use_it() {
    //= LLC-071 test
    //= RMB-028 test
    let (mut s, a, _) = Script::two_link_server();
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    let (b, _) = s.server_joins(2);
    s.over(2).send(Peer::delete_rkey_on(2, &[2]));
    check!(
        s,
        s.over(2).expect_delete_rkey_reply().flags.is_empty(),
        true
    );
    s.expect_reset(b, CloseReason::RmbeConflict);
    s.write(a, 5);
    s.expect_cdc();
    s.end();
}
