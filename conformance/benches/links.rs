//! What several links cost: a failover in protocol steps and CPU time, and a
//! stream over one link and over two.
//!
//! Both ends run in this one thread over the adapter of the tests, without its
//! checks; RNICs take no time. Figures of one run are compared only with each
//! other, as medians of ratios measured in turn.
//!
//! `cargo bench -p conformance --bench links`

use std::time::{Duration, Instant};

use conformance::twolinks::failure::Failure;
use conformance::twolinks::{Shape, World};
use smc_proto::stats::Statistics;

const ROUNDS: usize = 31;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn shape(connections: usize, links: u8) -> Shape {
    Shape {
        ports: [links; 2],
        links: links.max(2),
        connections,
        ..Shape::default()
    }
}

/// A group with this many connections, all of them idle.
fn group(connections: usize, links: u8, ring: u32) -> World {
    let mut shape = shape(connections, links);
    shape.receive = [ring; 2];
    shape.send = [ring; 2];
    let mut world = World::connected(&shape, [0, 0]);
    for _ in 1..connections {
        world.open(&shape);
        world.calm();
    }
    world.checking = false;
    let established = |world: &World, side: usize| {
        let apps = &world.hosts[side].apps;
        apps.iter().filter(|app| app.established).count()
    };
    assert_eq!(established(&world, 0), connections);
    assert_eq!(established(&world, 1), connections);
    world
}

/// What both ends counted.
fn sums(world: &World) -> [u64; 4] {
    let of = |f: fn(&Statistics) -> u64| -> u64 {
        world
            .hosts
            .iter()
            .map(|host| f(host.endpoint.statistics()))
            .sum()
    };
    [
        of(|s| s.llc_sent),
        of(|s| s.cdc_sent),
        of(|s| s.writes),
        of(|s| s.failovers),
    ]
}

/// Lets one link fail while each connection of it has `bytes` in flight.
fn fail_over(start: &World, bytes: u32) -> (Duration, [u64; 5]) {
    let mut world = start.clone();
    if bytes > 0 {
        for app in 0..world.hosts[0].apps.len() {
            world.commit_in_place(0, app, bytes);
        }
        while world.post(0) {}
    }
    let (before, steps) = (sums(&world), world.steps);
    let begin = Instant::now();
    world.fail(Failure::BothBroken(0));
    world.calm();
    let time = begin.elapsed();
    let [llc, cdc, writes, moved] = sums(&world);
    let counts = [
        world.steps - steps,
        llc - before[0],
        cdc - before[1],
        writes - before[2],
        moved - before[3],
    ];
    (time, counts)
}

/// One small write, its CDC message and its completion: the unit of the rest.
fn small_write(world: &mut World, times: usize) -> Duration {
    let begin = Instant::now();
    for _ in 0..times {
        world.commit_in_place(0, 0, 64);
        world.calm();
        world.consume_all(1, 0);
        world.calm();
    }
    begin.elapsed() / u32::try_from(times).expect("few")
}

/// The time to carry `total` bytes over each of two connections.
fn stream(world: &mut World, total: u64) -> Duration {
    let begin = Instant::now();
    let mut left = [total; 2];
    while left != [0, 0] {
        for (app, left) in left.iter_mut().enumerate() {
            let most = u32::try_from((*left).min(64 << 10)).expect("small");
            *left -= u64::from(world.commit_in_place(0, app, most));
        }
        world.calm();
        for app in 0..2 {
            world.consume_all(1, app);
        }
        world.calm();
    }
    begin.elapsed()
}

fn failovers() {
    println!("failover of a group, both ends notified (times: median of {ROUNDS})");
    let mut idle = Vec::new();
    for connections in [1, 255] {
        let world = group(connections, 2, 16 << 10);
        for bytes in [0, 1000] {
            let mut times = Vec::new();
            let mut ratios = Vec::new();
            let mut counts = [0; 5];
            let mut unit_world = world.clone();
            for _ in 0..ROUNDS {
                let unit = small_write(&mut unit_world, 200);
                let (time, c) = fail_over(&world, bytes);
                counts = c;
                times.push(time.as_secs_f64() * 1e6);
                ratios.push(time.as_secs_f64() / unit.as_secs_f64());
            }
            let [steps, llc, cdc, writes, moved] = counts;
            let (time, ratio) = (median(times), median(ratios));
            println!(
                "  {connections:>3} connections, {bytes:>4} octets in flight each: {moved} moves, \
                 {steps} commands and messages (LLC {llc}, CDC {cdc}, WRITE {writes}), \
                 {time:.1} us = {ratio:.1} small writes"
            );
            if bytes == 0 {
                idle.push((time, f64::from(u32::try_from(moved).expect("few"))));
            }
        }
    }
    let [(one, _), (many, moved)] = idle[..] else {
        return;
    };
    println!(
        "  each move beyond the first costs {:.2} us, {:.1} % of a failover of one",
        (many - one) / moved,
        100.0 * (many - one) / moved / one
    );
}

fn streams() {
    const TOTAL: u64 = 8 << 20;
    println!("two connections, {} MiB each, 64 KiB rings", TOTAL >> 20);
    let mut one = group(2, 1, 64 << 10);
    let mut two = group(2, 2, 64 << 10);
    let mut ratios = Vec::new();
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let times = [stream(&mut one, TOTAL), stream(&mut two, TOTAL)];
        ratios.push(times[1].as_secs_f64() / times[0].as_secs_f64());
        for (rates, time) in rates.iter_mut().zip(times) {
            rates.push(2.0 * TOTAL as f64 / time.as_secs_f64() / f64::from(1 << 30));
        }
    }
    let [a, b] = rates.map(median);
    println!(
        "  one link {a:.2} GiB/s, two links {b:.2} GiB/s; time ratio {:.3}",
        median(ratios)
    );
}

fn main() {
    failovers();
    streams();
}
