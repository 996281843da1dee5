//! What comes back from a device.

use std::fmt;
use std::io;

use smc_proto::completion::LinkFailure;

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCompletion {
    /// Number of the request.
    pub number: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes received.
    pub length: u32,
}

/// How a work request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Status {
    /// Well.
    #[default]
    Success,
    /// Not begun: the queue pair was broken already.
    Flushed,
    /// Badly, and this broke the queue pair.
    Failed(LinkFailure),
}

impl Status {
    /// From the number in `enum ibv_wc_status`.
    #[must_use]
    pub const fn of(code: u32) -> Self {
        match code {
            0 => Self::Success,
            5 => Self::Flushed,
            8 | 10 => Self::Failed(LinkFailure::RemoteAccess),
            12 => Self::Failed(LinkFailure::RetriesExhausted),
            13 => Self::Failed(LinkFailure::ReceiverNotReady),
            19 => Self::Failed(LinkFailure::DeviceRemoved),
            _ => Self::Failed(LinkFailure::Other),
        }
    }
}

/// Something that happened to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// The port lost its carrier.
    PortDown {
        /// The port, from 1.
        port: u8,
    },
    /// The port has its carrier.
    PortUp {
        /// The port, from 1.
        port: u8,
    },
    /// GIDs of the port, or other things peers know it by, changed.
    PortChanged {
        /// The port, from 1.
        port: u8,
    },
    /// A queue pair broke.
    QueuePairBroken {
        /// Its token.
        token: u32,
    },
    /// The device is gone.
    Removed,
}

impl DeviceEvent {
    /// From the number in `enum ibv_event_type`, with the port or the token of the queue
    /// pair it names; `None` for what needs no reaction.
    #[must_use]
    pub const fn of(code: u32, port: u8, token: u32) -> Option<Self> {
        Some(match code {
            // A completion queue is one queue pair's.
            0..=3 => Self::QueuePairBroken { token },
            8 => Self::Removed,
            9 => Self::PortUp { port },
            10 => Self::PortDown { port },
            11 | 12 | 18 => Self::PortChanged { port },
            _ => return None,
        })
    }
}

/// Why a device did not do what it was asked to.
#[derive(Debug)]
pub struct RnicError {
    what: &'static str,
    cause: io::Error,
}

impl RnicError {
    /// What was asked, and the answer of the system.
    #[must_use]
    pub const fn new(what: &'static str, cause: io::Error) -> Self {
        Self { what, cause }
    }

    /// Whether the process may not lock as much memory (`RLIMIT_MEMLOCK`), or the system
    /// has none left.
    #[must_use]
    pub fn is_memory_limit(&self) -> bool {
        self.cause.raw_os_error() == Some(libc::ENOMEM)
    }

    /// The answer of the system.
    #[must_use]
    pub fn cause(&self) -> &io::Error {
        &self.cause
    }
}

impl fmt::Display for RnicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.cause)?;
        if self.is_memory_limit() {
            f.write_str("; the limit of locked memory may be too low (ulimit -l)")?;
        }
        Ok(())
    }
}

impl std::error::Error for RnicError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Work requests that a device did not take.
#[derive(Debug)]
pub struct PostError {
    /// How many of them it took, the first ones.
    pub posted: usize,
    /// Why not the others.
    pub error: RnicError,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for PostError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_show_the_engine_why_a_link_failed() {
        let expected = [
            (0, Status::Success),
            (5, Status::Flushed),
            (10, Status::Failed(LinkFailure::RemoteAccess)),
            (12, Status::Failed(LinkFailure::RetriesExhausted)),
            (13, Status::Failed(LinkFailure::ReceiverNotReady)),
            (1, Status::Failed(LinkFailure::Other)),
            (999, Status::Failed(LinkFailure::Other)),
        ];
        for (code, status) in expected {
            assert_eq!(Status::of(code), status, "{code}");
        }
    }

    #[test]
    fn events_name_the_port_or_the_queue_pair() {
        let of = |code| DeviceEvent::of(code, 2, 9);
        assert_eq!(of(10), Some(DeviceEvent::PortDown { port: 2 }));
        assert_eq!(of(9), Some(DeviceEvent::PortUp { port: 2 }));
        assert_eq!(of(18), Some(DeviceEvent::PortChanged { port: 2 }));
        assert_eq!(of(1), Some(DeviceEvent::QueuePairBroken { token: 9 }));
        assert_eq!(of(8), Some(DeviceEvent::Removed));
        // Established, drained, and what a newer kernel may report.
        for code in [4, 5, 7, 16, 99] {
            assert_eq!(of(code), None, "{code}");
        }
    }
}
