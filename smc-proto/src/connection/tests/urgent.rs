//! Urgent data, at every place of a ring.

use super::harness::{Pair, octet};
use crate::config::{ConnectionConfig, UrgentFlags};
use crate::connection::*;
use crate::wire::cdc::{ConnectionFlags, ProducerFlags};

const B: ProducerFlags = ProducerFlags::WRITER_BLOCKED;
const P: ProducerFlags = ProducerFlags::URGENT_PENDING;
const PU: ProducerFlags = P.union(ProducerFlags::URGENT_PRESENT);

fn pair(base: u32, usable: u32, inline: bool) -> Pair {
    let ring = Ring::new(base, base + usable).unwrap();
    Pair::with(ring, ring, 64, inline)
}

/// [`pair`], with RFC 7609's flags.
fn keeping(base: u32, usable: u32, inline: bool) -> Pair {
    let ring = Ring::new(base, base + usable).unwrap();
    let mut cfg = ConnectionConfig::DEFAULT;
    cfg.urgent_flags = UrgentFlags::Keep;
    Pair::configured(cfg, ring, ring, 64, inline)
}

#[test]
fn an_urgent_octet_at_every_place_inline_and_out_of_line() {
    //= CASE-C20 test
    //= URG-001 test
    //= URG-002 test
    //= URG-006 test
    //= URG-007 test
    //= URG-011 test
    for base in [0, 4] {
        for inline in [false, true] {
            for start in 0..8 {
                for len in 1..=8 {
                    let mut pair = pair(base, 8, inline);
                    pair.send(0, start, false);
                    pair.run();
                    pair.recv(1, start);
                    pair.run();
                    pair.send(0, len, true);
                    pair.run();
                    let cdc = pair.sides[0].last_cdc();
                    assert_eq!(cdc.producer_flags.difference(B), PU);
                    assert!(pair.sides[1].notices.contains(Notices::URGENT));
                    let updates = pair.sides[1].cdcs.len();
                    let urgent = pair.conn(1).urgent().unwrap();
                    assert_eq!(urgent.ahead, len - 1);
                    assert_eq!(urgent.offset, base + (start + len - 1) % 8);
                    let side = &pair.sides[1];
                    let value = side.rmbe[urgent.offset as usize];
                    assert_eq!(value, octet(u64::from(start + len - 1)));
                    assert_eq!(side.conn.readable().len(), len - u32::from(!inline));
                    if !inline {
                        assert_eq!(pair.conn(1).take_urgent(), Ok(urgent));
                        assert_eq!(pair.conn(1).take_urgent(), Err(ApiMisuse::NoUrgent));
                    }
                    pair.recv(1, 8);
                    assert_eq!(pair.conn(1).rx.unread(), 0);
                    assert_eq!(pair.conn(1).urgent(), None);
                    pair.run();
                    assert_eq!(pair.sides[1].cdcs.len(), updates + 1);
                }
            }
        }
    }
}

/// An urgent byte that was copied out ahead of the bytes before it is read with these once the
/// application reads it in its place, and can be taken again if it changes that once more.
#[test]
fn how_urgent_data_is_read_changes_before_it_is_passed() {
    for again in [false, true] {
        let mut pair = pair(0, 32, false);
        pair.send(0, 5, true);
        pair.send(0, 4, false);
        pair.run();
        let urgent = pair.conn(1).urgent().unwrap();
        assert_eq!(pair.conn(1).take_urgent(), Ok(urgent));
        pair.conn(1).set_urgent_inline(true);
        assert_eq!(pair.conn(1).urgent(), Some(urgent));
        if again {
            pair.conn(1).set_urgent_inline(false);
            assert_eq!(pair.conn(1).take_urgent(), Ok(urgent));
        }
        assert_eq!(pair.recv(1, 32), if again { 4 } else { 5 });
        pair.run();
        assert_eq!(pair.recv(1, 32), 4);
        assert_eq!(pair.conn(1).urgent(), None);
    }
}

#[test]
fn nothing_follows_urgent_data_before_it_is_read() {
    //= URG-005 test
    //= URG-009 test
    for (mut pair, behind) in [
        (pair(0, 32, true), ProducerFlags::empty()),
        (keeping(0, 32, true), PU),
    ] {
        pair.send(0, 5, true);
        pair.send(0, 4, false);
        pair.run();
        assert_eq!(pair.sides[0].last_cdc().producer_flags, PU);
        assert_eq!(pair.recv(1, 4), 4);
        pair.run();
        assert_eq!(pair.sides[0].cdcs.len(), 1);
        // By default a cursor message has neither flag, by RFC 7609 both.
        pair.send(1, 20, false);
        pair.run();
        pair.recv(0, 20);
        pair.run();
        assert_eq!(pair.sides[0].cdcs.len(), 2);
        assert_eq!(pair.sides[0].last_cdc().producer_flags, behind);
        assert_eq!(pair.sides[0].last_cdc().producer.count, 5);
        pair.recv(1, 1);
        pair.run();
        let cdc = pair.sides[0].last_cdc();
        assert_eq!(
            (cdc.producer_flags, cdc.producer.count),
            (ProducerFlags::empty(), 9)
        );
        assert_eq!(pair.recv(1, 9), 4);
    }
}

