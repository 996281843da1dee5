//! How long something is left to event loops before the driver does it.

/// Something that is left to event loops as long as they poll the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftToLoops {
    /// How often event loops had polled the device at the last check.
    polls: u64,
    /// How often it was left to them at a check.
    times: u32,
}

impl LeftToLoops {
    /// Leaves it to event loops, which have polled the device so often.
    pub(super) const fn new(polls: u64) -> Self {
        Self { polls, times: 0 }
    }

    /// Whether it waits for a poll since the last check.
    pub(super) const fn waits(&self, polls: u64) -> bool {
        self.polls == polls
    }

    /// Checks whether to leave it to event loops once more: they have polled since the last check,
    /// or none of them is late. Returns how often it was left to them before.
    pub(super) const fn again(&mut self, polls: u64, is_late: bool) -> Option<u32> {
        let has_polled = !self.waits(polls);
        self.polls = polls;
        if !has_polled && is_late {
            return None;
        }
        let times = self.times;
        self.times = times.saturating_add(1);
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_left_to_loops_that_poll_or_are_not_late() {
        let mut left = LeftToLoops::new(7);
        assert!(left.waits(7) && !left.waits(8));
        assert_eq!(left.again(8, true), Some(0), "they have polled");
        assert_eq!(left.again(8, false), Some(1), "none is late");
        assert_eq!(left.again(8, true), None, "one is late");
        assert_eq!(left.again(9, true), Some(2));
    }
}
