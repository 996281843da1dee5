//! Steps of the fast path do what the general ones do, or nothing. [`Beside`] checks that
//! wherever the harness takes a step.

use super::harness::Pair;
use crate::command::{DataTransmit, DataWrite};
use crate::connection::*;
use crate::wire::cdc::{Cdc, CdcOctets};
use std::hash::{DefaultHasher, Hasher};

/// A copy of a connection that took a step by the fast path, if it could.
pub(super) struct Beside<T> {
    conn: Connection,
    result: Option<T>,
}

fn fingerprint(conn: &Connection) -> u64 {
    let mut hasher = DefaultHasher::new();
    conn.fingerprint(Instant::ZERO, &mut hasher);
    hasher.finish()
}

impl<T> Beside<T> {
    fn of(conn: &mut Connection, step: impl FnOnce(&mut Connection) -> Option<T>) -> Self {
        // The owner of a connection checks its deadlines after each step.
        let _ = conn.moved_deadline();
        let mut beside = conn.clone();
        let result = step(&mut beside);
        if result.is_none() {
            assert_eq!(fingerprint(conn), fingerprint(&beside), "half a step");
        }
        let conn = beside;
        Self { conn, result }
    }

    /// Compares it with the connection after the general step.
    fn compare(self, general: &Connection, check: impl FnOnce(T, &mut Connection)) {
        if let Some(result) = self.result {
            let mut general = general.clone();
            check(result, &mut general);
            assert_eq!(sent(&self.conn), sent(&general));
        }
    }
}

/// A connection's parameters and its state.
fn sent(conn: &Connection) -> impl PartialEq + std::fmt::Debug {
    let (tx, rx) = (&conn.tx, &conn.rx);
    (
        fingerprint(conn),
        conn.stats(),
        [tx.written, tx.consumer, rx.received, rx.consumed],
        [rx.published, tx.completed],
        [tx.sequence(), tx.completed_sequence, rx.sequence],
        (conn.notices, conn.moved_timeout),
    )
}

impl Beside<(Sent, DataTransmit)> {
    pub(super) fn transmit(conn: &mut Connection) -> Self {
        Self::of(conn, |conn| {
            let mut transmit = DataTransmit::EMPTY;
            let sent = conn.fast_transmit(0, &mut transmit)?;
            Some((sent, transmit))
        })
    }

    pub(super) fn compare_transmit(
        self,
        general: &Connection,
        sent: Option<Sent>,
        transmit: &DataTransmit,
    ) {
        self.compare(general, |(ours, our_transmit), _| {
            assert_eq!((Some(ours), &our_transmit), (sent, transmit));
            assert_eq!(our_transmit.writes[1], DataWrite::NONE);
        });
    }
}

impl Beside<(bool, bool)> {
    pub(super) fn cdc(conn: &mut Connection, cdc: &Cdc) -> Self {
        Self::of(conn, |conn| {
            let had_work = conn.has_work();
            let bytes = cdc.emit();
            let readable = conn.fast_cdc(CdcOctets::of(&bytes).expect("our own message"))?;
            Some((readable, had_work))
        })
    }

    pub(super) fn compare_cdc(self, general: &Connection, outcome: CdcOutcome) {
        self.compare(general, |(readable, had_work), general| {
            assert_eq!(outcome, CdcOutcome::Applied);
            assert_eq!(general.take_readable(), readable);
            // What there was to do before is known to the owner.
            assert!(general.notices.is_empty() && !general.moved_timeout);
            assert!(had_work || !general.has_work());
        });
    }
}

impl Beside<bool> {
    pub(super) fn completion(conn: &mut Connection, record: NotifyRecord) -> Self {
        Self::of(conn, |conn| conn.fast_completion(record))
    }

    pub(super) fn compare_completion(self, general: &Connection) {
        self.compare(general, |writable, general| {
            let notices = general.take_notices();
            assert_eq!(notices == Notices::WRITABLE, writable);
            assert!(writable || notices.is_empty());
        });
    }
}

#[test]
fn octets_there_and_back_go_the_ordinary_way() {
    let mut pair = Pair::of(1 << 10);
    for from in [0, 1].into_iter().cycle().take(200) {
        pair.send(from, 64, false);
        let lap = pair.conn(from).tx.one_piece(64).is_none()
            || pair
                .conn(from)
                .tx
                .peer
                .to_end(pair.conn(from).tx.written.cursor.count)
                < 64;
        assert!(Beside::transmit(pair.conn(from)).result.is_some() || lap);
        pair.poll(from);
        assert!(
            {
                let cdc = pair.sides[from].last_cdc();
                Beside::cdc(pair.conn(1 - from), &cdc)
            }
            .result
            .is_some()
        );
        while pair.deliver(from) {}
        let record = *pair.sides[from].done.front().expect("a completion");
        assert!(Beside::completion(pair.conn(from), record).result.is_some());
        pair.complete(from);
        assert_eq!(pair.recv(1 - from, 64), 64);
    }
}

#[test]
fn a_whole_ring_at_a_time_goes_the_ordinary_way() {
    //= FLOW-016 test
    let mut pair = Pair::of(1 << 10);
    for _ in 0..4 {
        pair.send(0, 1 << 10, false);
        let transmit = Beside::transmit(pair.conn(0)).result;
        assert!(transmit.is_some_and(|(sent, _)| sent.blocked));
        pair.poll(0);
        let cdc = pair.sides[0].last_cdc();
        assert!(Beside::cdc(pair.conn(1), &cdc).result.is_some());
        while pair.deliver(0) {}
        let record = *pair.sides[0].done.front().expect("a completion");
        assert_eq!(
            Beside::completion(pair.conn(0), record).result,
            Some(true),
            "there is room again"
        );
        pair.complete(0);
        assert_eq!(pair.recv(1, 1 << 10), 1 << 10);
        let transmit = Beside::transmit(pair.conn(1)).result;
        assert!(
            transmit.is_some_and(|(sent, _)| sent.bytes == 0),
            "an update"
        );
        pair.run();
    }
}

#[test]
fn whoever_has_more_to_see_to_does_not() {
    let mut pair = Pair::of(1 << 10);
    pair.send(0, 64, true);
    assert!(Beside::transmit(pair.conn(0)).result.is_none(), "urgent");
    let mut pair = Pair::of(1 << 10);
    pair.send(0, 64, false);
    pair.shutdown(0, Shutdown::Write);
    assert!(Beside::transmit(pair.conn(0)).result.is_none(), "closing");
    pair.poll(0);
    let cdc = pair.sides[0].last_cdc();
    let record = NotifyRecord {
        position: 64,
        sequence: cdc.sequence,
        epoch: 0,
    };
    assert!(
        Beside::completion(pair.conn(0), record).result.is_none(),
        "closing"
    );
    let beyond = Cdc {
        sequence: 1,
        producer: crate::wire::types::Cursor { wrap: 1, count: 1 },
        ..cdc
    };
    assert!(
        Beside::cdc(pair.conn(1), &beyond).result.is_none(),
        "more than a ring"
    );
    assert!(Beside::cdc(pair.conn(1), &cdc).result.is_some());
    let again = Cdc { sequence: 0, ..cdc };
    assert!(
        Beside::cdc(pair.conn(1), &again).result.is_none(),
        "not newer"
    );
}