#[test]
fn the_end_of_a_direction_or_connection_does_not_repeat_urgent_flags() {
    //= CASE-C22 test
    //= URG-009 test
    for (mut pair, behind) in [
        (pair(0, 32, false), ProducerFlags::empty()),
        (keeping(0, 32, false), PU),
    ] {
        pair.send(0, 5, true);
        pair.run();
        pair.shutdown(0, Shutdown::Write);
        pair.run();
        let done = pair.sides[0].last_cdc();
        assert_eq!(done.connection_flags, ConnectionFlags::SENDING_DONE);
        assert_eq!(done.producer_flags, behind);
        pair.shutdown(0, Shutdown::Both);
        pair.run();
        let closed = pair.sides[0].last_cdc();
        assert!(
            closed
                .connection_flags
                .contains(ConnectionFlags::PEER_CONNECTION_CLOSED)
        );
        assert_eq!(closed.producer_flags, behind);
    }
}

#[test]
fn urgent_data_is_not_announced_before_the_peer_has_read_earlier_urgent_data() {
    //= URG-003 test
    //= URG-009 test
    let mut pair = pair(0, 8, false);
    pair.send(0, 3, true);
    pair.run();
    pair.send(0, 2, true);
    // A cursor goes meanwhile: P would make a Linux peer forget the first byte.
    pair.send(1, 8, false);
    pair.run();
    pair.recv(0, 8);
    pair.run();
    assert_eq!(pair.sides[0].cdcs.len(), 2);
    assert_eq!(
        pair.sides[0].last_cdc().producer_flags,
        ProducerFlags::empty()
    );
    assert!(pair.conn(1).take_urgent().is_ok());
    pair.sides[1].read += 3;
    assert_eq!(pair.conn(1).readable().len(), 2);
    assert_eq!(pair.conn(1).consume(2), Ok(()));
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, PU);
    assert_eq!(pair.sides[0].last_cdc().producer.count, 5);
}

#[test]
fn a_closed_window_announces_urgent_data_before_it_comes() {
    //= URG-003 test
    //= URG-004 test
    //= URG-008 test
    //= URG-010 test
    let mut pair = pair(4, 8, true);
    pair.send(0, 8, false);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B);
    pair.send(0, 3, true);
    assert_eq!(pair.poll(0), 1);
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B | P);
    pair.run();
    assert!(pair.sides[1].notices.contains(Notices::URGENT_PENDING));
    assert!(!pair.sides[1].notices.contains(Notices::URGENT));
    // Part of it fits: still only pending, still blocked.
    pair.recv(1, 2);
    assert_eq!(pair.poll(1), 1);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B | P);
    pair.recv(1, 4);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, PU);
    assert_eq!(pair.conn(1).urgent().map(|u| u.ahead), Some(4));
    assert_eq!(pair.recv(1, 8), 5);
    // An urgent byte may follow one that has just gone.
    pair.run();
    assert_eq!(pair.send(0, 8, true), 8);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B | PU);
    // It is read before anything can follow, so nothing has to be announced.
    let sent = pair.sides[0].cdcs.len();
    assert_eq!(pair.send(0, 1, true), 1);
    assert_eq!(pair.poll(0), 0);
    pair.recv(1, 8);
    pair.run();
    assert_eq!(pair.sides[0].cdcs.len(), sent + 1);
    assert_eq!(pair.sides[0].last_cdc().producer_flags, PU);
}

#[test]
fn by_the_rfc_urgent_data_is_announced_behind_urgent_data() {
    //= URG-003 test
    //= URG-009 test
    let mut pair = keeping(4, 8, true);
    assert_eq!(pair.send(0, 8, true), 8);
    pair.run();
    assert_eq!(pair.send(0, 1, true), 1);
    assert_eq!(pair.poll(0), 1);
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B | PU);
}

#[test]
fn several_urgent_octets_come_one_after_the_other() {
    //= CASE-C20 test
    //= URG-005 test
    for inline in [false, true] {
        let mut pair = pair(0, 8, inline);
        let mut taken = 0;
        pair.send(0, 1, true);
        pair.poll(0);
        for _ in 0..6 {
            // Committed together, only the last of these is urgent, as in TCP.
            pair.send(0, 2, true);
            pair.send(0, 3, true);
        }
        for _ in 0..40 {
            pair.run();
            if let Ok(urgent) = pair.conn(1).take_urgent() {
                let side = &mut pair.sides[1];
                let at = side.read + u64::from(urgent.ahead);
                assert_eq!(side.rmbe[urgent.offset as usize], octet(at));
                side.read = side.conn.rx.consumed.total;
                taken += 1;
            }
            pair.recv(1, 3);
        }
        assert_eq!(taken, 2);
        assert_eq!(pair.sides[1].read, 31);
    }
}

#[test]
fn close_drains_urgent_data_first() {
    let mut pair = pair(0, 8, true);
    pair.send(0, 3, true);
    pair.send(0, 3, false);
    pair.shutdown(0, Shutdown::Both);
    pair.run();
    assert_eq!(pair.states()[0], CloseState::Active);
    pair.recv(1, 3);
    pair.run();
    assert_eq!(pair.states()[0], CloseState::PeerCloseWait1);
    assert_eq!(pair.recv(1, 3), 3);
}

#[test]
fn a_pending_announcement_alone_makes_every_octet_count() {
    //= URG-010 test
    let mut pair = pair(0, 32, true);
    pair.send(0, 8, false);
    pair.run();
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 0);
    let (now, cfg) = (pair.now, pair.cfg);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.sequence = 2;
    cdc.producer_flags = P;
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
    assert_eq!(pair.poll(1), 1);
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 1);
}
