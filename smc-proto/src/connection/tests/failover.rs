//! Changes of link: what is written again, and what the peer makes of it.

use super::harness::{Message, Pair, take_transmit};
use crate::config::{ConnectionConfig, UrgentFlags};
use crate::connection::*;
use crate::wire::cdc::{ConnectionFlags, ProducerFlags};

impl Pair {
    /// The link of one side fails: what has not arrived is lost, completions too.
    pub(super) fn change_link(&mut self, side: usize) {
        let (now, cfg) = (self.now, self.cfg);
        let s = &mut self.sides[side];
        s.link.clear();
        s.done.clear();
        s.silent = false;
        s.conn.on_link_changed(now, &cfg);
        self.check();
    }
}

/// What is on the link of a side: write lengths, and sequence numbers with F.
fn link(pair: &Pair, side: usize) -> (std::vec::Vec<usize>, std::vec::Vec<(u16, bool)>) {
    let mut writes = std::vec::Vec::new();
    let mut cdcs = std::vec::Vec::new();
    for message in &pair.sides[side].link {
        match message {
            Message::Write { bytes, .. } => writes.push(bytes.len()),
            Message::Cdc(cdc, _) => cdcs.push((
                cdc.sequence,
                cdc.producer_flags == ProducerFlags::FAILOVER_VALIDATION,
            )),
        }
    }
    (writes, cdcs)
}

#[test]
fn lost_data_is_written_again_merged_with_new_after_a_validation() {
    //= FAILOVER-005 test
    //= FAILOVER-006 test
    //= FAILOVER-008 test
    //= FAILOVER-009 test
    //= FAILOVER-016 test
    //= FAILOVER-020 test
    let mut pair = Pair::of(64);
    pair.send(0, 10, false);
    pair.run();
    pair.send(0, 6, false);
    pair.poll(0);
    pair.send(0, 40, false);
    pair.change_link(0);
    pair.poll(0);
    // The first message carries the last completed number, the next goes on.
    assert_eq!(
        link(&pair, 0),
        (std::vec![46], std::vec![(1, true), (3, false)])
    );
    pair.run();
    assert_eq!(
        pair.sides[1].outcomes[1..],
        [CdcOutcome::Validated, CdcOutcome::Applied]
    );
    assert_eq!(pair.recv(1, 64), 56);
}

#[test]
fn a_side_that_may_not_notify_the_peer_stays_silent_on_another_link() {
    //= FAILOVER-016 test
    for cause in [FatalCause::LinkLost, FatalCause::RmbeConflict] {
        let mut pair = Pair::of(64);
        pair.send(0, 10, false);
        pair.poll(0);
        let (now, cfg) = (pair.now, pair.cfg);
        pair.conn(0).on_fatal(now, &cfg, cause);
        pair.check();
        pair.change_link(0);
        assert!(!pair.conn(0).wants_work());
        assert_eq!(pair.poll(0), 0);
    }
}

#[test]
fn who_has_no_more_to_say_says_nothing_on_another_link() {
    //= FAILOVER-016 test
    let mut pair = Pair::of(64);
    pair.abort(0);
    pair.poll(0);
    while pair.deliver(0) {}
    while pair.complete(0) {}
    // The peer does not answer, and the wait for it ends.
    assert!(pair.fire());
    assert_eq!(pair.states()[0], CloseState::Closed);
    pair.change_link(0);
    assert!(!pair.conn(0).wants_work());
    assert_eq!(pair.poll(0), 0);
}

#[test]
fn what_the_peer_has_read_is_not_written_again() {
    //= FAILOVER-007 test
    //= FAILOVER-013 test
    let mut pair = Pair::of(64);
    pair.send(0, 10, false);
    pair.poll(0);
    while pair.deliver(0) {}
    assert_eq!(pair.recv(1, 4), 4);
    pair.send(1, 1, false);
    pair.poll(1);
    while pair.deliver(1) {}
    // The completion was lost with the link; 4 bytes are known to be read.
    pair.change_link(0);
    assert_eq!(pair.conn(0).send_space().len(), 58);
    pair.poll(0);
    assert_eq!(
        link(&pair, 0),
        (std::vec![6], std::vec![(0, true), (2, false)])
    );
    pair.run();
    assert_eq!(pair.recv(1, 64), 6);
}

