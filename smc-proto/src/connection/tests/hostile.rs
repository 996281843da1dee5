//! A peer that lies about cursors (RFC 7609 leaves that open, AMB-44).

use super::harness::{Pair, take_transmit};
use crate::config::ConnectionConfig;
use crate::connection::cursor::Step;
use crate::connection::*;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use crate::wire::types::{AlertToken, Cursor};

const CFG: ConnectionConfig = ConnectionConfig::DEFAULT;
const NOW: Instant = Instant::ZERO;

fn victim(base: u32, ours: u32, theirs: u32) -> Connection {
    let ring = |usable| Ring::new(base, base + usable).unwrap();
    let params = super::harness::params(ring(ours), ring(theirs), 64);
    Connection::new(&params, &CFG)
}

fn cdc(sequence: u16, producer: (u16, u32), consumer: (u16, u32)) -> Cdc {
    let cursor = |(wrap, count)| Cursor { wrap, count };
    Cdc {
        sequence,
        alert_token: AlertToken(7),
        producer: cursor(producer),
        consumer: cursor(consumer),
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
    }
}

/// The message is refused as a whole and the connection aborts, once.
fn refused(conn: &mut Connection, cdc: &Cdc) -> PeerMisbehaved {
    let before = conn.clone();
    let outcome = conn.on_cdc(NOW, &CFG, cdc);
    let CdcOutcome::Misbehaved(what) = outcome else {
        panic!("{outcome:?} for {cdc}");
    };
    assert_eq!(conn.state(), CloseState::PeerAbortWait);
    assert_eq!(conn.cause(), Some(CloseCause::PeerMisbehaved(what)));
    assert_eq!(conn.rx.received, before.rx.received);
    assert_eq!(conn.rx.sequence, before.rx.sequence);
    assert_eq!(conn.rx.peer_flags, before.rx.peer_flags);
    assert_eq!(conn.tx.consumer, before.tx.consumer);
    let transmit = take_transmit(conn, NOW, &CFG).expect("an abort");
    assert_eq!(transmit.writes, []);
    assert!(
        transmit
            .cdc
            .connection_flags
            .contains(ConnectionFlags::ABNORMAL_CLOSE)
    );
    assert_eq!(take_transmit(conn, NOW, &CFG), None);
    what
}

#[test]
fn counts_outside_the_ring_are_refused() {
    //= CASE-H01 test
    //= CASE-C01 test
    use PeerMisbehaved::*;
    for base in [0, 4] {
        let end = base + 16;
        for count in [end, end + 1, u32::MAX, base.wrapping_sub(1)] {
            for flags in [ProducerFlags::empty(), ProducerFlags::URGENT_PRESENT] {
                let mut hostile = cdc(1, (0, count), (0, base));
                hostile.producer_flags = flags;
                let what = refused(&mut victim(base, 16, 64), &hostile);
                assert_eq!(what, ProducerOutsideRing);
            }
            // The same counts as consumer cursor, which runs in the peer's ring.
            let what = refused(&mut victim(base, 64, 16), &cdc(1, (0, base), (0, count)));
            assert_eq!(what, ConsumerOutsideRing);
        }
    }
    // Urgent data with a producer cursor that did not move is no urgent data.
    let mut conn = victim(0, 16, 16);
    let mut hostile = cdc(1, (0, 0), (0, 0));
    hostile.producer_flags = ProducerFlags::URGENT_PRESENT | ProducerFlags::URGENT_PENDING;
    assert_eq!(conn.on_cdc(NOW, &CFG, &hostile), CdcOutcome::Applied);
    assert_eq!(conn.urgent(), None);
    assert!(conn.take_notices().contains(Notices::URGENT_PENDING));
}

