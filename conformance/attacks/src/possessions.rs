//! What a process possesses, as the kernel counts it.

use std::fs;
use std::io;

/// Bytes by which the kernel's count of a cgroup's memory may lag behind: it sums what each
/// processor has counted only now and then.
pub const LAG: u64 = 64 << 10;

/// Things of a process that a peer might make it keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possessions {
    /// Open descriptors.
    pub descriptors: usize,
    /// Mappings of DMBs and of doorbells.
    pub dmb_mappings: usize,
    /// Threads.
    pub threads: usize,
    /// Bytes of shared memory charged to its cgroup.
    pub charged: u64,
}

impl Possessions {
    pub(crate) fn of(pid: u32, charged: u64) -> io::Result<Self> {
        let count =
            |of: &str| fs::read_dir(format!("/proc/{pid}/{of}")).map(|entries| entries.count());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        Ok(Self {
            descriptors: count("fd")?,
            dmb_mappings: maps.matches("memfd:smc-d").count(),
            threads: count("task")?,
            charged,
        })
    }

    /// Whether nothing is more than it was `before`; memory may differ by `slack` bytes.
    #[must_use]
    pub fn is_within(&self, before: &Self, slack: u64) -> bool {
        self.descriptors <= before.descriptors
            && self.dmb_mappings <= before.dmb_mappings
            && self.threads <= before.threads
            && self.charged <= before.charged + slack
    }
}
