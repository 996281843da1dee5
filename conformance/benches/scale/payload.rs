//! Throughput with payload beside plain copies over the very same memory, in
//! the same order: into the send buffer, into the RMB, out.
//!
//! Each row is a number of connections, a size of their rings, and an order. Rings of
//! 64 KiB are what a connection has unless it asks for others, here and on Linux; those
//! of 16 KiB are the smallest there are, where the engine has a quarter of the bytes to
//! hide behind. "In turn" carries a ring of one connection to its reader before the next
//! one writes, so that bytes are copied within the cache; "all at once" lets all write,
//! carries all, and lets all read, as a host does that polls seldom.
//!
//! A lap of a ring costs the engine the same whatever its size: two CDC messages, of the
//! bytes and of the room, their completions, and two events. The plain copies have
//! nothing like it. So with few connections and small rings, where the copies never leave
//! the cache, the ratio shows that cost; with many, what of it the memory's latency hides.

use std::time::Duration;

use conformance::direct::Pair;
use smc_proto::id::BufferId;

use super::{Ends, RING, Scale, median, open_one, timed};

/// Rings filled and emptied in a round at least: with many connections more than once each,
/// or a round is mostly about what the one before has left in the caches.
const FILLS: usize = 2048;
/// Connections, and bytes of each ring: the smallest, and those a connection has unless
/// it asks for others. The largest takes 1.3 GB.
const SHAPES: [(usize, usize); 6] = [
    (1, RING),
    (512, RING),
    (10_000, RING),
    (1, 64 << 10),
    (512, 64 << 10),
    (10_000, 64 << 10),
];

/// Connections and the memory of their rings.
struct Rings {
    pair: Pair,
    ends: Vec<Ends>,
    ring: usize,
    buffers: Vec<[BufferId; 2]>,
    data: Vec<u8>,
    into: Vec<u8>,
}

impl Rings {
    fn new(connections: usize, ring: usize) -> Self {
        let mut pair = Pair::new(connections);
        let ends = (0..connections).map(|_| open_one(&mut pair, ring));
        let mut rings = Self {
            ends: ends.collect(),
            pair,
            ring,
            buffers: Vec::new(),
            data: vec![7; ring],
            into: vec![0; ring],
        };
        for index in 0..connections {
            let [a, b] = rings.ends[index];
            let hosts = &mut rings.pair.hosts;
            let space = hosts[0].endpoint.conn(a).and_then(|c| c.send_space());
            let send = space.expect("an empty send buffer").buffer;
            rings.write(index, ring);
            rings.pair.pump_data(0);
            let hosts = &mut rings.pair.hosts;
            let spans = hosts[1].endpoint.conn(b).and_then(|c| c.readable());
            let rmb = spans.expect("octets").buffer;
            rings.read(index, ring);
            rings.settle();
            rings.buffers.push([send, rmb]);
        }
        rings
    }

    /// Bytes of a round.
    fn octets(&self) -> usize {
        FILLS.next_multiple_of(self.ends.len()) * self.ring
    }

    fn write(&mut self, index: usize, size: usize) {
        let [a, _] = self.ends[index];
        let now = self.pair.now;
        let written = self.pair.hosts[0].write(now, a, &self.data[..size]);
        assert_eq!(written, size);
    }

    fn read(&mut self, index: usize, size: usize) {
        let [_, b] = self.ends[index];
        let now = self.pair.now;
        while self.pair.hosts[1].endpoint.poll_event().is_some() {}
        let read = self.pair.hosts[1].read(now, b, &mut self.into);
        assert_eq!(read, size);
    }

    /// What cursor updates and events need after a reader freed its ring.
    fn settle(&mut self) {
        self.pair.pump_data(1);
        while self.pair.hosts[0].endpoint.poll_event().is_some() {}
    }

