//! Many connections: how long reading them takes, and that the process is not held up by it.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::over_memory;
use crate::{Publisher, View};

const CONNECTIONS: usize = 10_000;

/// A view of 10,000 connections is opened and read within this time, and a call that counts takes
/// no longer than this of the processor while it is read. Without optimisation both take their
/// time.
const READ: Duration = Duration::from_millis(if cfg!(debug_assertions) { 5_000 } else { 100 });
const STALL: Duration = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 1 });

/// Time of the processor that this thread has had: others may run meanwhile.
fn of_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// `cargo test --release -p smc-view many -- --nocapture` prints the figures.
#[test]
fn many_connections_are_read_soon_and_hold_their_process_up_for_nothing() {
    let (file, publisher) = Publisher::start().unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let rows: Vec<_> = (0..CONNECTIONS)
        .map(|number| publisher.connection(&over_memory(number as u16)).unwrap())
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let (mut longest, mut calls) = (Duration::ZERO, 0_u64);
            let mut rows = rows.iter().cycle();
            while !is_over.load(Ordering::Relaxed) {
                let row = rows.next().unwrap();
                let began = of_processor();
                row.sent(1000);
                row.received(1000);
                row.set_state(crate::state::ACTIVE);
                longest = longest.max(of_processor() - began);
                calls += 1;
            }
            (longest, calls)
        });
        let times = (0..20).map(|_| {
            let began = Instant::now();
            let snapshot = View::open(path.as_ref()).unwrap().read();
            assert_eq!(snapshot.connections.len(), CONNECTIONS);
            began.elapsed()
        });
        let mut times: Vec<_> = times.collect();
        is_over.store(true, Ordering::Relaxed);
        let (longest, calls) = busy.join().unwrap();
        times.sort();
        let (least, median) = (times[0], times[times.len() / 2]);
        println!("{CONNECTIONS} connections: read in {median:?} (least {least:?})");
        println!("{calls} rounds of calls meanwhile, the longest of {longest:?}");
        assert!(least < READ, "{times:?}");
        assert!(longest < STALL, "{longest:?}");
    });
}
