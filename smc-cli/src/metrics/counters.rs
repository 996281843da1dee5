//! Counters of one process or of many, which only rise.

use smc_proto::wire::types::DiagnosisCode;
use smc_view::{Side, Statistics, Traffic};

/// Reasons of fallbacks that have a name, and one for all others.
const REASONS: usize = DiagnosisCode::ALL.len() + 1;

/// What is counted, each number by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters {
    /// SMC-D and SMC-R, by [`KEYS`](smc_view::KEYS); 0 where a key is a level.
    pub traffic: [Traffic; 2],
    /// TCP connections, as client and as server.
    pub tcp: [u64; 2],
    /// TCP connections by reason, in the order of [`reasons`].
    pub fallbacks: [[u64; REASONS]; 2],
    /// Handshakes that failed where no fallback was left, as client and as server.
    pub handshake_errors: [u64; 2],
    /// CDC messages over SMC-D and SMC-R.
    pub messages: [u64; 2],
    /// Times a connection moved to another link.
    pub link_moves: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            traffic: [Traffic::default(); 2],
            tcp: [0; 2],
            fallbacks: [[0; REASONS]; 2],
            handshake_errors: [0; 2],
            messages: [0; 2],
            link_moves: 0,
        }
    }
}

/// Names of the reasons of fallbacks; the last one is that of all without a name.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    let named = DiagnosisCode::ALL.iter().map(|code| code.name());
    named.chain(["OTHER"])
}

impl Counters {
    /// What a process has counted.
    #[must_use]
    pub fn of(statistics: &Statistics) -> Self {
        let mut counters = Self {
            traffic: [statistics.smc_d, statistics.smc_r],
            tcp: statistics.tcp,
            handshake_errors: statistics.handshake_errors,
            messages: statistics.messages,
            link_moves: statistics.link_moves,
            ..Self::default()
        };
        for traffic in &mut counters.traffic {
            let levels = traffic.0.iter_mut().enumerate();
            let levels = levels.filter(|(at, _)| Traffic::is_level(*at));
            levels.for_each(|(_, value)| *value = 0);
        }
        let sides = counters.fallbacks.iter_mut().zip(statistics.tcp);
        for ((by_reason, all), side) in sides.zip([Side::Client, Side::Server]) {
            let mut named = 0_u64;
            let here = statistics.fallbacks.iter().filter(|of| of.side == side);
            for fallback in here {
                let code = DiagnosisCode(fallback.code);
                let at = DiagnosisCode::ALL.iter().position(|of| *of == code);
                if let Some(count) = at.and_then(|at| by_reason.get_mut(at)) {
                    *count = count.saturating_add(fallback.count);
                    named = named.saturating_add(fallback.count);
                }
            }
            if let Some(other) = by_reason.last_mut() {
                *other = all.saturating_sub(named);
            }
        }
        counters
    }

    /// Takes from `other` what is greater there: no number ever falls.
    pub fn raise(&mut self, other: &Self) {
        self.each(other, |number, other| *number = (*number).max(other));
    }

    /// Adds, up to the greatest number there is.
    pub fn add(&mut self, other: &Self) {
        self.each(other, |number, other| {
            *number = number.saturating_add(other);
        });
    }

    fn each(&mut self, other: &Self, change: impl Fn(&mut u64, u64)) {
        let mut other = other.clone();
        let pairs = self.numbers().zip(other.numbers());
        pairs.for_each(|(number, other)| change(number, *other));
    }

    fn numbers(&mut self) -> impl Iterator<Item = &mut u64> {
        let tables = self.traffic.iter_mut().flat_map(|traffic| &mut traffic.0);
        let tables = tables.chain(self.fallbacks.iter_mut().flatten());
        let sides = self.tcp.iter_mut().chain(&mut self.handshake_errors);
        let rest = sides.chain(&mut self.messages);
        tables.chain(rest).chain([&mut self.link_moves])
    }
}
