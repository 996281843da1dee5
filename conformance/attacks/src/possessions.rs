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
    /// Bytes of shared memory charged to its cgroup, but for those of its view.
    pub charged: u64,
    /// Bytes of its view (`smc_view`) that it has used. Rows are used again, and stay.
    pub view: u64,
}

/// Most bytes of a view: it has so many rows, whatever peers do.
const VIEW: u64 = 10 << 20;

impl Possessions {
    pub(crate) fn of(pid: u32, charged: u64) -> io::Result<Self> {
        let count =
            |of: &str| fs::read_dir(format!("/proc/{pid}/{of}")).map(|entries| entries.count());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let view = view(&fs::read_to_string(format!("/proc/{pid}/smaps"))?);
        Ok(Self {
            descriptors: count("fd")?,
            dmb_mappings: maps.matches("memfd:smc-d").count(),
            threads: count("task")?,
            charged: charged.saturating_sub(view),
            view,
        })
    }

    /// Whether nothing is more than it was `before`; memory may differ by `slack` bytes.
    #[must_use]
    pub fn is_within(&self, before: &Self, slack: u64) -> bool {
        self.descriptors <= before.descriptors
            && self.dmb_mappings <= before.dmb_mappings
            && self.threads <= before.threads
            && self.charged <= before.charged + slack
            && self.view <= VIEW
    }
}

/// Bytes in use of the mapping of a view, by the lines of `smaps`.
fn view(smaps: &str) -> u64 {
    let mapping = smaps
        .lines()
        .skip_while(|line| !line.contains("memfd:smc-view"));
    let size = mapping.skip(1).find_map(|line| line.strip_prefix("Rss:"));
    let size = size.and_then(|size| size.trim().strip_suffix(" kB"));
    size.map_or(0, |size| {
        1024 * size.parse::<u64>().expect("a number of kB")
    })
}
