//! ADD LINK CONTINUATION: every RMB of each side is told of once (RFC 7609 A.3.3, C.7.1).

use std::collections::BTreeSet;

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{AddLinkContinuation, LlcMessage};
use smc_proto::wire::types::RmbeIndex;

/// A group with one link and this many RMBs of each side: its connections, the
/// keys of this side's RMBs, and the peer's RMBs.
struct Group {
    s: Script,
    conns: Vec<ConnId>,
    own: BTreeSet<u32>,
    theirs: Vec<u32>,
}

/// The peer's RMB and element for a connection of this number, counted from 0.
fn element(number: u32, rmbs: u32) -> (u32, RmbeIndex) {
    (1 + number % rmbs, RmbeIndex((1 + number / rmbs) as u8))
}

fn settings(mine: u32, conns: u32) -> Script {
    Script::with(|config| config.elements_per_rmb = conns.div_ceil(mine) as u8)
}

fn told(theirs: u32) -> Vec<u32> {
    (1..=theirs).collect()
}

fn server(mine: u32, theirs: u32) -> Group {
    let count = mine.max(theirs);
    let mut s = settings(mine, count);
    let (first, accept) = s.server_adds_link();
    s.send(s.peer.add_link_rejection());
    s.expect_established(first);
    let (mut conns, mut own) = (vec![first], BTreeSet::from([accept.rtoken.rkey.0]));
    for number in 1..count {
        let (conn, accept) = s.server_accepts();
        let (rmb, rmbe_index) = element(number, theirs);
        let confirm = AcceptConfirm {
            rmbe_index,
            ..s.peer.subsequent(rmb)
        };
        s.confirm(conn, confirm);
        s.expect_established(conn);
        conns.push(conn);
        own.insert(accept.rtoken.rkey.0);
    }
    let theirs = told(theirs);
    Group {
        s,
        conns,
        own,
        theirs,
    }
}

fn client(mine: u32, theirs: u32) -> Group {
    let count = mine.max(theirs);
    let mut s = settings(mine, count);
    let (first, confirm) = s.client_confirms_link();
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(first);
    let (mut conns, mut own) = (vec![first], BTreeSet::from([confirm.rtoken.rkey.0]));
    for number in 1..count {
        let conn = s.connect();
        s.expect_proposal(conn);
        let (rmb, rmbe_index) = element(number, theirs);
        let accept = AcceptConfirm {
            rmbe_index,
            ..s.peer.subsequent(rmb)
        };
        s.accept(conn, accept);
        s.agree_to_rmb();
        let confirm = s.expect_confirm(conn);
        s.expect_established(conn);
        conns.push(conn);
        own.insert(confirm.rtoken.rkey.0);
    }
    let theirs = told(theirs);
    Group {
        s,
        conns,
        own,
        theirs,
    }
}

/// Counts by which many RMBs are told of, two at a time.
const COUNTS: [(u32, u32); 11] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (2, 2),
    (3, 8),
    (8, 3),
    (1, 255),
    (255, 1),
    (254, 253),
    (128, 255),
    (255, 255),
];

fn note(s: &Script, message: &AddLinkContinuation, left: &mut u32, keys: &mut BTreeSet<u32>) {
    check!(s, u32::from(message.remaining), *left);
    check!(s, message.pairs.len() as u32, (*left).min(2));
    for pair in &message.pairs {
        check!(s, keys.insert(pair.reference.0), true);
        check!(s, pair.reference == pair.new.rkey, false);
    }
    *left = left.saturating_sub(2);
}

#[test]
fn a_server_tells_of_every_rmb_once_and_goes_on_until_the_client_has_too() {
    //= LLC-033 test
    //= LLC-034 test
    //= LLC-035 test
    //= LLC-036 test
    //= LLC-039 test
    //= LLC-040 test
    for (mine, theirs) in COUNTS {
        let Group {
            mut s, own, theirs, ..
        } = server(mine, theirs);
        s.port_up(2);
        check!(s, s.over(1).expect_add_link().link.0, 3);
        s.over(1).send(Peer::takes(3, 2));
        let (mut left, mut keys) = (mine, BTreeSet::new());
        let mut answers = theirs.as_slice();
        for _ in 0..mine.max(theirs.len() as u32).div_ceil(2) {
            let request = s.over(1).expect_continuation();
            note(&s, &request, &mut left, &mut keys);
            s.over(1).send(Peer::continuation(1, 3, answers, true));
            answers = answers.get(2..).unwrap_or(&[]);
        }
        check!(s, keys == own, true);
        s.over(3).expect_confirm_link();
        s.over(3).send(Peer::confirms(3, 2));
        s.expect_link_up(1);
        s.expect_link_up(3);
        s.expect_silence();
        s.end();
    }
}

