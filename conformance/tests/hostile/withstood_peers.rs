//! A peer that sends too much, in any order (docs/regressions.md).

use conformance::check;
use conformance::rig::Rig;
use conformance::rig::linux::bytes;
use conformance::script::{Peer, Script};
use smc_proto::completion::RdmaCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::event::{CloseReason, Event};
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::llc::{DeleteRkey, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{DiagnosisCode, RKey};

#[test]
fn messages_of_two_links_in_every_order_add_up_to_the_newest() {
    //= CASE-H08 test
    //= CASE-C19 test
    // Four messages of one connection, each on either link, in every order.
    let mut orders = vec![vec![]];
    for number in 1..=4u16 {
        let mut longer = Vec::new();
        for order in &orders {
            for place in 0..=order.len() {
                let mut next: Vec<u16> = order.clone();
                next.insert(place, number);
                longer.push(next);
            }
        }
        orders = longer;
    }
    assert_eq!(orders.len(), 24, "all orders of four");
    let (start, conn, token) = Script::two_link_server();
    for order in orders {
        for links in 0..16 {
            let mut s = start.clone();
            let mut newest = 0;
            for (turn, number) in order.iter().enumerate() {
                let over = 1 + (links >> turn & 1);
                let message = Peer::cdc(token, *number, 10 * u32::from(*number), 0);
                s.over(over).send_cdc(message);
                newest = newest.max(*number);
                check!(s, s.readable(conn), 10 * u32::from(newest));
                // And once more, on the other one.
                s.over(3 - over).send_cdc(message);
                check!(s, s.readable(conn), 10 * u32::from(newest));
            }
            check!(s, s.endpoint.usage().links, 2);
        }
    }
}

#[test]
fn a_flood_of_requests_for_updates_is_not_answered_with_a_flood() {
    //= CASE-H21 test
    let mut s = Script::client();
    let (conn, token) = s.client_first_contact();
    let link = s.link();
    let mut request = Peer::cdc(token, 1, 100, 0);
    request.producer_flags = ProducerFlags::CURSOR_UPDATE_REQUESTED;
    let answers = |s: &mut Script| {
        let mut answers = 0;
        while s.poll_cdc_over(1).is_some() {
            answers += 1;
        }
        answers
    };
    for sequence in 1..=60_000 {
        request.sequence = sequence;
        s.send_cdc(link, request);
    }
    check!(s, answers(&mut s), 0);
    // Something is consumed: that is announced once, however often it is asked for.
    s.on(conn, |c, now| c.consume(now, 50))
        .expect("it is there");
    check!(s, answers(&mut s), 1);
    for sequence in 60_001..=60_500 {
        request.sequence = sequence;
        s.send_cdc(link, request);
    }
    check!(s, answers(&mut s), 0);
    s.end();
}

#[test]
fn a_request_is_answered_from_its_content_though_its_buffer_is_gone() {
    //= CASE-D01 test
    let mut s = Script::client();
    s.client_first_contact();
    let link = s.link();
    let mut buffer = Peer::confirm_rkey(7).emit_short(SmcVersion::V1).unwrap();
    let received = RdmaCompletion::Received {
        link,
        payload: &buffer,
    };
    s.endpoint.handle_rdma(s.now, received);
    buffer.fill(0xff);
    s.pump();
    check!(s, s.expect_confirm_rkey_reply().rtoken, Peer::rtoken(7));
    s.end();
}

#[test]
fn two_large_messages_one_behind_the_other_have_an_answer_each() {
    //= CASE-D03 test
    //= CASE-D02 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    let mut payloads = Vec::new();
    for count in [255u32, 20] {
        let keys: Vec<_> = (0..count).map(|key| RKey(0x4000 + key)).collect();
        payloads.push(bytes(&LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            unknown: 0,
            rkeys: keys.as_slice().into(),
        })));
    }
    assert!(payloads.iter().all(|payload| payload.len() > 44));
    // One buffer for both, and nothing is polled in between.
    let mut buffer = vec![0; 8192];
    for payload in &payloads {
        buffer[..payload.len()].copy_from_slice(payload);
        let payload = &buffer[..payload.len()];
        let received = RdmaCompletion::Received { link, payload };
        rig.endpoint.handle_rdma(rig.now, received);
    }
    buffer.fill(0xff);
    rig.pump();
    for unknown in [255, 20] {
        let sent = rig.sent_llc(link);
        assert_eq!((sent[0], sent[3] & 0x80), (0x29, 0x80));
        assert_eq!(sent[5], unknown, "so many that are unknown");
    }
}

#[test]
fn a_thousand_declines_leave_nothing_and_hurt_no_other() {
    //= CASE-H12 test
    let mut s = Script::client();
    let (other, token) = s.client_first_contact();
    let before = s.endpoint.usage();
    for round in 0..1_000 {
        let conn = s.connect();
        s.expect_proposal(conn);
        if round % 2 == 0 {
            let decline = s.peer.decline();
            let _ = s.clc(conn, &decline);
            s.expect_fallback(conn, DiagnosisCode::PEER_DECLINED);
        } else {
            // Or it never answers.
            let link = s.link();
            s.wait(core::time::Duration::from_secs(6));
            s.send_on(link, Peer::test_link(0, false));
            s.expect_reset(conn, CloseReason::RendezvousFailed);
            s.skip();
        }
        check!(s, s.endpoint.usage(), before);
    }
    let link = s.link();
    s.send_cdc(link, Peer::cdc(token, 1, 9, 0));
    check!(s, s.readable(other), 9);
    s.end();
}

#[test]
fn a_group_that_ends_takes_connections_in_every_stage_of_their_close() {
    //= CASE-D16 test
    let (done, closed, aborted) = (
        ConnectionFlags::SENDING_DONE,
        ConnectionFlags::PEER_CONNECTION_CLOSED,
        ConnectionFlags::ABNORMAL_CLOSE,
    );
    type Stage = (Option<Shutdown>, Option<ConnectionFlags>, bool);
    let stages: [Stage; 8] = [
        (None, None, false),
        (Some(Shutdown::Write), None, false),
        (Some(Shutdown::Both), None, false),
        (None, Some(done), false),
        (None, Some(closed), false),
        (Some(Shutdown::Write), Some(done), false),
        (None, None, true),
        (None, Some(aborted), false),
    ];
    let ends: [fn(&mut Script); 3] = [
        |s| s.break_link(1),
        |s| s.send(Peer::delete_all()),
        |s| {
            let group = s.group.expect("a group");
            s.endpoint.delete_group(s.now, group);
            s.pump();
            s.break_link(1);
        },
    ];
    for end in ends {
        let mut s = Script::client();
        let mut conns = vec![s.client_first_contact()];
        for rmb in 2..=8 {
            conns.push(s.client_joins(rmb));
        }
        s.skip();
        let link = s.link();
        let mut events = Vec::new();
        for ((conn, token), (own, peers, abort)) in conns.iter().zip(stages) {
            if let Some(how) = own {
                s.on(*conn, |c, now| c.shutdown(now, how));
            }
            if abort {
                s.on(*conn, |c, now| c.abort(now));
            }
            if let Some(flags) = peers {
                s.send_cdc(link, Peer::cdc_flags(*token, 1, flags));
            }
        }
        events.extend(s.take_events());
        end(&mut s);
        events.extend(s.take_events());
        s.run_out();
        events.extend(s.take_events());
        for (conn, _) in &conns {
            let ended =
                |event: &&Event| matches!(event, Event::Closed { conn: c, .. } if c == conn);
            check!(s, events.iter().filter(ended).count(), 1);
        }
        s.end();
    }
}