    fn plain(&mut self, index: usize, size: usize, step: Option<usize>) {
        let [send, rmb] = self.buffers[index];
        let [a, b] = &mut self.pair.hosts;
        let (send, rmb) = (&mut a.memory(send)[..size], &mut b.memory(rmb)[..size]);
        if step.is_none_or(|step| step == 0) {
            send.copy_from_slice(&self.data[..size]);
        }
        if step.is_none_or(|step| step == 1) {
            rmb.copy_from_slice(send);
        }
        if step.is_none_or(|step| step == 2) {
            self.into[..size].copy_from_slice(rmb);
            std::hint::black_box(&mut self.into);
        }
    }

    /// One connection after the other, by the engine.
    fn in_turn(&mut self, size: usize) {
        for _ in 0..FILLS.div_ceil(self.ends.len()) {
            for index in 0..self.ends.len() {
                self.write(index, size);
                self.pair.pump_data(0);
                self.read(index, size);
                self.settle();
            }
        }
    }

    fn plain_in_turn(&mut self, size: usize) {
        for _ in 0..FILLS.div_ceil(self.ends.len()) {
            for index in 0..self.ends.len() {
                self.plain(index, size, None);
            }
        }
    }

    /// All write, all is carried, all read, by the engine.
    fn at_once(&mut self, size: usize) {
        for _ in 0..FILLS.div_ceil(self.ends.len()) {
            for index in 0..self.ends.len() {
                self.write(index, size);
            }
            self.pair.pump_data(0);
            for index in 0..self.ends.len() {
                self.read(index, size);
            }
            self.settle();
        }
    }

    fn plain_at_once(&mut self, size: usize) {
        for _ in 0..FILLS.div_ceil(self.ends.len()) {
            for step in 0..3 {
                for index in 0..self.ends.len() {
                    self.plain(index, size, Some(step));
                }
            }
        }
    }
}

/// What is done with rings of this many bytes.
type Way = fn(&mut Rings, usize);

/// The orders, each as plain copies and as the engine has it.
const ORDERS: [(&str, Way, Way); 2] = [
    ("in turn", Rings::plain_in_turn, Rings::in_turn),
    ("all at once", Rings::plain_at_once, Rings::at_once),
];

/// Medians of rounds.
struct Compared {
    /// Gigabits a second of ours.
    rate: f64,
    /// How much of the plain copies' rate that is.
    ratio: f64,
}

/// One and the other in the same rounds, either first in every second one: what is left in
/// the caches, and has to be written back from them, is of the other as often as its own.
fn compare(rings: &mut Rings, rounds: usize, plain: Way, ours: Way) -> Compared {
    let ring = rings.ring;
    plain(rings, ring);
    ours(rings, ring);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 0..rounds.next_multiple_of(2) {
        let mut times = [Duration::ZERO; 2];
        for at in [round % 2, 1 - round % 2] {
            times[at] = timed(|| [plain, ours][at](rings, ring));
        }
        let [plain, ours] = times.map(|time| time.as_secs_f64());
        ratios.push(plain / ours);
        rates.push(8e-9 * rings.octets() as f64 / ours);
    }
    Compared {
        rate: median(rates),
        ratio: median(ratios),
    }
}

pub(crate) fn measure(scale: Scale) {
    println!("\nPayload carried, beside plain copies of it (aim: at least 0.90)");
    println!("  3 copies each: into the send buffer, into the RMB, out, a ring at a time");
    for (connections, ring) in SHAPES {
        let connections = (connections / scale.divisor).max(1);
        let mut rings = Rings::new(connections, ring);
        let rounds = scale.rounds * if connections > 1_000 { 1 } else { 10 };
        for (name, plain, ours) in ORDERS {
            let compared = compare(&mut rings, rounds, plain, ours);
            println!(
                "  {connections:>6} connections, rings of {} KiB, {name:<12}{:>6.1} Gbit/s   ratio {:.2}",
                ring >> 10,
                compared.rate,
                compared.ratio
            );
        }
    }
}