#[test]
fn the_peer_may_acknowledge_what_we_are_about_to_write_again() {
    //= FAILOVER-018 test
    let mut pair = Pair::of(16);
    pair.send(0, 10, false);
    pair.poll(0);
    while pair.deliver(0) {}
    pair.change_link(0);
    assert_eq!(pair.recv(1, 10), 10);
    pair.poll(1);
    // The update meets a writer that has gone back.
    while pair.deliver(1) {}
    pair.send(0, 6, false);
    pair.poll(0);
    assert_eq!(link(&pair, 0).0.iter().sum::<usize>(), 6);
    pair.run();
    assert_eq!(pair.recv(1, 16), 6);
}

#[test]
fn a_lost_cursor_update_is_sent_again() {
    //= FAILOVER-012 test
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.run();
    pair.send(0, 8, false);
    pair.run();
    assert_eq!(pair.recv(1, 8), 8);
    assert_eq!(pair.poll(1), 1);
    pair.change_link(1);
    assert_eq!(pair.poll(1), 2);
    pair.run();
    assert_eq!(pair.recv(1, 8), 8);
}

#[test]
fn a_newer_number_than_the_last_received_means_lost_data() {
    //= FAILOVER-011 test
    //= FAILOVER-014 test
    //= FAILOVER-015 test
    let mut pair = Pair::of(8);
    pair.send(0, 3, false);
    pair.run();
    let (now, cfg) = (pair.now, pair.cfg);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.producer_flags = ProducerFlags::FAILOVER_VALIDATION;
    // Nothing but the number counts, not even impossible cursors.
    cdc.producer.count = u32::MAX;
    cdc.connection_flags = ConnectionFlags::ABNORMAL_CLOSE;
    for (sequence, expected) in [
        (1, CdcOutcome::Validated),
        (0, CdcOutcome::Validated),
        (2, CdcOutcome::DataLost),
    ] {
        cdc.sequence = sequence;
        assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), expected);
    }
    assert_eq!(
        pair.conn(1).cause(),
        Some(CloseCause::Fatal(FatalCause::DataLost))
    );
    assert_eq!(pair.conn(1).state(), CloseState::PeerAbortWait);
    // Not answered when all is well (the abort is the only message).
    //= FAILOVER-010 test
    assert_eq!(pair.poll(1), 1);
}

#[test]
fn a_lost_close_is_repeated_and_a_completed_one_is_the_last_word() {
    let mut pair = Pair::of(8);
    pair.shutdown(0, Shutdown::Both);
    pair.poll(0);
    pair.change_link(0);
    pair.poll(0);
    assert_eq!(link(&pair, 0).1, [(0, true), (2, false)]);
    pair.run();
    assert_eq!(
        pair.states(),
        [CloseState::PeerCloseWait1, CloseState::AppCloseWait1]
    );
    pair.change_link(0);
    assert_eq!(pair.poll(0), 0);
}

#[test]
fn late_completions_of_the_old_link_count_for_nothing() {
    //= CASE-D11 test
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.poll(0);
    let Some(Message::Cdc(_, record)) = pair.sides[0].link.pop_back() else {
        panic!("no CDC message");
    };
    pair.change_link(0);
    let (now, cfg) = (pair.now, pair.cfg);
    pair.conn(0).on_notify_completed(now, &cfg, record);
    assert_eq!(pair.conn(0).outstanding_notifies(), 0);
    assert!(pair.conn(0).send_space().is_empty());
    pair.run();
    assert_eq!(pair.recv(1, 8), 8);
}

const P: ProducerFlags = ProducerFlags::URGENT_PENDING;
const U: ProducerFlags = ProducerFlags::URGENT_PRESENT;

