//! Links of a group are equals: the same RMBs, elements and roles on each (RFC 7609 2.2).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::RmbeIndex;

#[test]
fn every_rmb_is_registered_and_announced_on_every_link() {
    //= LINK-006 test
    let (mut s, _, _) = Script::many_link_server(3);
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    let Some((over, LlcMessage::ConfirmRkey(request))) = s.poll_llc_with_link() else {
        s.fail("no CONFIRM RKEY");
    };
    let mut announced: Vec<_> = request.others.iter().map(|other| other.link.0).collect();
    announced.push(s.number_of(over));
    announced.sort_unstable();
    check!(s, announced, vec![1, 2, 3]);
    let links = [1, 2, 3].map(|number| s.link_no(number));
    let registrations: Vec<_> = s.adapter.registrations().collect();
    check!(s, registrations.len() >= 4, true);
    for (buffer, on) in registrations {
        for link in links {
            check!(s, (buffer, on.contains(&link)), (buffer, true));
        }
    }
    s.give_up();
}

#[test]
fn roles_are_the_same_on_the_link_that_is_left() {
    //= LINK-006 test
    // The server offers over link 2 when link 1 is gone, as it did over link 1.
    let (mut s, _, _) = Script::two_link_server();
    s.port_down(1);
    let own = s.over(2).expect_delete_link();
    s.over(2).send(Peer::delete_link_with(own.flags, 1, true));
    s.over(2).expect_cdc();
    s.port_up(1);
    let next = s.refuse_offers_but(1, 2);
    s.peer_joins(2, next, 1, &[1]);
    s.end();
    // The client takes the server's offer there.
    let (mut s, _, _) = Script::two_link_client();
    s.break_link(1);
    s.skip();
    let flags = DeleteLinkFlags::empty();
    s.over(2).send(Peer::delete_link_with(flags, 1, false));
    s.skip();
    s.peer_adds(2, 3, 1, &[1]);
    s.skip_hints();
    s.end();
}

#[test]
fn a_connection_that_moves_keeps_element_cursors_and_token_and_changes_the_rtoken() {
    //= FAILOVER-021 test
    const ELEMENT: u64 = 64 << 10;
    let (mut s, _, _) = Script::two_link_client();
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    let conn = s.connect();
    s.expect_proposal(conn);
    let accept = AcceptConfirm {
        rmbe_index: RmbeIndex(3),
        ..s.peer.subsequent(7)
    };
    s.accept(conn, accept);
    s.agree_to_rmb();
    let confirm = s.expect_confirm(conn);
    s.expect_established(conn);
    s.writes.clear();
    s.write(conn, 10);
    let before = s.over(1).expect_cdc();
    let to = Peer::rtoken_on(1, 7);
    let place = to.address + 2 * ELEMENT;
    check!(s, s.writes.clone(), vec![(to.rkey.0, place, 10)]);
    s.over(1).send_cdc(Peer::cdc(confirm.alert_token, 1, 6, 10));
    check!(s, s.readable(conn), 6);
    s.break_link(1);
    s.skip();
    s.writes.clear();
    s.write(conn, 5);
    let after = s.over(2).expect_cdc();
    let to = Peer::rtoken_on(2, 7);
    let place = to.address + 2 * ELEMENT + 10;
    check!(s, s.writes.clone(), vec![(to.rkey.0, place, 5)]);
    check!(s, after.alert_token, before.alert_token);
    check!(s, after.alert_token, accept.alert_token);
    let counts = |cdc: &smc_proto::wire::cdc::Cdc| (cdc.producer.count, cdc.producer.wrap);
    check!(s, (counts(&before), counts(&after)), ((10, 0), (15, 0)));
    // The peer goes on with its own, too.
    s.over(2).send_cdc(Peer::cdc(confirm.alert_token, 2, 8, 15));
    check!(s, s.readable(conn), 8);
    s.end();
}
