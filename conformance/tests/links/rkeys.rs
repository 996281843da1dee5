//! RMBs on several links: CONFIRM RKEY and its CONTINUATIONs (RFC 7609 3.5.5.2,
//! A.3.5, A.3.6, C.7.1).

use std::collections::BTreeSet;

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::completion::RdmaCompletion;
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{ConfirmRkeyContinuation, LinkRToken, LlcMessage, RkeyFlags};
use smc_proto::wire::types::DiagnosisCode;

/// A client whose group has nine links: eight symmetric ones and the asymmetric
/// one that the server never deletes.
fn nine_link_client() -> Script {
    let mut s = Script::with(|config| config.max_links = 8);
    s.client_confirms();
    let ask = s.peer.confirm_link_with(|m| m.max_links = 8);
    s.send(ask);
    s.expect_confirm_link_reply();
    s.peer_adds(1, 2, 2, &[1]);
    for number in 3..=9 {
        s.port_up(number - 1);
        s.skip_hints();
        s.peer_adds(1, number, number, &[1]);
    }
    s.skip();
    s.link_events.clear();
    s
}

fn client_of(links: u8) -> Script {
    match links {
        9 => nine_link_client(),
        _ => Script::many_link_client(links).0,
    }
}

fn note(s: &Script, entries: &[LinkRToken], links: &mut BTreeSet<u8>, keys: &mut BTreeSet<u32>) {
    for entry in entries {
        check!(s, links.insert(entry.link.0), true);
        check!(s, keys.insert(entry.rtoken.rkey.0), true);
    }
}

#[test]
fn a_new_rmb_is_announced_on_every_link() {
    //= LLC-058 test
    //= LLC-060 test
    //= LLC-061 test
    //= LLC-062 test
    //= RMB-008 test
    //= RMB-009 test
    for links in 2..=9u8 {
        let mut s = client_of(links);
        let conn = s.client_wants_rmb(2);
        let request = s.over(1).expect_confirm_rkey();
        check!(s, request.other_links, links - 1);
        check!(s, request.others.len(), usize::from(links - 1).min(2));
        let (mut named, mut keys) = (BTreeSet::from([1]), BTreeSet::new());
        keys.insert(request.rtoken.rkey.0);
        note(&s, &request.others, &mut named, &mut keys);
        s.expect_silence();
        s.over(1)
            .send(Peer::reply_to(&LlcMessage::ConfirmRkey(request)));
        let mut left = (links - 1).saturating_sub(2);
        while left > 0 {
            let more = s.over(1).expect_rkey_continuation();
            check!(s, more.remaining, left);
            check!(s, more.others.len(), usize::from(left).min(3));
            note(&s, &more.others, &mut named, &mut keys);
            s.expect_silence();
            let message = LlcMessage::ConfirmRkeyContinuation(more);
            s.over(1).send(Peer::reply_to(&message));
            left = left.saturating_sub(3);
        }
        check!(s, named, (1..=links).collect());
        s.expect_confirm(conn);
        s.expect_established(conn);
        s.end();
    }
}

#[test]
fn an_announcement_of_the_peer_is_echoed_message_by_message() {
    //= LLC-063 test
    //= LLC-062 test
    //= LLC-011 test
    //= LLC-010 test
    for links in 2..=9u8 {
        let mut s = client_of(links);
        for over in [1, links] {
            let others: Vec<u8> = (1..=links).filter(|link| *link != over).collect();
            let request = Peer::confirm_rkey_on(over, 7, &others);
            s.over(over).send(request.clone());
            check!(s, s.over(over).expect_llc(), Peer::reply_to(&request));
            let mut left = others.get(2..).unwrap_or(&[]);
            while !left.is_empty() {
                let more = Peer::rkey_continuation(7, left);
                s.over(over).send(more.clone());
                check!(s, s.over(over).expect_llc(), Peer::reply_to(&more));
                left = left.get(3..).unwrap_or(&[]);
            }
            s.expect_silence();
        }
        check!(s, s.endpoint.usage().links, u32::from(links));
        check!(s, s.endpoint.usage().remote_rmbs, 2);
        s.end();
    }
}

#[test]
fn a_third_entry_may_come_alone_in_a_continuation() {
    //= LLC-061 test
    // AMB-02: three links beside the carrying one, two of them in the request.
    let (mut s, _, _) = Script::many_link_server(4);
    let request = Peer::confirm_rkey_on(1, 7, &[2, 3, 4]);
    s.over(1).send(request);
    check!(
        s,
        s.over(1).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    s.over(1).send(Peer::rkey_continuation(7, &[4]));
    s.over(1).expect_rkey_continuation_reply();
    check!(s, s.endpoint.usage().links, 4);
    s.end();
}

#[test]
fn the_content_of_a_continuation_is_used_when_its_link_is() {
    //= LLC-061 test
    //= RMB-010 test
    //= FAILOVER-021 test
    let (mut s, _, _) = Script::many_link_client(4);
    let conn = s.connect();
    s.expect_proposal(conn);
    let request = Peer::confirm_rkey_on(1, 7, &[2, 3, 4]);
    s.over(1).send(request);
    s.over(1).expect_confirm_rkey_reply();
    s.over(1).send(Peer::rkey_continuation(7, &[4]));
    s.over(1).expect_rkey_continuation_reply();
    s.accept(conn, s.peer.subsequent(7));
    let request = s.over(1).expect_confirm_rkey();
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(request)));
    let more = LlcMessage::ConfirmRkeyContinuation(s.over(1).expect_rkey_continuation());
    s.over(1).send(Peer::reply_to(&more));
    s.expect_confirm(conn);
    s.expect_established(conn);
    // The other connection goes to link 2 first.
    for (link, next) in [(1, 3), (3, 4), (4, 2)] {
        s.break_link(link);
        s.skip();
        s.writes.clear();
        s.write(conn, 10);
        s.over(next).expect_cdc();
        check!(s, s.writes[0].0, Peer::rtoken_on(next, 7).rkey.0);
        check!(s, s.writes[0].1 >= Peer::rtoken_on(next, 7).address, true);
    }
    s.end();
}

