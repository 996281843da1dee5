//! Times of many round trips, in bounded memory.

/// Times that are kept at most; half of them go when there would be more.
const KEPT: usize = 1 << 20;

/// Times in nanoseconds: all of them, or every so manieth.
pub(super) struct Times {
    kept: Vec<u64>,
    /// One time of so many is kept.
    stride: u64,
    /// Number of times measured.
    pub(super) count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            stride: 1,
            count: 0,
        }
    }
}

impl Times {
    /// Adds a time.
    pub(super) fn add(&mut self, nanoseconds: u64) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == KEPT {
                let mut at = 0;
                self.kept.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
            }
            // What does not fit the new stride is left out.
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(nanoseconds);
            }
        }
        self.count += 1;
    }

    /// The times that were kept, the shortest first.
    pub(super) fn sorted(mut self) -> Vec<u64> {
        self.kept.sort_unstable();
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Times};

    #[test]
    fn an_hour_of_round_trips_takes_bounded_memory_and_keeps_its_shares() {
        let mut times = Times::default();
        let count = 5 * KEPT as u64 + 3;
        for nanoseconds in 0..count {
            times.add(nanoseconds);
        }
        assert_eq!(times.count, count);
        let sorted = times.sorted();
        assert!(
            sorted.len() <= KEPT && sorted.len() > KEPT / 2,
            "{}",
            sorted.len()
        );
        for percent in [1, 50, 99] {
            let expected = count * percent / 100;
            let found = sorted[sorted.len() * percent as usize / 100];
            assert!(found.abs_diff(expected) <= 16, "{percent} %: {found}");
        }
    }
}
