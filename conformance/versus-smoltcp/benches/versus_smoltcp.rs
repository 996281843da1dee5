//! The engine against the in-process TCP stack a user would pick instead.
//!
//! "In process" means two endpoints, encoded bytes between them, separate
//! memories, all in one thread. Every figure is a ratio of times measured in
//! the same round; rounds of both alternate, so that a busy machine slows both,
//! and what counts is the median of the ratios. Each side may choose for each
//! workload what suits it best: we the size of our rings, smoltcp the size of its
//! buffers and whether it delays acknowledgements. How smoltcp's sockets are
//! joined is measured in three ways, from its own loopback device to one made
//! to cost it as little as possible.
//!
//! `cargo bench -p smc-versus-smoltcp`

use std::time::Duration;

#[path = "versus_smoltcp/smc.rs"]
mod smc;
#[path = "versus_smoltcp/tcp.rs"]
mod tcp;
#[path = "versus_smoltcp/wire.rs"]
mod wire;

use tcp::{Acks, Joined, Tuning};
use wire::Checksums;

const PING: usize = 64;
const WRITE: usize = 64 << 10;
const RINGS: [usize; 4] = [64 << 10, 128 << 10, 256 << 10, 512 << 10];
/// How smoltcp's sockets are joined, and whether they acknowledge at once.
const OPPONENTS: [(Joined, Acks, &str); 5] = [
    (
        Joined::Loopback,
        Acks::AtOnce,
        "its loopback device, acks at once",
    ),
    (
        Joined::Loopback,
        Acks::Delayed,
        "its loopback device, acks delayed",
    ),
    (
        Joined::Interfaces(Checksums::Computed),
        Acks::AtOnce,
        "two interfaces, acks at once",
    ),
    (
        Joined::Interfaces(Checksums::Computed),
        Acks::Delayed,
        "two interfaces, acks delayed",
    ),
    (
        Joined::Interfaces(Checksums::Ignored),
        Acks::Delayed,
        "the same without checksums",
    ),
];

/// How bytes get into the send buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Produce {
    /// Copied from memory of the application.
    CopyIn,
    /// The bytes are there already: the application made them in place.
    InPlace,
}

/// Two connected ends in one process, SMC-R's or smoltcp's. Each method returns
/// how long it took.
pub(crate) trait Measured {
    /// Bytes there and back, so many times.
    fn ping_pong(&mut self, size: usize, rounds: usize) -> Duration;
    /// `total` bytes from the client to the server.
    fn stream(&mut self, write: usize, total: usize, produce: Produce) -> Duration;
    /// A connection opened and closed at both ends, so many times.
    fn connect_and_close(&mut self, rounds: usize) -> Duration;
}

