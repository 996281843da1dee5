//! A peer takes back the DMB that a connection writes to, or is to write to.

use conformance::smcd::hand::{Hand, Mode};
use smc_proto::command::{IsmCommand, TcpCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::CloseReason;
use smc_proto::id::{BufferId, ConnId};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::types::DiagnosisCode;

/// The send buffer of the only connection.
fn bound(hand: &Hand) -> BufferId {
    let dmb = hand.dmb();
    let mut others = hand.buffers().filter(|buffer| *buffer != dmb);
    others.next().expect("a send buffer")
}

fn withdraw(hand: &mut Hand, buffer: BufferId) {
    hand.report(IsmCompletion::DmbWithdrawn { buffer });
}

/// The peer's last message with these flags.
fn signal(hand: &mut Hand, connection_flags: ConnectionFlags) {
    let cdc = CdcIsm {
        connection_flags,
        ..CdcIsm::default()
    };
    let (buffer, cdc) = (hand.dmb(), cdc.emit(Endianness::NATIVE));
    hand.report(IsmCompletion::Signalled { buffer, cdc });
}

/// Executes those commands that wait and are meant.
fn execute(hand: &mut Hand, meant: impl Fn(&IsmCommand) -> bool) {
    let waiting = core::mem::take(&mut hand.commands);
    for command in waiting {
        match meant(&command) {
            true => hand.execute(command),
            false => hand.commands.push_back(command),
        }
    }
    hand.pump();
}

/// The engine declines for lack of memory that it can write to.
#[track_caller]
fn assert_declined(hand: &Hand, conn: ConnId) {
    match hand.sent_clc.back() {
        Some((of, ClcMessage::Decline(decline))) if *of == conn => {
            assert_eq!(decline.diagnosis, DiagnosisCode::MEMORY);
        }
        other => panic!("{other:?}"),
    }
    assert!(!hand.is_established(conn));
}

#[test]
fn a_side_without_the_last_message_is_notified_of_the_end() {
    //= D-059 test
    for mode in Mode::ALL {
        for client in [true, false] {
            for sent in [ConnectionFlags::empty(), ConnectionFlags::SENDING_DONE] {
                let (mut hand, conn) = Hand::connected(mode, client);
                signal(&mut hand, sent);
                let moved = hand.moved.len();
                let buffer = bound(&hand);
                withdraw(&mut hand, buffer);
                assert_eq!(hand.closed(conn), Some(CloseReason::LinksLost));
                assert_eq!(hand.moved.len(), moved, "into what is gone");
                let reset =
                    |(of, tcp): &(ConnId, TcpCommand)| *of == conn && *tcp == TcpCommand::Reset;
                assert!(hand.tcp.iter().any(reset));
                // Its group goes on: no message concerned that.
                let other = match client {
                    true => hand.client(false, 0xb),
                    false => hand.server(false, 0xb),
                };
                assert!(hand.is_established(other), "{mode:?}");
                hand.end();
            }
        }
    }
}

#[test]
fn behind_the_last_message_it_changes_nothing() {
    //= D-059 test
    for mode in Mode::ALL {
        let (mut hand, conn) = Hand::connected(mode, true);
        signal(&mut hand, ConnectionFlags::PEER_CONNECTION_CLOSED);
        let buffer = bound(&hand);
        withdraw(&mut hand, buffer);
        assert_eq!(hand.closed(conn), None, "there may be octets to be read");
        // An abort is answered and over.
        let (mut hand, conn) = Hand::connected(mode, true);
        let buffer = bound(&hand);
        signal(&mut hand, ConnectionFlags::ABNORMAL_CLOSE);
        withdraw(&mut hand, buffer);
        hand.wait(Duration::from_secs(10));
        assert_eq!(hand.closed(conn), Some(CloseReason::PeerAbort));
        hand.end();
    }
}

#[test]
fn who_waits_for_the_peers_close_waits_no_more() {
    //= D-059 test
    for mode in Mode::ALL {
        let (mut hand, conn) = Hand::connected(mode, false);
        let now = hand.now;
        let mut open = hand.endpoint.conn(conn).expect("it is there");
        open.shutdown(now, Shutdown::Both);
        hand.pump();
        assert_eq!(hand.closed(conn), None, "the peer has not closed");
        let buffer = bound(&hand);
        withdraw(&mut hand, buffer);
        assert_eq!(hand.closed(conn), Some(CloseReason::LinksLost));
        hand.end();
    }
}

#[test]
fn what_is_not_bound_is_not_taken_back() {
    //= D-059 test
    for mode in Mode::ALL {
        let (mut hand, conn) = Hand::connected(mode, true);
        let (own, gone) = (hand.dmb(), bound(&hand));
        withdraw(&mut hand, own);
        assert_eq!(hand.closed(conn), None);
        withdraw(&mut hand, gone);
        assert!(hand.closed(conn).is_some());
        // Later buffers in the same place are others, or bound to another DMB.
        hand.wait(Duration::from_secs(10));
        withdraw(&mut hand, gone);
        let next = hand.client(false, 0xb);
        assert!(hand.is_established(next));
        assert_eq!(hand.closed(next), None);
        hand.end();
    }
}

#[test]
fn a_client_that_cannot_write_any_more_declines() {
    //= D-059 test
    // The withdrawal is reported while it still waits for its own DMB, or before the
    // answer that binds.
    for mode in Mode::ALL {
        for early in [true, false] {
            let mut hand = Hand::new(mode);
            let conn = hand.connect();
            hand.hold = true;
            let accept = hand.half(true, 0xa);
            hand.clc(conn, &ClcMessage::SmcdAccept(accept));
            execute(&mut hand, |c| matches!(c, IsmCommand::AllocBuffer { .. }));
            let attach = |c: &IsmCommand| matches!(c, IsmCommand::AttachDmb { .. });
            let found = hand.commands.iter().copied().find(attach);
            let Some(IsmCommand::AttachDmb { buffer, .. }) = found else {
                panic!("{:?}", hand.commands);
            };
            if !early {
                execute(&mut hand, attach);
            }
            withdraw(&mut hand, buffer);
            assert!(!hand.is_established(conn));
            hand.hold = false;
            execute(&mut hand, |_| true);
            assert_declined(&hand, conn);
            hand.end();
        }
    }
}

#[test]
fn a_confirm_that_is_still_to_be_sent_becomes_a_decline() {
    //= D-059 test
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let conn = hand.connect();
        let mut bytes = [0; MAX_LENGTH];
        let accept = ClcMessage::SmcdAccept(hand.half(true, 0xa));
        let len = accept.emit(&mut bytes).expect("it fits");
        let taken = hand.endpoint.handle_clc(hand.now, conn, &bytes[..len]);
        assert!(taken.is_ok(), "{taken:?}");
        // Everything is there, and the CLC message was not polled yet.
        let device = conformance::smcd::hand::DEVICE;
        while let Some(command) = hand.endpoint.poll_ism(hand.now, device) {
            hand.execute(command);
        }
        let buffer = bound(&hand);
        withdraw(&mut hand, buffer);
        assert_declined(&hand, conn);
        hand.end();
    }
}

