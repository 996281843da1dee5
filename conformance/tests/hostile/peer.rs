//! A peer of SMC-D that keeps to the letters and not to the sense: it lies about first
//! contact, never reads, never closes, goes on writing after the end, and speaks over TCP
//! (reliability H4, H13, H20, H23).

use conformance::smcd::hand::{Hand, Mode, RING};
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::ClcError;
use smc_proto::event::CloseReason;
use smc_proto::id::{BufferId, ConnId};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::types::Cursor;

const NOTHING: ConnectionFlags = ConnectionFlags::empty();

/// What the peer has written, and the message it sends.
fn send(hand: &mut Hand, buffer: BufferId, [produced, consumed]: [u32; 2], flags: ConnectionFlags) {
    let cursor = |total: u32| Cursor {
        wrap: (total / RING) as u16,
        count: total % RING,
    };
    let cdc = CdcIsm {
        producer: cursor(produced),
        consumer: cursor(consumed),
        connection_flags: flags,
        ..CdcIsm::default()
    };
    let cdc = cdc.emit(Endianness::NATIVE);
    hand.report(IsmCompletion::Signalled { buffer, cdc });
}

/// Another connection of the same peer still works.
#[track_caller]
fn works(hand: &mut Hand, conn: ConnId, buffer: BufferId) {
    send(hand, buffer, [7, 0], NOTHING);
    assert_eq!(hand.readable(conn), Some(7));
    assert_eq!(hand.closed(conn), None);
}

fn all() -> impl Iterator<Item = (Mode, bool)> {
    let both = |mode| [(mode, true), (mode, false)];
    Mode::ALL.into_iter().flat_map(both)
}

#[test]
fn bytes_over_tcp_while_smcd_carries_the_connection_abort_it() {
    //= CLC-077 test
    for (mode, client) in all() {
        let (mut hand, conn) = Hand::connected(mode, client);
        let mut bytes = [0; MAX_LENGTH];
        let message = match client {
            true => ClcMessage::SmcdAccept(hand.half(true, 0xa)),
            false => ClcMessage::SmcdConfirm(hand.half(true, 0xa)),
        };
        let len = message.emit(&mut bytes).expect("it fits");
        let result = hand.octets(conn, &bytes[..len]);
        assert_eq!(result, Err(ClcError::OutOfTurn), "{mode:?}");
        let last = hand.moved.last();
        let Some(IsmCommand::Signal { cdc, .. }) = last else {
            panic!("{last:?}");
        };
        let cdc = CdcIsm::parse(cdc, Endianness::NATIVE).expect("it is one");
        let abnormal = ConnectionFlags::ABNORMAL_CLOSE;
        assert!(cdc.connection_flags.contains(abnormal), "{mode:?}");
        hand.wait(Duration::from_secs(6));
        assert_eq!(hand.closed(conn), Some(CloseReason::PeerMisbehaved));
        hand.end();
    }
}

#[test]
fn lies_about_first_contact_end_no_other_connection() {
    //= CASE-H13 test
    //= D-035 test
    //= D-056 test
    for (mode, client) in all() {
        for (live, claim) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut hand = Hand::new(mode);
            let first = live.then(|| {
                let conn = match client {
                    true => hand.client(true, 0xa),
                    false => hand.server(true, 0xa),
                };
                (conn, hand.dmb())
            });
            let what = format!("{mode:?}, client {client}, live {live}, claims {claim}");
            // The server decides, whatever a client sends; a client believes its server.
            let second = match client {
                true => hand.client(claim, 0xb),
                false => hand.server(claim, 0xb),
            };
            assert!(hand.is_established(second), "{what}");
            let groups = 1 + u32::from(client && live && claim);
            assert_eq!(hand.endpoint.usage().groups, groups, "{what}");
            if let Some((conn, dmb)) = first {
                works(&mut hand, conn, dmb);
            }
            let dmb = hand.dmb();
            works(&mut hand, second, dmb);
            hand.end();
        }
    }
}

