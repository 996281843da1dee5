//! What many connections cost beside few.
//!
//! Both ends run in this one thread, joined by nothing but bytes. Every figure
//! is a ratio of times measured in the same round, in turn; what counts is the
//! median of the rounds.
//!
//! `cargo bench -p conformance --bench scale`

use std::time::{Duration, Instant};

use conformance::direct::Pair;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::ConnId;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::BufferSize;

#[path = "scale/cdc.rs"]
mod cdc;
#[path = "scale/fairness.rs"]
mod fairness;
#[path = "scale/payload.rs"]
mod payload;
#[path = "scale/setup.rs"]
mod setup;

/// Bytes of each ring.
const RING: usize = 16 << 10;

/// Handles of a connection at both ends.
type Ends = [ConnId; 2];

/// How much to measure.
#[derive(Clone, Copy)]
struct Scale {
    rounds: usize,
    /// Of the numbers of connections.
    divisor: usize,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn nanos(time: Duration, amount: usize) -> f64 {
    time.as_secs_f64() * 1e9 / amount as f64
}

fn timed(run: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    run();
    begin.elapsed()
}

fn options(ring: usize) -> ConnOptions {
    let size = Some(BufferSize::at_least(ring as u32));
    let mut options = ConnOptions::new(Subnets::default());
    (options.receive_buffer, options.send_buffer) = (size, size);
    options
}

/// Opens connections and discards the events.
fn open(pair: &mut Pair, connections: usize) -> Vec<Ends> {
    (0..connections).map(|_| open_one(pair, RING)).collect()
}

fn open_one(pair: &mut Pair, ring: usize) -> Ends {
    let (a, b) = pair.open_with(options(ring), options(ring));
    for (host, conn) in pair.hosts.iter_mut().zip([a, b]) {
        assert!(
            host.endpoint
                .conn(conn)
                .is_some_and(|c| c.state().is_some()),
            "{:?}",
            (
                &host.events,
                host.endpoint.usage(),
                host.endpoint.statistics()
            )
        );
        host.events.clear();
        host.tcp.clear();
    }
    [a, b]
}

/// Returns the elements in a shuffled order, always the same one.
fn shuffled<T: Clone>(items: &[T]) -> Vec<T> {
    let mut items = items.to_vec();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(i, usize::try_from(state % (i as u64 + 1)).expect("small"));
    }
    items
}

fn main() {
    // The harness passes `--bench`; a test run only checks that it works.
    let scale = if std::env::args().any(|a| a == "--bench") {
        Scale {
            rounds: 21,
            divisor: 1,
        }
    } else {
        Scale {
            rounds: 1,
            divisor: 100,
        }
    };
    println!(
        "Medians of {} rounds; rings of {} KiB.",
        scale.rounds,
        RING >> 10
    );
    let only = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    if wanted("cdc") {
        cdc::measure(scale);
    }
    if wanted("payload") {
        payload::measure(scale);
    }
    if wanted("fairness") {
        fairness::measure(scale);
    }
    if wanted("setup") {
        setup::measure(scale);
    }
}