#[test]
fn a_server_that_cannot_write_any_more_resets() {
    //= D-058 test
    //= D-059 test
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let conn = hand.accepts();
        hand.hold = true;
        let confirm = hand.half(true, 0xa);
        hand.clc(conn, &ClcMessage::SmcdConfirm(confirm));
        let Some(IsmCommand::AttachDmb { buffer, .. }) = hand.commands.front().copied() else {
            panic!("{:?}", hand.commands);
        };
        withdraw(&mut hand, buffer);
        hand.hold = false;
        execute(&mut hand, |_| true);
        assert_eq!(hand.closed(conn), Some(CloseReason::LinksLost));
        assert!(hand.tcp.contains(&(conn, TcpCommand::Reset)));
        hand.end();
    }
}

#[test]
fn a_device_that_does_not_report_leaves_it_to_the_reset_or_the_next_write() {
    //= D-053 test
    //= D-058 test
    //= D-059 test
    for mode in Mode::ALL {
        // The server resets while the client has received nothing over SMC-D yet.
        let (mut hand, conn) = Hand::connected(mode, true);
        hand.endpoint
            .handle_tcp(hand.now, conn, TcpEvent::PeerReset);
        hand.wait(Duration::from_secs(10));
        assert_eq!(hand.closed(conn), Some(CloseReason::TcpReset));
        hand.end();
        // After that TCP decides nothing any more: the next write fails.
        let (mut hand, conn) = Hand::connected(mode, true);
        signal(&mut hand, ConnectionFlags::empty());
        hand.endpoint
            .handle_tcp(hand.now, conn, TcpEvent::PeerReset);
        hand.wait(Duration::from_secs(10));
        assert_eq!(hand.closed(conn), None);
        hand.report(IsmCompletion::MoveFailed { conn });
        hand.wait(Duration::from_secs(10));
        assert_eq!(hand.closed(conn), Some(CloseReason::LinksLost));
        hand.end();
    }
}
