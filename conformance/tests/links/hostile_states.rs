//! Any message in any state of a group with a second link: it costs few steps,
//! and in the end nothing is left (reliability D3 to D16, H16, H17).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::endpoint::Usage;
use smc_proto::id::LinkId;
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};

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

/// All messages a peer could send about links, in either role.
fn everything() -> Vec<LlcMessage<'static>> {
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
    //= CASE-D05 test
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
                    s.give_up();
                    check!(s, s.endpoint.usage(), Usage::default());
                }
            }
        }
    }
}

#[test]
fn any_two_messages_in_any_state() {
    //= CASE-D06 test
    // D3, D6, D8: the second one finds the first one's work in flight.
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
                s.give_up();
                check!(s, s.endpoint.usage(), Usage::default());
            }
        }
    }
}

#[test]
fn a_port_that_flaps_in_every_state_leaves_nothing() {
    //= CASE-D13 test
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
                s.give_up();
                check!(s, s.endpoint.usage(), Usage::default());
            }
        }
    }
}
