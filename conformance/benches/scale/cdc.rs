//! Engine time per CDC message, with one connection and with many. Nothing is
//! copied: buffers have no memory.
//!
//! * in turn: bytes of one connection are written, announced, received and read, then those
//!   of the next; the order of the connections is that of their slots.
//! * all at once: a thousand connections write, then all is announced, then all read. Each
//!   step comes back to connections that have left the first-level cache since the last.
//! * mixed order: in turn, but the next connection is any of them, and after ten thousand
//!   messages of others nothing of it is in any cache near by. Each message waits twice for
//!   the memory itself, for the connection at either end, and no order of the fields helps
//!   against that: the row shows the latency of the machine's memory.

use conformance::direct::Pair;

use super::{Ends, RING, Scale, median, nanos, open, shuffled, timed};

/// Bytes each message announces.
const STEP: usize = 64;
/// Messages of a round at least: little enough to be seldom interrupted.
const MESSAGES: usize = 1_000;

/// A pair, and how many CDC messages both its ends sent.
struct Side {
    pair: Pair,
    ends: Vec<Ends>,
    /// Where the last round ended.
    at: usize,
}

impl Side {
    fn new(connections: usize) -> Self {
        let mut pair = Pair::new(connections);
        for host in &mut pair.hosts {
            host.without_memory();
        }
        let ends = open(&mut pair, connections);
        Self { pair, ends, at: 0 }
    }

    fn sent(&self) -> u64 {
        let hosts = &self.pair.hosts;
        hosts
            .iter()
            .map(|host| host.endpoint.statistics().cdc_sent)
            .sum()
    }

    /// Nanoseconds for each CDC message that `run` makes the two ends send.
    fn each(&mut self, run: impl FnOnce(&mut Pair, &[Ends])) -> f64 {
        let before = self.sent();
        let start = self.at % self.ends.len();
        let end = (start + MESSAGES).min(self.ends.len());
        self.at += MESSAGES;
        let time = timed(|| run(&mut self.pair, &self.ends[start..end]));
        let sent = self.sent() - before;
        nanos(time, usize::try_from(sent).expect("few"))
    }
}

/// One connection after the other: written, announced, received, read.
fn in_turn(pair: &mut Pair, ends: &[Ends], messages: usize) {
    let data = [0; STEP];
    let mut into = [0; RING];
    for [a, b] in ends.iter().cycle().take(messages) {
        let now = pair.now;
        assert_eq!(pair.hosts[0].write(now, *a, &data), STEP);
        pair.pump_data(0);
        while pair.hosts[1].endpoint.poll_event().is_some() {}
        assert_eq!(pair.hosts[1].read(now, *b, &mut into), STEP);
        // A cursor update, now and then.
        pair.pump_data(1);
        while pair.hosts[0].endpoint.poll_event().is_some() {}
    }
}

/// All at once: all write, all is announced, all read.
fn at_once(pair: &mut Pair, ends: &[Ends], messages: usize) {
    let data = [0; STEP];
    let mut into = [0; RING];
    for _ in 0..messages.div_ceil(ends.len()) {
        let now = pair.now;
        for [a, _] in ends {
            assert_eq!(pair.hosts[0].write(now, *a, &data), STEP);
        }
        pair.pump_data(0);
        while pair.hosts[1].endpoint.poll_event().is_some() {}
        for [_, b] in ends {
            assert_eq!(pair.hosts[1].read(now, *b, &mut into), STEP);
        }
        pair.pump_data(1);
        while pair.hosts[0].endpoint.poll_event().is_some() {}
    }
}

pub(crate) fn measure(scale: Scale) {
    let connections = 10_000 / scale.divisor;
    println!("\nEngine time per CDC message, nothing copied (aim: ratio at most 1.25)");
    let mut one = Side::new(1);
    let mut few = Side::new(100);
    let mut many = Side::new(connections);
    let mut mixed = Side::new(connections);
    mixed.ends = shuffled(&mixed.ends);
    let mut busy = Side::new(connections);
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..scale.rounds * 20 {
        let of_round = [
            one.each(|pair, ends| in_turn(pair, ends, MESSAGES)),
            few.each(|pair, ends| in_turn(pair, ends, MESSAGES)),
            many.each(|pair, ends| in_turn(pair, ends, MESSAGES)),
            mixed.each(|pair, ends| in_turn(pair, ends, MESSAGES)),
            busy.each(|pair, ends| at_once(pair, ends, MESSAGES)),
        ];
        for (times, time) in times.iter_mut().zip(of_round) {
            times.push(time);
        }
    }
    let base = times[0].clone();
    let names = [
        "1 connection".to_owned(),
        "100 connections, in turn".to_owned(),
        format!("{connections} connections, in turn"),
        format!("{connections} connections, in mixed order"),
        format!("{connections} connections, all at once"),
    ];
    for (name, times) in names.iter().zip(times) {
        let ratios = times.iter().zip(&base).map(|(t, one)| t / one).collect();
        let (time, ratio) = (median(times), median(ratios));
        println!("  {name:<40}{time:>8.1} ns   ratio {ratio:.2}");
    }
}
