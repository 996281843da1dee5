//! Cache of the limit of file sizes (`RLIMIT_FSIZE`). Every new connection over shared memory
//! needs it, to know whether this process may create a DMB's file (SHM-050).

use std::sync::atomic::{AtomicU64, Ordering};

use smc_proto::time::Instant;

/// The limit that the kernel reported last, valid for one tick of the coarse clock: a change takes
/// effect some milliseconds later. Code that creates a file queries the kernel itself.
#[derive(Debug, Default)]
pub(super) struct FileLimit {
    /// Time of the last query in nanoseconds; 0 before the first one.
    asked: AtomicU64,
    /// The limit in bytes; [`u64::MAX`] for none.
    limit: AtomicU64,
}

impl FileLimit {
    /// The limit in bytes at `tick`, a time of the coarse clock; `None` if there is none. Calls
    /// `ask` for it if the last query was at another tick.
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
