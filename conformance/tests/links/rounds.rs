//! ADD LINK CONTINUATION: every RMB of each side is announced once (RFC 7609 A.3.3, C.7.1).

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

fn announced(theirs: u32) -> Vec<u32> {
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
    let theirs = announced(theirs);
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
    let theirs = announced(theirs);
    Group {
        s,
        conns,
        own,
        theirs,
    }
}

/// Counts by which many RMBs are announced, two at a time.
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
fn a_server_announces_every_rmb_once_and_goes_on_until_the_client_has_too() {
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
fn a_client_announces_every_rmb_once_and_then_none() {
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
        let mut pairs = theirs.as_slice();
        for _ in 0..mine.max(theirs.len() as u32).div_ceil(2) {
            s.over(1).send(Peer::continuation(1, 2, pairs, false));
            pairs = pairs.get(2..).unwrap_or(&[]);
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
