//! What this process holds.

use std::fs;
use std::thread;
use std::time::Duration;

use smc_lab::netlink::rdma::{self, Resources};

/// For connections that have ended to be gone.
const SETTLING: Duration = Duration::from_secs(1);
/// Octets of memory that may be added for each connection: what is noted of it here.
const NOTES: u64 = 512;
/// Things that one connection may have more for a moment.
const FEW: u64 = 4;

/// What this process holds, and this machine's RDMA devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possessions {
    descriptors: u64,
    /// Octets in memory.
    resident: u64,
    rdma: Resources,
}

impl Possessions {
    /// What is left a while after the last connection.
    pub(crate) fn settled() -> Self {
        thread::sleep(SETTLING);
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = pages
            .split_whitespace()
            .nth(1)
            .and_then(|text| text.parse().ok());
        Self {
            descriptors: descriptors as u64,
            resident: pages.unwrap_or(0_u64) * 4_096,
            rdma: rdma::resources().unwrap_or_default(),
        }
    }

    /// What has grown since, over so many connections.
    pub(crate) fn grown(&self, since: &Self, connections: u32) -> Option<String> {
        let few = |before: u64, after: u64| after > before + FEW;
        let grown = few(self.descriptors, since.descriptors)
            || few(self.rdma.queue_pairs, since.rdma.queue_pairs)
            || few(self.rdma.regions, since.rdma.regions)
            || since.resident > self.resident + NOTES * u64::from(connections);
        grown.then(|| format!("left behind: {self:?}, then {since:?}"))
    }
}
