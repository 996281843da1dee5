//! A peer that floods, repeats itself or contradicts itself about links costs
//! bounded memory and steps, and loses a link or its group, nobody else's
//! (reliability D1 to D18, H14 to H18).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::endpoint::Usage;
use smc_proto::id::LinkId;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{ConfirmLink, DeleteLinkFlags, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{PeerId, Qpn};

/// Steps that one message may cost: a walk over all RMBs of a group, twice.
const STEPS: u32 = 600;

/// Sends a message; it costs few steps and leaves no more objects than before.
fn send_cheaply(s: &mut Script, link: LinkId, message: &LlcMessage) {
    s.endpoint.handle_rdma(
        s.now,
        smc_proto::completion::RdmaCompletion::Received {
            link,
            payload: &message.emit(),
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

/// All messages a peer could say about links, in either role.
fn everything() -> Vec<LlcMessage> {
    let mut all = vec![
        Peer::delete_rkey_on(1, &[1, 2, 3]),
        Peer::delete_rkey_on(2, &[1]),
        Peer::test_link(1, false),
        Peer::test_link(1, true),
        Peer::rkey_continuation(7, &[1, 2, 3]),
    ];
    for link in [0, 1, 2, 3, 4, 255] {
        let number = link.max(1);
        all.extend([
            Peer::offer_with(number, 2, |m| m.link.0 = link),
            Peer::takes_with(number, 2, |m| m.link.0 = link),
            Peer::rejects(number),
            Peer::asks(number, 2),
            Peer::confirms(number, 2),
            Peer::continuation(1, number, &[1, 2, 3], false),
            Peer::continuation(1, number, &[1], true),
            Peer::delete_link(link),
            Peer::delete_link_with(DeleteLinkFlags::empty(), link, false),
            Peer::delete_link_with(DeleteLinkFlags::ORDERLY, link, true),
            Peer::confirm_rkey_on(number, 7, &[2]),
            Peer::hint(number),
        ]);
    }
    let replies: Vec<_> = [
        Peer::confirm_rkey_on(1, 7, &[2]),
        Peer::rkey_continuation(7, &[2]),
        Peer::delete_rkey_on(1, &[1]),
    ]
    .iter()
    .map(Peer::reply_to)
    .collect();
    all.extend(replies);
    all
}

/// States of a group with a second link, or on the way to it.
fn states() -> Vec<Script> {
    let mut all = vec![
        Script::two_link_server().0,
        Script::two_link_client().0,
        Script::server_offers_second().0,
        Script::client_awaits_second().0,
    ];
    let mut s = Script::server_offers_second().0;
    s.over(1).send(Peer::takes(2, 2));
    all.push(s);
    let mut s = Script::server_offers_second().0;
    s.over(1).send(Peer::takes(2, 2));
    s.peer_answers_continuations(1, 2, &[1]);
    all.push(s);
    let mut s = Script::client_awaits_second().0;
    s.over(1).send(Peer::offer(2, 2));
    all.push(s);
    let mut s = Script::client_awaits_second().0;
    s.over(1).send(Peer::offer(2, 2));
    s.skip();
    s.over(1).send(Peer::continuation(1, 2, &[1], false));
    all.push(s);
    for mut s in [Script::two_link_server().0, Script::two_link_client().0] {
        s.break_link(1);
        all.push(s);
    }
    let mut s = Script::two_link_client().0;
    s.client_wants_rmb(2);
    all.push(s);
    let mut s = Script::two_link_server().0;
    s.server_wants_rmb();
    all.push(s);
    for s in &mut all {
        s.skip();
    }
    all
}

#[test]
fn every_message_in_every_state_once_twice_and_three_times() {
    // D5, D6, D10, H16, H17.
    for state in states() {
        for message in everything() {
            for over in [1, 2] {
                for times in 1..=3 {
                    let mut s = state.clone();
                    let Some(link) = s.link_with_queue_pair(over) else {
                        continue;
                    };
                    let before = s.endpoint.usage();
                    for _ in 0..times {
                        send_cheaply(&mut s, link, &message);
                        s.pump();
                        let now = s.endpoint.usage();
                        check!(s, now.links <= before.links + 1, true);
                        check!(s, now.remote_rmbs <= before.remote_rmbs + 1, true);
                    }
                    s.run_out();
                    check!(s, s.endpoint.usage(), Usage::default());
                }
            }
        }
    }
}

#[test]
fn any_two_messages_in_any_state() {
    // D3, D6, D8: the second one finds the first one's work under way.
    for state in states() {
        for first in everything() {
            let mut begun = state.clone();
            let Some(link) = begun.link_with_queue_pair(1) else {
                continue;
            };
            send_cheaply(&mut begun, link, &first);
            begun.pump();
            for second in everything() {
                let mut s = begun.clone();
                send_cheaply(&mut s, link, &second);
                s.pump();
                check!(s, s.endpoint.usage().links <= 4, true);
                s.run_out();
                check!(s, s.endpoint.usage(), Usage::default());
            }
        }
    }
}

#[test]
fn a_flood_of_requests_fails_its_link_and_no_other() {
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
    // Said again, an announcement is no new RMB.
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
fn a_port_that_flaps_in_every_state_leaves_nothing() {
    // D11, D12, D13, D16.
    for state in states() {
        for kind in [
            None,
            Some(Kind::QpToError),
            Some(Kind::Register),
            Some(Kind::Send),
        ] {
            for rnic in [1, 2] {
                let mut s = state.clone();
                s.adapter.hold = kind;
                for _ in 0..50 {
                    s.port_down(rnic);
                    s.port_up(rnic);
                }
                s.remove_rnic(3 - rnic);
                s.port_up(3 - rnic);
                s.release();
                check!(s, s.endpoint.usage().links <= 4, true);
                s.run_out();
                check!(s, s.endpoint.usage(), Usage::default());
            }
        }
    }
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
    s.send_raw(link, &Peer::test_link(1, false).emit());
    s.expect_silence();
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn refused_and_late_commands_of_a_new_link_cost_the_link_only() {
    // D9, D17, D19.
    let kinds = [
        Kind::CreateQp,
        Kind::ConnectQp,
        Kind::ActivateQp,
        Kind::Register,
    ];
    for kind in kinds {
        for late in [false, true] {
            let mut s = Script::server().rnics(2);
            let (conn, _) = s.server_asks_to_confirm();
            s.meddle(kind, late);
            s.over(1).send(Peer::confirms(1, 1));
            if s.has_llc() {
                s.expect_add_link();
                s.over(1).send(Peer::takes(2, 2));
            }
            s.settle_server(2);
            s.expect_established(conn);
            s.skip();
            s.write(conn, 5);
            s.over(1).expect_cdc();
            s.end();

            let mut s = Script::client().rnics(2);
            let (conn, _) = s.client_confirms_link();
            s.meddle(kind, late);
            s.over(1).send(Peer::offer(2, 2));
            if kind == Kind::ActivateQp && s.has_llc() {
                s.expect_add_link_reply();
                s.peer_asks_continuations(1, 2, &[1]);
                s.over(2).send(Peer::asks(2, 2));
            }
            s.settle_client(2);
            s.expect_established(conn);
            s.skip();
            s.write(conn, 5);
            s.over(1).expect_cdc();
            s.end();
        }
    }
}

/// How the stories of refused commands go on.
trait Meddle {
    fn meddle(&mut self, kind: Kind, late: bool);
    fn has_llc(&self) -> bool;
    fn settle_server(&mut self, link: u8);
    fn settle_client(&mut self, link: u8);
}

impl Meddle for Script {
    /// Refuses the next command of this kind, or never answers it.
    fn meddle(&mut self, kind: Kind, late: bool) {
        if late {
            self.adapter.hold = Some(kind);
        } else {
            self.adapter.refuse(kind, 1);
        }
    }

    fn has_llc(&self) -> bool {
        self.next_llc().is_some()
    }

    /// Answers what the server says of the link that comes to nothing.
    fn settle_server(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(m)) = self.poll_llc() {
                self.over(1)
                    .send(Peer::delete_link_with(m.flags, link, true));
            }
        }
        self.release();
    }

    /// The same of a client.
    fn settle_client(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(_)) = self.poll_llc() {
                self.over(1).send(Peer::delete_link(link));
            }
        }
        self.release();
    }
}
