//! Interleaved rounds, medians, and whether figures are reached.

use std::cell::Cell;

use crate::parts::Figure;
use crate::transport::Transport;

/// Rounds of one transport, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }
}

/// Measures every transport in turn, so many rounds of a workload, and prints a line for
/// each, and how many connections were SMC in the round with the fewest.
pub(crate) fn interleave_rounds(
    title: &str,
    rounds: usize,
    connections: usize,
    measure: impl Fn(Transport) -> Figure,
) -> Vec<(Transport, Rounds)> {
    let fewest = Cell::new(usize::MAX);
    let all = interleave(title, rounds, &Transport::ALL, |transport| {
        let figure = measure(transport);
        if transport == Transport::Smc {
            fewest.set(fewest.get().min(figure.smc));
        }
        figure.value
    });
    println!(
        "  SMC-D carried {} of {connections} connections",
        fewest.get()
    );
    all
}

/// Measures every transport in turn, so many rounds, and prints a line for each.
pub(crate) fn interleave(
    title: &str,
    rounds: usize,
    transports: &[Transport],
    measure: impl Fn(Transport) -> f64,
) -> Vec<(Transport, Rounds)> {
    let mut all: Vec<_> = transports
        .iter()
        .map(|at| (*at, Rounds(Vec::new())))
        .collect();
    for _ in 0..rounds {
        for (transport, figures) in &mut all {
            figures.0.push(measure(*transport));
        }
    }
    println!("{title}");
    for (transport, Rounds(figures)) in &mut all {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (figures[0], figures[figures.len() - 1]);
        let median = figures[figures.len() / 2];
        println!("  {transport:8} {median:12.3}  ({least:.3} to {most:.3})");
    }
    all
}

/// What SMC-D has to reach beside TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) least: f64,
    pub(crate) aim: f64,
    /// The figure is a rate and not a time.
    pub(crate) more_is_better: bool,
}

impl Goal {
    /// A time of TCP's: at most.
    pub(crate) const fn time(least: f64, aim: f64) -> Self {
        Self {
            least,
            aim,
            more_is_better: false,
        }
    }

    /// A rate of TCP's: at least.
    pub(crate) const fn rate(least: f64, aim: f64) -> Self {
        Self {
            least,
            aim,
            more_is_better: true,
        }
    }

    /// Prints the ratio and the verdict.
    pub(crate) fn judge(self, what: &str, ratio: f64) {
        let reaches = |goal| {
            if self.more_is_better {
                ratio >= goal
            } else {
                ratio <= goal
            }
        };
        let verdict = match (reaches(self.aim), reaches(self.least)) {
            (true, _) => "aim reached",
            (_, true) => "reached",
            _ => "MISSED",
        };
        let (least, aim) = (self.least, self.aim);
        println!("  {what}: {ratio:.3} (at least {least:.2}, aim {aim:.2}): {verdict}");
    }
}

/// The median of SMC-D over that of TCP.
pub(crate) fn ratio(all: &[(Transport, Rounds)]) -> f64 {
    let of = |wanted| {
        let found = all.iter().find(|(transport, _)| *transport == wanted);
        found
            .map(|(_, rounds)| rounds.median())
            .expect("it was measured")
    };
    of(Transport::Smc) / of(Transport::Tcp)
}

pub(crate) fn print_load() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load.trim());
}