#[test]
fn urgent_data_is_urgent_again() {
    //= URG-001 test
    //= URG-009 test
    for seen in [false, true] {
        let mut pair = Pair::of(16);
        pair.send(0, 5, true);
        pair.poll(0);
        assert_eq!(pair.sides[0].last_cdc().producer_flags, P | U);
        pair.send(0, 5, false);
        while seen && pair.deliver(0) {}
        pair.change_link(0);
        pair.poll(0);
        // If the peer has seen it, this message has no new data for it: P would mean that
        // the urgent byte is yet to come.
        assert_eq!(pair.sides[0].last_cdc().producer_flags, U);
        assert_eq!(pair.sides[0].last_cdc().producer.count, 5);
        pair.run();
        assert!(pair.sides[1].notices.contains(Notices::URGENT));
        assert_eq!(pair.conn(1).urgent().map(|u| u.ahead), Some(4));
        assert_eq!(pair.recv(1, 16), 5);
        pair.run();
        assert_eq!(
            pair.sides[0].last_cdc().producer_flags,
            ProducerFlags::empty()
        );
        assert_eq!(pair.recv(1, 16), 5);
    }
}

#[test]
fn by_the_rfc_urgent_data_that_is_written_again_is_pending_too() {
    //= URG-001 test
    let ring = Ring::new(0, 16).expect("a ring");
    let mut cfg = ConnectionConfig::DEFAULT;
    cfg.urgent_flags = UrgentFlags::Keep;
    let mut pair = Pair::configured(cfg, ring, ring, 16, true);
    pair.send(0, 5, true);
    pair.poll(0);
    pair.change_link(0);
    pair.poll(0);
    assert_eq!(pair.sides[0].last_cdc().producer_flags, P | U);
}

#[test]
fn urgent_data_that_is_written_again_ends_where_it_ended_before() {
    //= URG-002 test
    //= URG-005 test
    let mut pair = Pair::of(16);
    pair.send(0, 5, true);
    pair.poll(0);
    while pair.deliver(0) {}
    // The peer has the mark behind 5, and this side cannot know.
    pair.send(0, 4, true);
    pair.send(0, 3, false);
    pair.change_link(0);
    pair.run();
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.producer_flags, cdc.producer.count), (U, 5));
    assert_eq!(pair.recv(1, 16), 5);
    pair.run();
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.producer_flags, cdc.producer.count), (P | U, 9));
    assert_eq!(pair.recv(1, 16), 4);
    pair.run();
    assert_eq!(pair.recv(1, 16), 3);
}

#[test]
fn urgent_flags_do_not_survive_what_they_were_about() {
    //= URG-002 test
    for flags in [UrgentFlags::Interoperate, UrgentFlags::Keep] {
        let ring = Ring::new(0, 16).expect("a ring");
        let mut cfg = ConnectionConfig::DEFAULT;
        cfg.urgent_flags = flags;
        let mut pair = Pair::configured(cfg, ring, ring, 16, true);
        pair.send(0, 5, true);
        pair.poll(0);
        pair.change_link(0);
        // The producer cursor is back at 0: nothing urgent lies before it.
        pair.abort(0);
        pair.poll(0);
        let cdc = pair.sides[0].last_cdc();
        assert_eq!(cdc.connection_flags, ConnectionFlags::ABNORMAL_CLOSE);
        assert_eq!(cdc.producer.count, 0, "{flags:?}");
        assert_eq!(cdc.producer_flags, ProducerFlags::empty(), "{flags:?}");
    }
}

#[test]
fn an_acknowledgement_after_a_change_of_link_shortens_what_is_written_again() {
    let mut pair = Pair::of(8);
    let (now, cfg) = (pair.now, pair.cfg);
    pair.send(0, 4, false);
    pair.run();
    pair.recv(1, 4);
    pair.send(1, 1, false);
    pair.run();
    pair.send(0, 8, false);
    pair.poll(0);
    while pair.deliver(0) {}
    pair.recv(1, 8);
    pair.poll(1);
    pair.change_link(0);
    let validation = take_transmit(pair.conn(0), now, &cfg).expect("a validation");
    assert_eq!(validation.writes, []);
    while pair.deliver(1) {}
    let next = take_transmit(pair.conn(0), now, &cfg).expect("a message");
    assert_eq!(next.writes, []);
    assert_eq!(pair.conn(0).tx.written.total, 12);
    pair.run();
    assert_eq!(pair.recv(1, 8), 0);
}