#[test]
fn refused_for_now_it_is_announced_again_from_the_beginning() {
    //= LLC-064 test
    //= LLC-067 test
    let (mut s, _, _) = Script::many_link_client(5);
    let conn = s.client_wants_rmb(2);
    for _ in 0..2 {
        let request = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
        let later = RkeyFlags::NEGATIVE | RkeyFlags::RETRY;
        s.over(1).send(Peer::rkey_reply(&request, later));
        s.expect_silence();
        s.wait(Duration::from_millis(50));
    }
    let request = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    s.over(1).send(Peer::reply_to(&request));
    let more = LlcMessage::ConfirmRkeyContinuation(s.over(1).expect_rkey_continuation());
    s.over(1).send(Peer::reply_to(&more));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn a_refused_continuation_refuses_the_whole_announcement() {
    //= LLC-065 test
    //= LLC-068 test
    let (mut s, _, _) = Script::many_link_client(5);
    let conn = s.client_wants_rmb(2);
    let request = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    s.over(1).send(Peer::reply_to(&request));
    let more = s.over(1).expect_rkey_continuation();
    s.over(1).send(LlcMessage::ConfirmRkeyContinuation(
        ConfirmRkeyContinuation {
            reply: true,
            flags: RkeyFlags::NEGATIVE,
            ..more
        },
    ));
    s.expect_decline(conn, DiagnosisCode::REGISTER_BUFFER);
    // The next connection is a stimulus to try again, from the beginning.
    let conn = s.client_wants_rmb(2);
    s.over(1).expect_confirm_rkey();
    check!(s, s.endpoint.conn(conn).is_some(), true);
    check!(s, s.endpoint.usage().links, 5);
    s.end();
}

#[test]
fn a_link_that_an_announcement_leaves_out_has_failed() {
    //= CASE-G09 test
    //= LLC-069 test
    //= FAILOVER-003 test
    let (mut s, conn, _) = Script::two_link_client();
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[]));
    check!(
        s,
        s.over(1).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();

    let (mut s, conn, _) = Script::two_link_server();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[]));
    s.over(2).expect_confirm_rkey_reply();
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    s.write(conn, 5);
    let validation = s.over(2).expect_cdc();
    check!(s, validation.producer.count, 0);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn an_unknown_link_in_an_announcement_is_passed_over() {
    //= RMB-010 test
    let (mut s, _, _) = Script::two_link_server();
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[9, 2]));
    check!(
        s,
        s.over(1).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_continuation_of_nothing_is_refused() {
    //= LLC-063 test
    let (mut s, _, _) = Script::many_link_server(4);
    let refused = |s: &mut Script, over, message| {
        s.over(over).send(message);
        let reply = s.over(over).expect_rkey_continuation_reply();
        check!(s, reply.flags, RkeyFlags::NEGATIVE);
    };
    refused(&mut s, 1, Peer::rkey_continuation(7, &[2]));
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[2, 3, 4]));
    s.over(1).expect_confirm_rkey_reply();
    // On another link, or of more links than were left.
    refused(&mut s, 2, Peer::rkey_continuation(7, &[4]));
    refused(&mut s, 1, Peer::rkey_continuation(7, &[3, 4]));
    check!(s, s.endpoint.usage().links, 4);
    s.end();
}

#[test]
fn a_confirm_rkey_that_waits_to_be_posted_does_not_name_a_link_that_is_deleted() {
    //= LLC-066 test
    let (mut s, _, _) = Script::two_link_client();
    let second = s.client_wants_rmb(2);
    let own = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    let refused = Peer::rkey_reply(&own, RkeyFlags::NEGATIVE | RkeyFlags::RETRY);
    s.over(1).send(refused);
    // The repetition is due, and DELETE LINK is here, before anything is polled.
    s.now = s.now.after(Duration::from_millis(50));
    s.endpoint.handle_timeout(s.now);
    let payload = &Peer::delete_link(2).emit_short(SmcVersion::V1).unwrap()[..];
    let link = s.link_no(1);
    let received = RdmaCompletion::Received { link, payload };
    s.endpoint.handle_rdma(s.now, received);
    s.pump();
    check!(s, s.over(1).expect_delete_link_reply().link.0, 2);
    s.skip_hints();
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.others.len(), 0);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_confirm(second);
    s.expect_established(second);
    s.end();
}
