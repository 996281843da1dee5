//! ADD LINK CONTINUATION: counts that are wrong, or not what they seem
//! (RFC 7609 A.3.3, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::id::ConnId;
use smc_proto::wire::llc::{AddLinkContinuation, LlcMessage};

/// A client with one link, and as many connections and RMBs of each side.
fn client_of(count: u32) -> (Script, Vec<ConnId>) {
    let mut s = Script::client();
    let first = s.client_first_contact().0;
    let mut conns = vec![first];
    for rmb in 2..=count {
        conns.push(s.client_joins(rmb).0);
    }
    (s, conns)
}

/// Returns the group of a server.
fn server_of(count: u32) -> Script {
    let mut s = Script::server();
    s.server_first_contact();
    for rmb in 2..=count {
        s.server_joins(rmb);
    }
    s
}

/// A CONTINUATION with this count, whatever it holds.
fn counting(over: u8, link: u8, count: u8, rmbs: &[u32], reply: bool) -> LlcMessage<'static> {
    let LlcMessage::AddLinkContinuation(message) = Peer::continuation(over, link, rmbs, reply)
    else {
        unreachable!("that is what it makes");
    };
    LlcMessage::AddLinkContinuation(AddLinkContinuation {
        remaining: count,
        ..message
    })
}

#[test]
fn a_pair_of_zeros_and_a_count_of_connections_do_no_harm() {
    //= LLC-035 test
    // Linux counts its connections, of which several may have been closed: the
    // pairs that are missing are zero, and the next count is smaller.
    let (mut s, conns) = client_of(3);
    s.port_up(2);
    s.skip_hints();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    for (count, rmbs) in [(7, &[1, 2][..]), (5, &[3]), (0, &[])] {
        s.over(1).send(counting(1, 2, count, rmbs, false));
        s.over(1).expect_continuation_reply();
    }
    s.over(2).send(Peer::asks(2, 2));
    s.over(2).expect_confirm_link_reply();
    // What was announced counts.
    s.break_link(1);
    for (conn, rmb) in conns.into_iter().zip(1..) {
        s.writes.clear();
        s.write(conn, 8);
        check!(s, s.writes[0].0, Peer::rtoken_on(2, rmb).rkey.0);
    }
    s.end();
}

#[test]
fn a_server_may_ask_to_confirm_sooner_than_counted() {
    // Linux stops when it has announced its RMBs, though its count is higher.
    let (mut s, _) = client_of(1);
    s.port_up(2);
    s.skip_hints();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(counting(1, 2, 3, &[1], false));
    s.over(1).expect_continuation_reply();
    s.over(2).send(Peer::asks(2, 2));
    s.over(2).expect_confirm_link_reply();
    s.end();
}

#[test]
fn a_count_that_rises_or_stands_still_ends_the_new_link() {
    //= CASE-G05 test
    //= LLC-041 test
    for counts in [
        &[1, 1][..],
        &[3, 3],
        &[3, 4],
        &[0, 1],
        &[255, 255],
        &[5, 3, 3],
    ] {
        let (mut s, conns) = client_of(8);
        s.port_up(2);
        s.skip_hints();
        s.over(1).send(Peer::offer(2, 2));
        s.over(1).expect_add_link_reply();
        for (number, count) in (1..).zip(counts) {
            s.over(1).send(counting(1, 2, *count, &[1, 2], false));
            if number < counts.len() {
                s.over(1).expect_continuation_reply();
            }
        }
        check!(s, s.over(1).expect_delete_link().link.0, 2);
        s.over(1).send(Peer::delete_link(2));
        s.over(1).expect_delete_link_reply();
        s.skip();
        s.write(conns[0], 5);
        s.expect_cdc();
        check!(s, s.endpoint.usage().links, 1);
        s.end();
    }
}

#[test]
fn a_client_that_never_ends_its_count_ends_the_new_link_for_the_server() {
    //= CASE-D07 test
    //= LLC-041 test
    let mut s = server_of(8);
    s.port_up(2);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::takes(3, 2));
    s.over(1).expect_continuation();
    s.over(1).send(counting(1, 3, 3, &[1, 2], true));
    s.over(1).expect_continuation();
    s.over(1).send(counting(1, 3, 3, &[1, 2], true));
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 3);
    s.end();
}

#[test]
fn a_continuation_for_another_link_or_over_another_one_is_out_of_turn() {
    //= LLC-033 test
    //= LLC-034 test
    //= LLC-079 test
    let (mut s, _, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(Peer::continuation(1, 3, &[1], false));
    check!(s, s.endpoint.statistics().violations > 0, true);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_request_of_the_client_is_no_answer_to_a_servers_continuation() {
    //= LLC-033 test
    //= LLC-079 test
    let (mut s, _, _) = Script::server_offers_second();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).expect_continuation();
    s.over(1).send(Peer::continuation(1, 2, &[1], false));
    check!(s, s.endpoint.statistics().violations > 0, true);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}