#[test]
fn a_peer_that_never_reads_is_given_up_in_time() {
    //= CASE-H20 test
    for (mode, client) in all() {
        for frozen in [0, 1, RING / 2, RING - 1, RING] {
            let (mut hand, conn) = Hand::connected(mode, client);
            let dmb = hand.dmb();
            let mut written = 0;
            // As much as fits, and once more behind what the peer read before it froze.
            for consumed in [0, frozen] {
                send(&mut hand, dmb, [0, consumed], NOTHING);
                let mut idle = 0;
                while idle < 2 {
                    let now = hand.now;
                    let space = hand.space(conn).expect("it is there");
                    let mut open = hand.endpoint.conn(conn).expect("it is there");
                    open.commit(now, space).expect("it is open");
                    hand.pump();
                    written += space;
                    idle += u32::from(space == 0);
                }
            }
            // Nothing is kept beyond the peer's ring and one send buffer.
            let most = frozen + 2 * RING + 32;
            assert!((RING + frozen..=most).contains(&written), "{written}");
            hand.wait(Duration::from_secs(3600));
            assert_eq!(hand.closed(conn), None, "only its program is in a hurry");
            let now = hand.now;
            let mut open = hand.endpoint.conn(conn).expect("it is there");
            open.shutdown(now, Shutdown::Both);
            hand.pump();
            hand.wait(Duration::from_secs(130));
            let closed = hand.closed(conn);
            assert_eq!(closed, Some(CloseReason::CloseTimeout), "{mode:?} {frozen}");
            hand.end();
        }
    }
}

#[test]
fn a_peer_that_does_not_go_on_with_a_close_is_given_up_in_time() {
    //= CASE-H23 test
    let done = ConnectionFlags::SENDING_DONE;
    let ends: [fn(&mut Hand, ConnId); 3] = [
        |hand, conn| {
            let now = hand.now;
            let mut open = hand.endpoint.conn(conn).expect("it is there");
            open.shutdown(now, Shutdown::Both);
        },
        |hand, conn| {
            let now = hand.now;
            let mut open = hand.endpoint.conn(conn).expect("it is there");
            open.shutdown(now, Shutdown::Write);
            open.shutdown(now, Shutdown::Both);
        },
        |hand, conn| {
            let now = hand.now;
            hand.endpoint.conn(conn).expect("it is there").abort(now);
        },
    ];
    for (mode, client) in all() {
        for (number, end) in ends.iter().enumerate() {
            for (before, behind) in [(NOTHING, NOTHING), (done, done), (NOTHING, done)] {
                let (mut hand, conn) = Hand::connected(mode, client);
                let dmb = hand.dmb();
                send(&mut hand, dmb, [0, 0], before);
                end(&mut hand, conn);
                hand.pump();
                send(&mut hand, dmb, [0, 0], behind);
                // The same message for ever is no progress.
                for _ in 0..140 {
                    hand.wait(Duration::from_millis(500));
                    send(&mut hand, dmb, [0, 0], behind);
                }
                let expected = match number {
                    2 => CloseReason::LocalAbort,
                    _ => CloseReason::CloseTimeout,
                };
                let what = format!("{mode:?}, end {number}, {before:?}, {behind:?}");
                assert_eq!(hand.closed(conn), Some(expected), "{what}");
                hand.end();
            }
        }
    }
}

#[test]
fn writes_after_the_end_reach_no_connection() {
    //= CASE-H04 test
    //= D-057 test
    for (mode, client) in all() {
        let (mut hand, first) = Hand::connected(mode, client);
        let old = hand.dmb();
        let now = hand.now;
        hand.endpoint.conn(first).expect("it is there").abort(now);
        hand.pump();
        // The peer keeps what it was given, and never answers the abort.
        hand.wait(Duration::from_secs(6));
        assert_eq!(hand.closed(first), Some(CloseReason::LocalAbort));
        let second = match client {
            true => hand.client(false, 0xb),
            false => hand.server(false, 0xb),
        };
        let new = hand.dmb();
        assert_ne!(old, new, "{mode:?}");
        send(&mut hand, old, [100, 0], ConnectionFlags::all());
        assert_eq!(hand.readable(second), Some(0));
        works(&mut hand, second, new);
        hand.end();
    }
}
