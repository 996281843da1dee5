//! How much memory the process may still lock: registering memory with an RNIC locks it.

use rustix::process::{Resource, getrlimit};

/// Bytes that may still be registered, `None` without a limit.
#[must_use]
pub fn lockable() -> Option<u64> {
    let limit = limit()?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    left(limit, &status)
}

/// Bytes that the process may lock in all, `None` without a limit.
#[must_use]
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Returns what is left according to `/proc/self/status`: how much is pinned, and whether the limit
/// counts for a process with these capabilities.
fn left(limit: u64, status: &str) -> Option<u64> {
    const CAP_IPC_LOCK: u32 = 14;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()
    };
    let capabilities = value("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    if capabilities.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1) {
        return None;
    }
    let pinned = value("VmPin:").and_then(|kib| kib.parse::<u64>().ok());
    Some(limit.saturating_sub(pinned.unwrap_or(0) << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_memory_counts_unless_the_process_may_lock_what_it_likes() {
        let status = "Name:\tx\nVmPin:\t     136 kB\nCapEff:\t0000000000003000\n";
        assert_eq!(left(8 << 20, status), Some((8 << 20) - (136 << 10)));
        assert_eq!(left(100 << 10, status), Some(0));
        let privileged = status.replace("3000", "4000");
        assert_eq!(left(8 << 20, &privileged), None);
        assert_eq!(left(1000, ""), Some(1000));
    }
}
