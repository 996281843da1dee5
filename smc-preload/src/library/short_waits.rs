//! Short waits for a peer in calls that are not to wait.

use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds without such waits after one in vain: of 5 ms each, peers that send nothing take a
/// twentieth of a program's time at most.
const NONE_FOR: u64 = 100;

/// Whether calls of one kind may wait.
pub(crate) struct ShortWaits {
    /// From when on they may again, in milliseconds of the monotonic clock.
    from: AtomicU64,
}

/// The monotonic clock in milliseconds.
fn milliseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1000) + u64::try_from(now.tv_nsec / 1_000_000).unwrap_or(0)
}

impl ShortWaits {
    pub(crate) const fn new() -> Self {
        Self {
            from: AtomicU64::new(0),
        }
    }

    /// Whether a call may wait now.
    pub(crate) fn are_permitted(&self) -> bool {
        milliseconds() >= self.from.load(Ordering::Relaxed)
    }

    /// Notes that a call has waited in vain.
    pub(crate) fn note_vain(&self) {
        let from = milliseconds().saturating_add(NONE_FOR);
        self.from.store(from, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::ShortWaits;

    #[test]
    fn none_is_left_for_a_while_after_one_in_vain() {
        let waits = ShortWaits::new();
        assert!(waits.are_permitted());
        waits.note_vain();
        assert!(!waits.are_permitted());
        std::thread::sleep(std::time::Duration::from_millis(110));
        assert!(waits.are_permitted());
    }
}
