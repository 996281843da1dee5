//! What this process holds.

use std::fs;
use std::thread;
use std::time::Duration;

use smc_lab::netlink::rdma::{self, Resources};

/// For connections that have ended to be gone.
const SETTLING: Duration = Duration::from_secs(1);
/// Bytes of memory that may be added for each connection: what is noted of it here.
const NOTES: u64 = 512;
/// Things that one connection may have more for a moment.
const FEW: u64 = 4;
/// Bytes of a buffer that is one of these: the largest that is registered unless asked for.
const BUFFER: u64 = 256 * 1024;

/// What this process holds, and this machine's RDMA devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Possessions {
    descriptors: u64,
    /// Bytes in memory.
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
        let buffers = since.rdma.regions.saturating_sub(self.rdma.regions);
        let memory = NOTES * u64::from(connections) + BUFFER * buffers.min(FEW);
        let grown = few(self.descriptors, since.descriptors)
            || few(self.rdma.queue_pairs, since.rdma.queue_pairs)
            || few(self.rdma.regions, since.rdma.regions)
            || since.resident > self.resident + memory;
        grown.then(|| format!("left behind: {self:?}, then {since:?}"))
    }
}

#[cfg(test)]
mod tests {
    use smc_lab::netlink::rdma::Resources;

    use super::Possessions;

    fn holds(resident: u64, regions: u64) -> Possessions {
        let rdma = Resources {
            queue_pairs: 4,
            regions,
        };
        Possessions {
            descriptors: 19,
            resident,
            rdma,
        }
    }

    #[test]
    fn the_buffers_of_one_connection_may_be_there_or_not() {
        let early = holds(8_642_560, 303);
        // As a server of ours had it behind 1,000 connections.
        assert_eq!(early.grown(&holds(9_289_728, 305), 1_000), None);
        assert!(early.grown(&holds(9_289_728, 303), 1_000).is_some());
        assert!(early.grown(&holds(9_700_000, 305), 1_000).is_some());
        assert!(early.grown(&holds(8_642_560, 308), 1_000).is_some());
    }
}
