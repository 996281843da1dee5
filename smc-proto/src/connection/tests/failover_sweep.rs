//! A change of link at every place of small rings, after every number of
//! arrivals and completions.

use super::harness::Pair;
use crate::connection::*;

/// What goes on besides two writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Also {
    Nothing,
    /// The second write is urgent.
    Urgent,
    /// The reader reads and answers between the writes.
    Reading,
    /// The other side writes, too.
    BothWays,
    ShutdownWrite,
    Close,
    Abort,
}

const ALSO: [Also; 7] = [
    Also::Nothing,
    Also::Urgent,
    Also::Reading,
    Also::BothWays,
    Also::ShutdownWrite,
    Also::Close,
    Also::Abort,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    /// Receive ring and send buffer.
    rings: (u32, u32),
    /// Bytes that went before.
    offset: u32,
    writes: (u32, u32),
    also: Also,
    /// Messages that arrived, CDC messages completed.
    arrived: usize,
    completed: usize,
    /// 0, 1 or 2 for both.
    side: usize,
}

impl Pair {
    /// Reads everything, whatever the order of writes and updates.
    fn exhaust(&mut self) {
        for _ in 0..64 {
            self.run();
            let n = self.recv(0, 64) + self.recv(1, 64);
            if n == 0 && self.sides.iter().all(|s| s.link.is_empty()) {
                let stuck = self.sides.iter().any(|s| s.conn.wants_work());
                if !stuck {
                    return;
                }
            }
        }
    }
}

impl Case {
    /// Up to the failure: whether so many arrivals and completions were possible.
    fn until_failure(&self) -> Option<Pair> {
        let ring = Ring::new(0, self.rings.0).expect("a ring");
        let mut pair = Pair::new(ring, ring, self.rings.1);
        for _ in 0..self.offset {
            pair.send(0, 1, false);
            pair.run();
            pair.recv(1, 1);
            pair.run();
        }
        pair.send(0, self.writes.0, false);
        pair.poll(0);
        match self.also {
            Also::Reading => {
                while pair.deliver(0) {}
                pair.recv(1, 64);
                pair.poll(1);
            }
            Also::BothWays => {
                pair.send(1, self.writes.1, false);
                pair.poll(1);
            }
            _ => {}
        }
        pair.send(0, self.writes.1, self.also == Also::Urgent);
        pair.poll(0);
        match self.also {
            Also::ShutdownWrite => pair.shutdown(0, Shutdown::Write),
            Also::Close => pair.shutdown(0, Shutdown::Both),
            Also::Abort => pair.abort(0),
            _ => {}
        }
        if matches!(self.also, Also::ShutdownWrite | Also::Close | Also::Abort) {
            pair.poll(0);
        }
        for _ in 0..self.arrived {
            if !pair.deliver(0) {
                return None;
            }
        }
        for _ in 0..self.completed {
            if !pair.complete(0) {
                return None;
            }
        }
        if self.arrived > 0 {
            pair.deliver(1);
        }
        Some(pair)
    }

    /// The failure and what follows.
    fn conclude(&self, mut pair: Pair) {
        for side in 0..2 {
            if self.side == side || self.side == 2 {
                pair.change_link(side);
            }
        }
        if self.also == Also::Abort {
            pair.run();
            assert_eq!(pair.states(), [CloseState::Closed; 2]);
            return;
        }
        pair.exhaust();
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(pair.sides[to].read, pair.sides[from].committed, "bytes");
        }
        for side in 0..2 {
            let now_closed = pair.sides[side].conn.state() == CloseState::Closed;
            if !now_closed {
                pair.shutdown(side, Shutdown::Both);
            }
        }
        pair.run();
        assert_eq!(pair.states(), [CloseState::Closed; 2]);
        for side in &pair.sides {
            assert_eq!(side.conn.cause(), Some(CloseCause::Orderly));
            assert!(side.conn.is_finished());
        }
    }
}

/// Names the case in which something panics.
struct Named(Case);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("in {:?}", self.0);
        }
    }
}

/// All cuts of one pair of writes; how many.
fn cuts(case: Case) -> usize {
    let mut cases = 0;
    for arrived in 0..=7 {
        let mut any = false;
        for completed in 0..=arrived {
            for side in 0..3 {
                let case = Case {
                    arrived,
                    completed,
                    side,
                    ..case
                };
                let named = Named(case);
                if let Some(pair) = case.until_failure() {
                    any = true;
                    cases += 1;
                    case.conclude(pair);
                }
                drop(named);
            }
        }
        if !any {
            break;
        }
    }
    cases
}

#[test]
fn every_position_of_small_rings() {
    //= FAILOVER-016 test
    //= FAILOVER-018 test
    //= FAILOVER-020 test
    //= FAILOVER-021 test
    let mut cases = 0;
    for rings in [(1, 1), (2, 2), (3, 3), (5, 5), (3, 5), (5, 3), (7, 4)] {
        let (ring, buffer) = rings;
        for offset in 0..=ring.max(buffer) {
            for first in 1..=buffer {
                for second in 0..=buffer {
                    for also in ALSO {
                        cases += cuts(Case {
                            rings,
                            offset,
                            writes: (first, second),
                            also,
                            arrived: 0,
                            completed: 0,
                            side: 0,
                        });
                    }
                }
            }
        }
    }
    assert!(cases > 50_000, "{cases}");
    std::println!("{cases} cases");
}