#[test]
fn a_wrap_count_alone_grants_one_ring_and_no_more() {
    //= CASE-C02 test
    let mut conn = victim(0, 16, 16);
    let first = cdc(1, (1, 0), (0, 0));
    assert_eq!(conn.on_cdc(NOW, &CFG, &first), CdcOutcome::Applied);
    assert_eq!(conn.readable().len(), 16);
    for wrap in 2..=6 {
        let mut again = conn.clone();
        let what = refused(&mut again, &cdc(wrap, (wrap, 0), (0, 0)));
        assert_eq!(what, PeerMisbehaved::ProducerBeyondWindow);
    }
    for (wrap, expected) in [
        (2, PeerMisbehaved::ProducerBeyondWindow),
        (8_000, PeerMisbehaved::ProducerBeyondWindow),
        (0x7fff, PeerMisbehaved::ProducerBeyondWindow),
        (0x8000, PeerMisbehaved::ProducerFarBack),
        (0xfffe, PeerMisbehaved::ProducerFarBack),
    ] {
        let what = refused(&mut victim(0, 16, 16), &cdc(1, (wrap, 0), (0, 0)));
        assert_eq!(what, expected, "wrap {wrap}");
    }
    // Consumed, but the peer was not notified: it cannot know of the space.
    conn.consume(16).unwrap();
    let mut early = conn.clone();
    assert_eq!(
        refused(&mut early, &cdc(2, (2, 0), (0, 0))),
        PeerMisbehaved::ProducerBeyondWindow
    );
    assert!(take_transmit(&mut conn, NOW, &CFG).is_some());
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(2, (2, 0), (0, 0))),
        CdcOutcome::Applied
    );
}

#[test]
fn the_wrap_count_itself_wraps() {
    //= CASE-C02 test
    let mut pair = Pair::of(4);
    for side in [0, 1] {
        for position in [
            &mut pair.sides[side].conn.tx.written,
            &mut pair.sides[1 - side].conn.rx.received,
        ] {
            position.cursor.wrap = u16::MAX;
        }
        pair.sides[side].conn.tx.consumer.cursor.wrap = u16::MAX;
        pair.sides[side].conn.rx.consumed.cursor.wrap = u16::MAX;
    }
    let mut over = pair.sides[1].conn.clone();
    assert_eq!(
        refused(&mut over, &cdc(1, (0, 1), (u16::MAX, 0))),
        PeerMisbehaved::ProducerBeyondWindow
    );
    for _ in 0..8 {
        assert_eq!(pair.send(0, 3, false), 3);
        pair.run();
        assert_eq!(pair.recv(1, 3), 3);
        pair.run();
    }
    assert_eq!(pair.sides[1].conn.rx.received.cursor.wrap, 5);
}

#[test]
fn a_peer_that_acknowledges_more_than_it_got_is_refused() {
    //= CASE-H01 test
    //= CASE-C03 test
    use PeerMisbehaved::*;
    let hostile = cdc(1, (0, 0), (0, 1));
    assert_eq!(
        refused(&mut victim(0, 16, 16), &hostile),
        ConsumerBeyondPublished
    );
    let mut conn = victim(0, 16, 16);
    conn.commit(NOW, &CFG, 5).unwrap();
    // Committed, and neither written nor announced.
    assert_eq!(
        refused(&mut conn.clone(), &cdc(1, (0, 0), (0, 5))),
        ConsumerBeyondPublished
    );
    assert!(take_transmit(&mut conn, NOW, &CFG).is_some());
    assert_eq!(
        refused(&mut conn.clone(), &cdc(1, (0, 0), (0, 6))),
        ConsumerBeyondPublished
    );
    assert_eq!(
        refused(&mut conn.clone(), &cdc(1, (0, 0), (1, 0))),
        ConsumerBeyondPublished
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(1, (0, 0), (0, 5))),
        CdcOutcome::Applied
    );
    assert_eq!(conn.tx.window(), 16);
}

