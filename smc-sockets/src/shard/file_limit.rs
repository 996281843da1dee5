//! The limit of the size of files, which connections that come and go ask for.

use std::sync::atomic::{AtomicU64, Ordering};

use smc_proto::time::Instant;

/// What the kernel has said of it last, for a tick of the coarse clock: a limit that changes counts
/// some milliseconds later. Who makes a file asks anew.
#[derive(Debug, Default)]
pub(super) struct FileLimit {
    /// When the kernel was asked, in nanoseconds; 0 before.
    asked: AtomicU64,
    /// The limit, [`u64::MAX`] for none.
    limit: AtomicU64,
}

impl FileLimit {
    /// The limit as of this time, a tick of the coarse clock.
    pub(super) fn get(&self, tick: Instant, ask: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let now = tick.as_nanos();
        let known = match self.asked.load(Ordering::Acquire) == now {
            true => self.limit.load(Ordering::Relaxed),
            false => {
                let limit = ask().unwrap_or(u64::MAX);
                self.limit.store(limit, Ordering::Relaxed);
                self.asked.store(now, Ordering::Release);
                limit
            }
        };
        Some(known).filter(|limit| *limit != u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_once_for_each_tick() {
        let limit = FileLimit::default();
        let at = Instant::from_nanos;
        assert_eq!(limit.get(at(1), || Some(7)), Some(7));
        assert_eq!(limit.get(at(1), || panic!("it is known")), Some(7));
        assert_eq!(limit.get(at(2), || None), None);
        assert_eq!(limit.get(at(2), || panic!("it is known")), None);
    }
}
