//! Failover at every position of small rings: two writes, of which some messages have arrived and
//! some have completed when the link fails. No byte may be lost or come twice, and the connection
//! has to close in order afterwards.

use super::harness::Pair;
use crate::connection::*;

/// What happens beside the two writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
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

const BESIDE: [Beside; 7] = [
    Beside::Nothing,
    Beside::Urgent,
    Beside::Reading,
    Beside::BothWays,
    Beside::ShutdownWrite,
    Beside::Close,
    Beside::Abort,
];

#[derive(Clone, Copy, Debug)]
struct Case {
    /// Receive ring and send buffer.
    rings: (u32, u32),
    /// Bytes that were sent and read before, one by one: the positions of the rings.
    offset: u32,
    writes: (u32, u32),
    beside: Beside,
    /// CDC messages of side 0 that arrived before the failure.
    arrived: usize,
    /// CDC messages of side 0 that completed before the failure.
    completed: usize,
    /// Side that notices the failure and changes the link; 2 for both.
    side: usize,
}

impl Pair {
    /// Lets messages arrive and applications read until nothing is left.
    fn run_and_read_all(&mut self) {
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
    /// The pair just before the failure. `None` if there were not so many arrivals or completions.
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
        match self.beside {
            Beside::Reading => {
                while pair.deliver(0) {}
                pair.recv(1, 64);
                pair.poll(1);
            }
            Beside::BothWays => {
                pair.send(1, self.writes.1, false);
                pair.poll(1);
            }
            _ => {}
        }
        pair.send(0, self.writes.1, self.beside == Beside::Urgent);
        pair.poll(0);
        match self.beside {
            Beside::ShutdownWrite => pair.shutdown(0, Shutdown::Write),
            Beside::Close => pair.shutdown(0, Shutdown::Both),
            Beside::Abort => pair.abort(0),
            _ => {}
        }
        if matches!(
            self.beside,
            Beside::ShutdownWrite | Beside::Close | Beside::Abort
        ) {
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

    /// Changes the link, and checks the bytes and the close that follow.
    fn conclude(&self, mut pair: Pair) {
        for side in 0..2 {
            if self.side == side || self.side == 2 {
                pair.change_link(side);
            }
        }
        if self.beside == Beside::Abort {
            pair.run();
            assert_eq!(pair.states(), [CloseState::Closed; 2]);
            return;
        }
        pair.run_and_read_all();
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

/// Prints its case if a check in it panics.
struct PrintOnPanic(Case);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::eprintln!("in {:?}", self.0);
        }
    }
}

/// Checks all numbers of arrivals and completions, and all sides, of one pair of writes. Returns how
/// many cases there were.
fn sweep(case: Case) -> usize {
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
                let guard = PrintOnPanic(case);
                if let Some(pair) = case.until_failure() {
                    any = true;
                    cases += 1;
                    case.conclude(pair);
                }
                drop(guard);
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
                    for beside in BESIDE {
                        cases += sweep(Case {
                            rings,
                            offset,
                            writes: (first, second),
                            beside,
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