#[test]
fn a_backward_cursor_is_left_alone_and_counted_up_to_one_ring() {
    //= CASE-H02 test
    let mut conn = victim(0, 16, 16);
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(1, (0, 9), (0, 0))),
        CdcOutcome::Applied
    );
    let mut back = cdc(2, (0, 4), (0, 0));
    back.connection_flags = ConnectionFlags::SENDING_DONE;
    assert_eq!(conn.on_cdc(NOW, &CFG, &back), CdcOutcome::BackwardCursor);
    assert_eq!(conn.readable().len(), 9);
    assert_eq!(conn.state(), CloseState::AppCloseWait1);
    assert_eq!(conn.stats().backward, 1);
    // 16 bytes before 9 is still a ring, 17 is not.
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(3, (0xffff, 9), (0, 0))),
        CdcOutcome::BackwardCursor
    );
    assert_eq!(
        refused(&mut conn, &cdc(4, (0xffff, 8), (0, 0))),
        PeerMisbehaved::ProducerFarBack
    );
}

#[test]
fn forged_updates_never_make_a_counter_negative() {
    //= CASE-C04 test
    // Small rings, every wrap and count in each of several messages: whatever is
    // accepted keeps both counters within their buffers.
    for base in [0, 4] {
        let mut seeds = std::vec![victim(base, 3, 2)];
        seeds[0].commit(NOW, &CFG, 2).unwrap();
        while take_transmit(&mut seeds[0], NOW, &CFG).is_some() {}
        for sequence in 1..=3u16 {
            let mut next = std::vec::Vec::new();
            for conn in &seeds {
                for (pw, pc) in [0u16, 1, 2, 0xffff]
                    .into_iter()
                    .flat_map(|w| (0..8).map(move |c| (w, c)))
                {
                    for (cw, cc) in [0u16, 1, 0xffff]
                        .into_iter()
                        .flat_map(|w| (0..7).map(move |c| (w, c)))
                    {
                        let mut conn = conn.clone();
                        let outcome = conn.on_cdc(NOW, &CFG, &cdc(sequence, (pw, pc), (cw, cc)));
                        assert!(conn.rx.unread() <= 3);
                        assert!(conn.tx.window() <= 2);
                        if outcome == CdcOutcome::Applied && next.len() < 40 {
                            let _ = conn.consume(1);
                            next.push(conn);
                        }
                    }
                }
            }
            seeds = next;
        }
    }
}

#[test]
fn sequence_numbers_decide_what_is_stale() {
    //= CASE-H02 test
    //= CASE-C19 test
    //= CDC-006 test
    //= CDC-008 test
    //= CDC-009 test
    //= CDC-011 test
    let mut conn = victim(0, 16, 16);
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(0, (0, 1), (0, 0))),
        CdcOutcome::Stale
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(1, (0, 1), (0, 0))),
        CdcOutcome::Applied
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(1, (0, 2), (0, 0))),
        CdcOutcome::Stale
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(3, (0, 3), (0, 0))),
        CdcOutcome::Applied
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(2, (0, 2), (0, 0))),
        CdcOutcome::Stale
    );
    assert_eq!(conn.readable().len(), 3);
    // A message about more than data makes older ones stale as well.
    let mut ended = conn.clone();
    let end = Cdc {
        connection_flags: ConnectionFlags::SENDING_DONE,
        ..cdc(5, (0, 3), (0, 0))
    };
    assert_eq!(ended.on_cdc(NOW, &CFG, &end), CdcOutcome::Applied);
    assert_eq!(
        ended.on_cdc(NOW, &CFG, &cdc(4, (0, 3), (0, 0))),
        CdcOutcome::Stale
    );
    // Half the number space ahead is new, more than that is old.
    let mut far = conn.clone();
    assert_eq!(
        far.on_cdc(NOW, &CFG, &cdc(3 + 0x7fff, (0, 4), (0, 0))),
        CdcOutcome::Applied
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(3 + 0x8000, (0, 4), (0, 0))),
        CdcOutcome::Stale
    );
    conn.rx.sequence = 65_535;
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(65_535, (0, 4), (0, 0))),
        CdcOutcome::Stale
    );
    assert_eq!(
        conn.on_cdc(NOW, &CFG, &cdc(0, (0, 4), (0, 0))),
        CdcOutcome::Applied
    );
    assert_eq!(conn.stats().stale, 5);
    assert_eq!(conn.rx.judge(conn.rx.received.cursor), Ok(Step::Forward(0)));
}