#[test]
fn a_client_tells_of_every_rmb_once_and_then_of_none() {
    //= LLC-034 test
    //= LLC-035 test
    //= LLC-036 test
    //= LLC-037 test
    //= LLC-038 test
    //= LLC-040 test
    for (mine, theirs) in COUNTS {
        let Group {
            mut s, own, theirs, ..
        } = client(mine, theirs);
        s.port_up(2);
        s.skip_hints();
        s.over(1).send(Peer::offer(2, 2));
        check!(s, s.over(1).expect_add_link_reply().rejection, None);
        let (mut left, mut keys) = (mine, BTreeSet::new());
        let mut tells = theirs.as_slice();
        for _ in 0..mine.max(theirs.len() as u32).div_ceil(2) {
            s.over(1).send(Peer::continuation(1, 2, tells, false));
            tells = tells.get(2..).unwrap_or(&[]);
            let reply = s.over(1).expect_continuation_reply();
            note(&s, &reply, &mut left, &mut keys);
        }
        check!(s, keys == own, true);
        s.over(2).send(Peer::asks(2, 2));
        s.over(2).expect_confirm_link_reply();
        s.expect_silence();
        s.end();
    }
}

/// Both sides withdraw their only RMB.
fn without_rmbs(group: Group) -> Script {
    let Group { mut s, conns, .. } = group;
    s.on(conns[0], |c, now| c.abort(now));
    s.wait(Duration::from_secs(10));
    s.skip();
    s.over(1).send(Peer::delete_rkey(&[1]));
    s.over(1).expect_delete_rkey_reply();
    s.pass(Duration::from_secs(55), &[1]);
    let request = LlcMessage::DeleteRkey(s.over(1).expect_delete_rkey());
    s.over(1).send(Peer::reply_to(&request));
    s
}

#[test]
fn without_rmbs_one_empty_round_is_enough() {
    //= LLC-032 test
    //= LLC-038 test
    //= LLC-039 test
    let mut s = without_rmbs(server(1, 1));
    s.over(1).send(Peer::hint(2));
    s.over(1).expect_add_link();
    s.over(1).send(Peer::takes(3, 2));
    let request = s.over(1).expect_continuation();
    check!(s, (request.remaining, request.pairs.len()), (0, 0));
    s.over(1).send(Peer::continuation(1, 3, &[], true));
    s.over(3).expect_confirm_link();
    s.end();

    let mut s = without_rmbs(client(1, 1));
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(Peer::continuation(1, 2, &[], false));
    let reply = s.over(1).expect_continuation_reply();
    check!(s, (reply.remaining, reply.pairs.len()), (0, 0));
    s.over(2).send(Peer::asks(2, 2));
    s.over(2).expect_confirm_link_reply();
    s.end();
}

/// A CONTINUATION with this count, whatever it holds.
fn counting(over: u8, link: u8, count: u8, rmbs: &[u32], reply: bool) -> LlcMessage {
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
    let Group { mut s, conns, .. } = client(3, 3);
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
    // What was told counts.
    s.break_link(1);
    for (conn, rmb) in conns.into_iter().zip(1..) {
        s.writes.clear();
        s.write(conn, 8);
        check!(s, s.writes[0].0, Peer::rtoken_on(2, rmb).rkey.0);
    }
    s.end();
}

#[test]
fn a_server_that_asks_to_confirm_sooner_than_counted_is_heard() {
    // Linux stops when it has told of its RMBs, though its count says more.
    let Group { mut s, .. } = client(1, 3);
    s.port_up(2);
    s.skip_hints();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(counting(1, 2, 3, &[1, 2], false));
    s.over(1).expect_continuation_reply();
    s.over(2).send(Peer::asks(2, 2));
    s.over(2).expect_confirm_link_reply();
    s.end();
}

#[test]
fn a_count_that_rises_or_stands_still_ends_the_new_link() {
    //= LLC-041 test
    for counts in [
        &[1, 1][..],
        &[3, 3],
        &[3, 4],
        &[0, 1],
        &[255, 255],
        &[5, 3, 3],
    ] {
        let Group { mut s, conns, .. } = client(8, 8);
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
    //= LLC-041 test
    let Group { mut s, .. } = server(1, 8);
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
