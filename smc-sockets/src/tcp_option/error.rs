//! Why the program could not be attached.

use std::fmt;
use std::fs;
use std::io;

/// Why there is no TCP option.
#[derive(Debug)]
#[non_exhaustive]
pub enum OptionError {
    /// The process lacks these capabilities.
    MissingCapabilities(&'static str),
    /// There is no cgroup of version 2 that this process is in.
    NoCgroup,
    /// The kernel has no BPF, or one older than Linux 5.10.
    KernelTooOld,
    /// The kernel refused for another reason; what was being done.
    Refused(&'static str, io::Error),
}

/// Bits of a set of capabilities.
const NET_ADMIN: u64 = 1 << 12;
const SYS_ADMIN: u64 = 1 << 21;
const BPF: u64 = 1 << 39;

impl OptionError {
    /// From a call of the kernel's.
    pub(super) fn from_call(doing: &'static str, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) => match missing(effective().unwrap_or(0)) {
                Some(names) => Self::MissingCapabilities(names),
                // A policy of the system's, such as lockdown.
                None => Self::Refused(doing, error),
            },
            // Old kernels do not know the kind of map, the call, or the functions.
            Some(libc::ENOSYS | libc::EINVAL | libc::ENOTSUP) => Self::KernelTooOld,
            _ => Self::Refused(doing, error),
        }
    }
}

/// What a set of capabilities lacks.
fn missing(set: u64) -> Option<&'static str> {
    // The administrator's one stands for BPF's, not for that of networks.
    let bpf = set & (BPF | SYS_ADMIN) != 0;
    match (bpf, set & NET_ADMIN != 0) {
        (true, true) => None,
        (false, true) => Some("CAP_BPF"),
        (true, false) => Some("CAP_NET_ADMIN"),
        (false, false) => Some("CAP_BPF and CAP_NET_ADMIN"),
    }
}

/// Effective capabilities of the calling thread.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCapabilities(names) => write!(
                f,
                "SMC's TCP option cannot be set: this process lacks {names}; \
                 a process that has them can hand its map on"
            ),
            Self::NoCgroup => f.write_str(
                "SMC's TCP option cannot be set: this process is in no cgroup of version 2 \
                 that is mounted here",
            ),
            Self::KernelTooOld => f.write_str(
                "SMC's TCP option cannot be set: it takes BPF as Linux has it from 5.10 on",
            ),
            Self::Refused(doing, error) => {
                write!(f, "SMC's TCP option cannot be set: {doing}: {error}")
            }
        }
    }
}

impl std::error::Error for OptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_capability_is_named() {
        assert_eq!(missing(0), Some("CAP_BPF and CAP_NET_ADMIN"));
        assert_eq!(missing(BPF), Some("CAP_NET_ADMIN"));
        assert_eq!(missing(SYS_ADMIN), Some("CAP_NET_ADMIN"));
        assert_eq!(missing(NET_ADMIN), Some("CAP_BPF"));
        assert_eq!(missing(NET_ADMIN | BPF), None);
        let shown = OptionError::MissingCapabilities("CAP_BPF").to_string();
        assert!(shown.contains("lacks CAP_BPF"));
    }

    #[test]
    fn this_threads_capabilities_can_be_read() {
        assert!(effective().is_some());
    }

    #[test]
    fn an_error_of_the_kernel_is_the_source_of_a_refusal() {
        use std::error::Error;
        let refused = OptionError::Refused("loading", io::ErrorKind::OutOfMemory.into());
        let source = refused.source().and_then(|error| error.downcast_ref());
        assert_eq!(
            source.map(io::Error::kind),
            Some(io::ErrorKind::OutOfMemory)
        );
        assert!(OptionError::NoCgroup.source().is_none());
    }
}
