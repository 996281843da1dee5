//! The engine against the in-process TCP stack a user would pick instead.
//!
//! Both run in one process and one thread: two endpoints, encoded octets between
//! them, separate memories, two copies of the payload. The rounds of the two
//! alternate, so that a busy machine slows both; the figure is the median of the
//! ratios. `cargo bench -p conformance --bench versus_smoltcp`

use std::time::{Duration, Instant};

use conformance::direct::Pair;

#[path = "versus_smoltcp/smoltcp_loopback.rs"]
mod smoltcp_loopback;
use smoltcp_loopback::Loopback;

const ROUNDS: usize = 15;
const PING: usize = 64;
const WRITE: usize = 64 << 10;
const PINGS: u32 = 40_000;
const STREAM: usize = 256 << 20;

fn smc_ping_pong() -> Duration {
    let mut pair = Pair::new(4);
    let (a, b) = pair.open();
    let data = [7u8; PING];
    let mut octets = [0u8; PING];
    let now = pair.now;
    let start = Instant::now();
    for _ in 0..PINGS {
        pair.hosts[0].write(now, a, &data);
        pair.pump_data(0);
        while pair.hosts[1].endpoint.poll_event().is_some() {}
        let n = pair.hosts[1].read(now, b, &mut octets);
        pair.hosts[1].write(now, b, &octets[..n]);
        pair.pump_data(1);
        while pair.hosts[0].endpoint.poll_event().is_some() {}
        assert_eq!(pair.hosts[0].read(now, a, &mut octets), PING);
    }
    start.elapsed() / PINGS
}

/// Nanoseconds for `STREAM` octets in 64 KiB writes.
fn smc_stream() -> Duration {
    let mut pair = Pair::new(4);
    let (a, b) = pair.open();
    let data = vec![7u8; WRITE];
    let mut octets = vec![0u8; WRITE];
    let now = pair.now;
    let start = Instant::now();
    let mut received = 0;
    let mut offset = 0;
    while received < STREAM {
        offset = (offset + pair.hosts[0].write(now, a, &data[offset..])) % WRITE;
        pair.pump_data(0);
        while pair.hosts[1].endpoint.poll_event().is_some() {}
        loop {
            let n = pair.hosts[1].read(now, b, &mut octets);
            if n == 0 {
                break;
            }
            received += n;
        }
        pair.pump_data(1);
        while pair.hosts[0].endpoint.poll_event().is_some() {}
    }
    start.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // The harness passes `--bench`; a test run only checks that it works.
    let rounds = if std::env::args().any(|a| a == "--bench") {
        ROUNDS
    } else {
        1
    };
    let buffer = if rounds > 1 {
        Loopback::best_buffer()
    } else {
        64 << 10
    };
    println!("smoltcp at its best buffer size here, {} KiB", buffer >> 10);
    let mut ratios = [Vec::new(), Vec::new()];
    let mut best = [[f64::MAX; 2]; 2];
    for _ in 0..rounds {
        let ours = smc_ping_pong().as_nanos() as f64;
        let theirs = Loopback::new(buffer).ping_pong(PING, PINGS).as_nanos() as f64;
        ratios[0].push(theirs / ours);
        best[0] = [best[0][0].min(ours), best[0][1].min(theirs)];
        let ours = smc_stream().as_nanos() as f64;
        let theirs = Loopback::new(buffer).stream(WRITE, STREAM).as_nanos() as f64;
        ratios[1].push(theirs / ours);
        best[1] = [best[1][0].min(ours), best[1][1].min(theirs)];
    }
    let gbit = |nanos: f64| STREAM as f64 * 8.0 / nanos;
    let [round_trip, stream] = ratios.map(median);
    println!(
        "{PING}-octet round trip: {:.0} ns, smoltcp {:.0} ns (best of {rounds})",
        best[0][0], best[0][1]
    );
    println!("  median ratio {round_trip:.2} (aim 4.0)");
    println!(
        "stream of 64 KiB writes: {:.1} Gbit/s, smoltcp {:.1} Gbit/s (best of {rounds})",
        gbit(best[1][0]),
        gbit(best[1][1])
    );
    println!("  median ratio {stream:.2} (aim 1.7)");
}
