//! A peer that floods, repeats itself or contradicts itself about links costs
//! bounded memory and steps, and loses a link or its group, no other
//! (reliability D5 to D12, H14 to H18).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::endpoint::Usage;
use smc_proto::id::LinkId;
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{ConfirmLink, DeleteLinkFlags, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{PeerId, Qpn};

/// Steps that one message may cost: a walk over all RMBs of a group, twice.
const STEPS: u32 = 600;

/// Sends a message; it costs few steps and leaves no more objects than before.
fn send_cheaply(s: &mut Script, link: LinkId, message: &LlcMessage<'_>) {
    s.endpoint.handle_rdma(
        s.now,
        smc_proto::completion::RdmaCompletion::Received {
            link,
            payload: &message.emit_short(SmcVersion::V1).unwrap(),
        },
    );
    let steps = s.endpoint.last_steps();
    check!(s, steps <= STEPS, true);
}

fn not_above(s: &mut Script, before: Usage) {
    let now = s.endpoint.usage();
    check!(s, now.links <= before.links, true);
    check!(s, now.buffers <= before.buffers, true);
    check!(s, now.groups <= before.groups, true);
}

#[test]
fn a_flood_of_requests_fails_its_link_and_no_other() {
    //= CASE-H14 test
    // H14, H18. The replies are not sent meanwhile, as if the link were busy.
    let requests = [
        Peer::test_link(1, false),
        Peer::confirm_rkey_on(2, 7, &[1]),
        Peer::delete_rkey_on(2, &[9]),
        Peer::offer_with(9, 1, |m| m.mtu = smc_proto::wire::types::Mtu::from_code(0)),
        Peer::delete_link(77),
    ];
    for request in requests {
        let (mut s, conn, _) = Script::two_link_client();
        let link = s.link_no(2);
        let before = s.endpoint.usage();
        for _ in 0..10_000 {
            send_cheaply(&mut s, link, &request);
        }
        not_above(&mut s, before);
        s.pump();
        check!(s, s.over(1).expect_delete_link().link.0, 2);
        check!(s, s.endpoint.statistics().violations, 1);
        s.skip();
        s.write(conn, 5);
        s.over(1).expect_cdc();
        s.end();
    }
}

#[test]
fn a_flood_of_what_needs_no_reply_costs_nothing() {
    // H14.
    let (mut s, conn, _) = Script::two_link_server();
    let link = s.link_no(2);
    let before = s.endpoint.usage();
    for message in [
        Peer::hint(2),
        Peer::confirms(2, 2),
        Peer::takes(3, 2),
        Peer::rejects(3),
        Peer::continuation(1, 3, &[1], true),
        Peer::test_link(3, true),
        Peer::delete_link_with(DeleteLinkFlags::ORDERLY, 2, true),
    ] {
        for _ in 0..10_000 {
            send_cheaply(&mut s, link, &message);
        }
        s.pump();
        s.expect_silence();
        check!(s, s.endpoint.usage(), before);
    }
    s.write(conn, 5);
    s.expect_cdc();
    s.end();
}

#[test]
fn hints_and_rejections_in_turn_cost_one_exchange_each() {
    // H14: what the peer starts it pays for with a message of its own.
    let mut s = Script::server().rnics(2);
    s.server_first_contact();
    let before = s.endpoint.usage();
    for _ in 0..2_000 {
        s.over(1).send(Peer::hint(2));
        let offer = s.over(1).expect_add_link();
        s.expect_silence();
        s.over(1).send(Peer::rejects(offer.link.0));
        s.expect_silence();
        not_above(&mut s, before);
    }
    s.end();
}

#[test]
fn a_storm_of_delete_link_converges() {
    //= CASE-H17 test
    //= LLC-056 test
    // H17: a thousand requests, before and after each answer.
    for flags in [DeleteLinkFlags::ORDERLY, DeleteLinkFlags::empty()] {
        let (mut s, conn, _) = Script::two_link_server();
        let mut requests = 0;
        for _ in 0..1_000 {
            s.over(1).send(Peer::delete_link_with(flags, 2, false));
            while let Some(message) = s.poll_llc() {
                match message {
                    LlcMessage::DeleteLink(m) if !m.reply => {
                        requests += 1;
                        s.over(1)
                            .send(Peer::delete_link_with(m.flags, m.link.0, true));
                    }
                    LlcMessage::AddLink(m) => s.over(1).send(Peer::rejects(m.link.0)),
                    _ => {}
                }
            }
        }
        check!(s, requests, 1);
        check!(s, s.endpoint.usage().links, 1);
        s.skip();
        s.write(conn, 5);
        s.expect_cdc();
        s.end();
    }
}

#[test]
fn a_peer_that_accepts_and_undoes_links_for_ever_holds_nothing() {
    // H17: nothing is left of a link that was undone.
    let (mut s, conn, _) = Script::two_link_client();
    let before = s.endpoint.usage();
    for number in (3..=250).step_by(2) {
        s.over(1).send(Peer::delete_link(2.max(number - 2)));
        s.skip();
        s.peer_adds(1, number, 2, &[1]);
        s.link_events.clear();
        not_above(&mut s, before);
    }
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn confirm_rkey_beyond_255_rmbs_is_refused() {
    //= CASE-H15 test
    //= LLC-063 test
    //= RMB-001 test
    // H15.
    let (mut s, _, _) = Script::two_link_server();
    for rmb in 2..=255 {
        s.over(1).send(Peer::confirm_rkey_on(1, rmb, &[2]));
        check!(
            s,
            s.over(1).expect_confirm_rkey_reply().flags.is_empty(),
            true
        );
    }
    // A repeated announcement is no new RMB.
    s.over(1).send(Peer::confirm_rkey_on(1, 9, &[2]));
    check!(
        s,
        s.over(1).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    s.over(1).send(Peer::confirm_rkey_on(1, 300, &[2]));
    let reply = s.over(1).expect_confirm_rkey_reply();
    check!(s, reply.flags.contains(RkeyFlags::NEGATIVE), true);
    check!(s, s.endpoint.usage().remote_rmbs, 255);
    s.end();
}

#[test]
fn wrong_link_information_on_a_new_link_deletes_it_over_another_one() {
    //= LLC-016 test
    //= LLC-017 test
    //= LLC-077 test
    type Spoil = fn(&mut ConfirmLink);
    let spoils: [Spoil; 4] = [
        |m| m.qpn = Qpn::new(1),
        |m| m.gid.0[15] ^= 1,
        |m| m.mac.0[5] ^= 1,
        |m| m.link.0 = 1,
    ];
    for spoil in spoils {
        let (mut s, conn, _) = Script::server_offers_second();
        s.over(1).send(Peer::takes(2, 2));
        s.peer_answers_continuations(1, 2, &[1]);
        s.over(2).expect_confirm_link();
        s.over(2).send(Peer::confirms_with(2, 2, spoil));
        let own = s.over(1).expect_delete_link();
        check!(s, own.link.0, 2);
        s.over(1).send(Peer::delete_link_with(own.flags, 2, true));
        s.expect_established(conn);
        s.end();

        let (mut s, conn, _) = Script::client_awaits_second();
        s.over(1).send(Peer::offer(2, 2));
        s.over(1).expect_add_link_reply();
        s.peer_asks_continuations(1, 2, &[1]);
        s.over(2).send(Peer::asks_with(2, 2, spoil));
        check!(s, s.over(1).expect_delete_link().link.0, 2);
        s.over(1).send(Peer::delete_link(2));
        s.over(1).expect_delete_link_reply();
        s.expect_established(conn);
        s.end();
    }
}

#[test]
fn another_offer_while_one_is_open_contradicts_it() {
    //= CASE-D06 test
    //= LLC-079 test
    let (mut s, _, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    // The same again changes nothing.
    s.over(1).send(Peer::offer(2, 2));
    s.expect_silence();
    s.over(1).send(Peer::offer(3, 2));
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn other_groups_are_not_touched() {
    // H14: the group of a client that misbehaves ends, that of another does not.
    let (mut s, good, _) = Script::two_link_server();
    let good_links = [s.link_no(1), s.link_no(2)];
    s.peer.id = PeerId::new(10, s.peer.mac);
    let (conn, accept) = s.server_accepts();
    check!(s, accept.first_contact, true);
    s.confirm(conn, s.peer.accept(1));
    s.expect_confirm_link();
    let bad = s.link_no(1);
    s.send_on(bad, s.peer.confirm_link_reply());
    s.skip();
    for _ in 0..10_000 {
        send_cheaply(&mut s, bad, &Peer::test_link(1, false));
    }
    s.pump();
    check!(s, s.endpoint.usage().groups, 1);
    s.skip();
    s.write(good, 5);
    let (link, _) = s.expect_cdc();
    check!(s, good_links.contains(&link), true);
    s.end();
}

#[test]
fn a_link_that_fails_twice_fails_once() {
    // D11, D12: reports that come late name nothing.
    let (mut s, conn, _) = Script::two_link_server();
    let link = s.link_no(1);
    for _ in 0..3 {
        s.complete(smc_proto::completion::RdmaCompletion::LinkFailed {
            link,
            cause: smc_proto::completion::LinkFailure::Other,
            conn: None,
        });
        s.port_down(1);
    }
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    s.over(2)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 1, true));
    s.expect_link_down(1);
    s.expect_no_link_event();
    s.skip();
    s.send_raw(
        link,
        &Peer::test_link(1, false)
            .emit_short(SmcVersion::V1)
            .unwrap(),
    );
    s.expect_silence();
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}