/// Something both do: the time for `amount` of it.
struct Workload<'a> {
    title: &'a str,
    definition: &'a [&'a str],
    /// Ratio the project set itself, if any.
    aim: Option<f64>,
    rings: &'a [usize],
    /// Of one round.
    amount: usize,
    run: &'a dyn Fn(&mut dyn Measured, usize) -> Duration,
    figure: &'a dyn Fn(Duration) -> String,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Workload<'_> {
    /// Measures and prints.
    fn compare(&self, rounds: usize) {
        let ring = self.best(rounds, self.rings.iter().copied(), |ring| {
            Box::new(smc::Endpoints::new(ring))
        });
        let mut ours = smc::Endpoints::new(ring);
        let mut theirs: Vec<_> = OPPONENTS
            .into_iter()
            .map(|(joined, acks, name)| {
                let tunings = Tuning::all(acks);
                let tuning = self.best(rounds, tunings, |t| tcp::sockets(joined, t));
                (name, tuning, tcp::sockets(joined, tuning))
            })
            .collect();
        let mut times = Vec::new();
        for _ in 0..rounds {
            let ours = (self.run)(&mut ours, self.amount);
            let theirs = theirs
                .iter_mut()
                .map(|(.., sockets)| (self.run)(sockets.as_mut(), self.amount));
            times.push((ours, theirs.collect::<Vec<_>>()));
        }
        let aim = self.aim.map(|aim| format!(" (aim: ratio {aim})"));
        println!("\n{}{}", self.title, aim.unwrap_or_default());
        for line in self.definition {
            println!("  {line}");
        }
        let ours: Vec<Duration> = times.iter().map(|(ours, _)| *ours).collect();
        println!(
            "  {:<52}{:>18}  {:<13}rings of {} KiB",
            "SMC-R, two endpoints",
            self.middle(&ours),
            "ratio",
            ring >> 10
        );
        for (i, (name, tuning, _)) in theirs.iter().enumerate() {
            let theirs: Vec<Duration> = times.iter().map(|(_, theirs)| theirs[i]).collect();
            let ratio =
                |(ours, theirs): (&Duration, &Duration)| theirs.as_secs_f64() / ours.as_secs_f64();
            let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(ratio).collect();
            let median = median(&mut ratios);
            println!(
                "  smoltcp, {name:<43}{:>18}  {:<13}buffers of {} KiB",
                self.middle(&theirs),
                format!(
                    "{median:.2} ±{:.2}",
                    (ratios[rounds * 3 / 4] - ratios[rounds / 4]) / 2.0
                ),
                tuning.buffer >> 10,
            );
        }
    }

    /// The choice with the best of a few short runs.
    fn best<T: Copy>(
        &self,
        rounds: usize,
        choices: impl Iterator<Item = T>,
        make: impl Fn(T) -> Box<dyn Measured>,
    ) -> T {
        let tries = if rounds == 1 { 1 } else { 25 };
        let time = |choice: &T| {
            let mut ends = make(*choice);
            (0..tries)
                .map(|_| (self.run)(ends.as_mut(), self.amount))
                .min()
        };
        choices.min_by_key(time).expect("a choice")
    }

    fn middle(&self, times: &[Duration]) -> String {
        let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let each = median(&mut seconds) / self.amount as f64;
        (self.figure)(Duration::from_secs_f64(each * 1e6))
    }
}

fn main() {
    // The harness passes `--bench`; a test run only checks that it works.
    let (rounds, divisor) = if std::env::args().any(|a| a == "--bench") {
        (301, 1)
    } else {
        (1, 64)
    };
    println!("Medians of {rounds} rounds; ratio: smoltcp's time by ours in the same round,");
    println!("its median and half the distance of its quartiles.");
    Workload {
        title: "Round trip of 64 octets",
        definition: &["Each side copies its octets in and out."],
        aim: Some(4.0),
        rings: &RINGS,
        amount: 1_024 / divisor,
        run: &|ends, amount| ends.ping_pong(PING, amount),
        figure: &|million| format!("{} ns", million.as_millis()),
    }
    .compare(rounds);

    for (produce, title, definition) in [
        (
            Produce::CopyIn,
            "Stream of 64 KiB writes, copied in and copied out",
            [
                "SMC-R copies the payload 3 times: into the send buffer, RDMA WRITE, out.",
                "smoltcp 4 times: into its ring, into a packet, into the other ring, out.",
            ],
        ),
        (
            Produce::InPlace,
            "Stream of 64 KiB writes, made in place and copied out",
            [
                "SMC-R copies the payload 2 times: RDMA WRITE, out.",
                "smoltcp 3 times: into a packet, into the other ring, out.",
            ],
        ),
    ] {
        let [ours, theirs] = definition;
        Workload {
            title,
            definition: &[
                ours,
                theirs,
                "Checksums read it 2 times more; the loopback device also clears each packet.",
            ],
            aim: Some(1.7),
            rings: &RINGS,
            amount: (8 << 20) / divisor,
            run: &|ends, amount| ends.stream(WRITE, amount, produce),
            figure: &|million| format!("{:.1} Gbit/s", 8e-3 / million.as_secs_f64()),
        }
        .compare(rounds);
    }

    Workload {
        title: "Opening and closing a connection",
        definition: &[
            "SMC-R: rendezvous in a link group that exists, close of both sides, buffers",
            "given back and zeroed; without the TCP connection beneath, which comes on top.",
            "smoltcp: three-way handshake, FIN of both sides, no wait in TIME-WAIT.",
        ],
        aim: None,
        rings: &[16 << 10, 64 << 10],
        amount: 128 / divisor,
        run: &|ends, amount| ends.connect_and_close(amount),
        figure: &|million| format!("{:.0} per second", 1e6 / million.as_secs_f64()),
    }
    .compare(rounds);
}
