//! Times of round trips in buckets: bounded memory, read while they are measured.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of each doubling, as a power of two: a time is known to one part in 64.
const FINE: u32 = 6;
/// Doublings that have buckets of their own: up to half an hour in nanoseconds.
const DOUBLINGS: usize = 35;
const BUCKETS: usize = (DOUBLINGS + 1) << FINE;

/// Times that one thread measures.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Vec<AtomicU64>,
    shortest: AtomicU64,
    longest: AtomicU64,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            shortest: AtomicU64::new(u64::MAX),
            longest: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

/// The bucket of a time.
fn bucket(nanoseconds: u64) -> usize {
    let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(FINE + 1);
    let within = (nanoseconds >> shift) as usize;
    (((shift as usize) << FINE) + within).min(BUCKETS - 1)
}

/// The time in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket >> FINE).saturating_sub(1);
    let within = (bucket - (shift << FINE)) as u64;
    (within << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    /// Adds a time.
    pub(super) fn add(&self, nanoseconds: u64) {
        if let Some(count) = self.buckets.get(bucket(nanoseconds)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.shortest.fetch_min(nanoseconds, Ordering::Relaxed);
        self.longest.fetch_max(nanoseconds, Ordering::Relaxed);
        self.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// What was measured so far.
    pub(super) fn read(&self) -> Times {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Times {
            buckets: self.buckets.iter().map(load).collect(),
            shortest: load(&self.shortest),
            longest: load(&self.longest),
            sum: load(&self.sum),
        }
    }
}

/// Times that were measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    buckets: Vec<u64>,
    shortest: u64,
    longest: u64,
    sum: u64,
}

impl Times {
    /// Merges the histograms of several threads.
    pub(super) fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        let none = Self {
            shortest: u64::MAX,
            ..Self::default()
        };
        all.into_iter().fold(none, |mut sum, of| {
            sum.buckets.resize(BUCKETS, 0);
            for (to, from) in sum.buckets.iter_mut().zip(&of.buckets) {
                *to += from;
            }
            sum.shortest = sum.shortest.min(of.shortest);
            sum.longest = sum.longest.max(of.longest);
            sum.sum = sum.sum.saturating_add(of.sum);
            sum
        })
    }

    /// Times that came after an earlier reading; the shortest and the longest stay those of all.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        for (of, before) in later.buckets.iter_mut().zip(&earlier.buckets) {
            *of = of.saturating_sub(*before);
        }
        later.sum = later.sum.saturating_sub(earlier.sum);
        later
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time that so many of a thousand do not exceed, in nanoseconds.
    pub(super) fn share(&self, thousandths: u64) -> u64 {
        let count = self.count();
        let rank = (count.saturating_mul(thousandths).div_ceil(1000)).max(1);
        let mut seen = 0;
        for (at, of) in self.buckets.iter().enumerate() {
            seen += of;
            if seen >= rank {
                // No bucket reaches beyond what was measured.
                return middle(at).clamp(self.shortest.min(self.longest), self.longest);
            }
        }
        0
    }

    /// The mean in nanoseconds.
    pub(super) fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// The shortest and the longest in nanoseconds; 0 if there is none.
    pub(super) fn ends(&self) -> (u64, u64) {
        (self.shortest.min(self.longest), self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, Times, bucket, middle};

    #[test]
    fn every_time_falls_into_a_bucket_whose_middle_is_near() {
        let mut last = 0;
        for exponent in 0..41 {
            for offset in [0_u64, 1, 3, 7] {
                let time = (1_u64 << exponent) + offset * ((1 << exponent) / 8);
                let at = bucket(time);
                assert!(at >= last && at < BUCKETS, "{time}");
                last = at;
                let off = middle(at).abs_diff(time);
                assert!(off <= time / 64, "{time}: {}", middle(at));
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shares_of_known_times_are_found() {
        let histogram = Histogram::default();
        for time in 1..=10_000 {
            histogram.add(time * 1000);
        }
        let times = histogram.read();
        assert_eq!(times.count(), 10_000);
        assert_eq!(times.mean(), 5_000_500);
        assert_eq!(times.ends(), (1000, 10_000_000));
        for thousandths in [1, 10, 500, 900, 990, 999, 1000] {
            let exact = thousandths * 10_000;
            let off = times.share(thousandths).abs_diff(exact);
            assert!(
                off <= exact / 50,
                "{thousandths}: {}",
                times.share(thousandths)
            );
        }
        histogram.add(5);
        let later = histogram.read().since(&times);
        assert_eq!((later.count(), later.share(500), later.mean()), (1, 5, 5));
        let both = Times::of_all([times, later]);
        assert_eq!((both.count(), both.ends()), (10_001, (5, 10_000_000)));
        let none = Times::of_all([]);
        assert_eq!((none.count(), none.share(500), none.ends()), (0, 0, (0, 0)));
    }
}
