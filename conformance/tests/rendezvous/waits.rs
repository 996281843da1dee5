//! What a rendezvous holds and keeps to while it waits: ports, places in a queue, buffers.

use conformance::check;
use conformance::script::Script;
use conformance::smcd::hand::{HEAD, Hand, Mode};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::Config;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, SmcdAcceptConfirm};
use smc_proto::wire::types::{Cursor, DiagnosisCode, Mac, PeerId};

fn groups_and_buffers(s: &mut Script) -> (u32, u32) {
    let usage = s.endpoint.usage();
    (usage.groups, usage.buffers)
}

#[test]
fn a_client_without_its_proposed_port_takes_no_other_port() {
    //= CLC-049 test
    let mut s = Script::client().rnics(2);
    let conn = s.connect();
    s.expect_proposal(conn);
    s.port_down(1);
    s.accept(conn, s.peer.accept(1));
    s.expect_decline(conn, DiagnosisCode::NO_SMCR_DEVICE);
    check!(s, groups_and_buffers(&mut s), (0, 0));
    s.end();
}

#[test]
fn a_client_that_loses_a_port_it_did_not_propose_goes_on() {
    let mut s = Script::client().rnics(3);
    let conn = s.connect();
    s.expect_proposal(conn);
    s.port_down(3);
    s.accept(conn, s.peer.accept(1));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn clc_messages_are_sent_in_the_order_in_which_they_became_due() {
    let mut s = Script::client();
    s.hold_clc = true;
    let conns: Vec<ConnId> = (0..4).map(|_| s.connect()).collect();
    s.hold_clc = false;
    s.pump();
    let sent: Vec<ConnId> = conns.iter().map(|_| s.expect_clc().0).collect();
    check!(s, sent, conns);
    s.end();
}

#[test]
fn a_decline_that_tcp_does_not_take_yet_holds_no_buffers() {
    //= CLC-049 test
    let mut s = Script::client();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.hold_clc = true;
    s.accept(conn, s.peer.accept(1));
    check!(s, groups_and_buffers(&mut s), (1, 2));
    s.port_down(1);
    check!(s, groups_and_buffers(&mut s), (0, 0));
    s.hold_clc = false;
    s.pump();
    s.expect_decline(conn, DiagnosisCode::LINK_READY);
    s.end();
}

/// The last message, which must be a Decline of SMC-D's only connection.
#[track_caller]
fn declined(hand: &Hand, conn: ConnId) -> DiagnosisCode {
    match hand.sent_clc.back() {
        Some((of, ClcMessage::Decline(decline))) if *of == conn => {
            assert!(!decline.out_of_sync);
            decline.diagnosis
        }
        other => panic!("a Decline of {conn}, not {other:?}"),
    }
}

#[test]
fn a_device_that_registers_no_dmb_in_time_makes_a_decline() {
    let config = Config::new(PeerId::new(1, Mac([2; 6])));
    let wait = config.timeouts.control_command;
    assert!(wait < config.timeouts.rendezvous);
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let conn = hand.connect();
        hand.sent_clc.clear();
        hand.hold = true;
        let accept = hand.half(true, 0xa);
        hand.clc(conn, &ClcMessage::SmcdAccept(accept));
        hand.wait(wait - Duration::from_millis(1));
        assert!(hand.sent_clc.is_empty(), "{mode:?}: {:?}", hand.sent_clc);
        hand.wait(Duration::from_millis(1));
        assert_eq!(declined(&hand, conn), DiagnosisCode::REGISTER_BUFFER);
        hand.end();
    }
}

fn accepted(hand: &mut Hand) -> Option<(ConnId, SmcdAcceptConfirm)> {
    match hand.sent_clc.pop_front()? {
        (conn, ClcMessage::SmcdAccept(accept)) => Some((conn, accept)),
        other => panic!("an Accept, not {other:?}"),
    }
}

#[test]
fn a_server_that_waits_for_a_group_of_smc_d_joins_it() {
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let first = hand.accepts();
        let (conn, accept) = accepted(&mut hand).expect("the first Accept");
        assert!(conn == first && accept.first_contact);
        let second = hand.accepts();
        assert!(hand.sent_clc.is_empty(), "{mode:?}: {:?}", hand.sent_clc);
        let confirm = hand.half(true, 0xa);
        hand.clc(first, &ClcMessage::SmcdConfirm(confirm));
        let (conn, accept) = accepted(&mut hand).expect("the second Accept");
        assert!(conn == second && !accept.first_contact, "{accept:?}");
        assert_eq!(hand.endpoint.usage().groups, 1);
        hand.end();
    }
}

#[test]
fn data_of_smc_d_that_outruns_the_confirm_can_be_read_once_that_is_there() {
    //= CDC-033 test
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let conn = hand.accepts();
        let cdc = CdcIsm {
            producer: Cursor { wrap: 0, count: 7 },
            ..CdcIsm::default()
        };
        let cdc = cdc.emit(Endianness::NATIVE);
        assert_eq!(cdc.len(), HEAD as usize);
        let buffer = hand.dmb();
        hand.report(IsmCompletion::Signalled { buffer, cdc });
        assert_eq!(hand.readable(conn), None);
        let confirm = hand.half(true, 0xa);
        hand.clc(conn, &ClcMessage::SmcdConfirm(confirm));
        assert!(hand.is_established(conn), "{:?}", hand.events);
        assert_eq!(hand.readable(conn), Some(7), "{mode:?}");
        hand.end();
    }
}
