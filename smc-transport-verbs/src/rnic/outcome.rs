//! What an RDMA device reports: completions of work requests, asynchronous events, and errors of
//! calls. Every implementation of the device trait in [`super`] returns these types.

use std::fmt;
use std::io;

use smc_proto::completion::LinkFailure;

/// Completion of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCompletion {
    /// Number that the caller gave the request (`wr_id`).
    pub number: u64,
    /// Outcome of the request.
    pub status: Status,
    /// Bytes received; of no meaning for requests other than receives.
    pub length: u32,
}

/// Outcome of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Status {
    /// The request succeeded.
    #[default]
    Success,
    /// The request was flushed without being executed, since the queue pair is in the error
    /// state.
    Flushed,
    /// The request failed, which moved the queue pair to the error state.
    Failed(LinkFailure),
}

impl Status {
    /// Converts a number of `enum ibv_wc_status`.
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

/// Asynchronous event of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// The port lost its link.
    PortDown {
        /// The port, from 1.
        port: u8,
    },
    /// The port has a link.
    PortUp {
        /// The port, from 1.
        port: u8,
    },
    /// The GIDs, LID or P_Keys of the port changed.
    PortChanged {
        /// The port, from 1.
        port: u8,
    },
    /// A queue pair, or its completion queue, entered the error state.
    QueuePairBroken {
        /// Token of the queue pair.
        token: u32,
    },
    /// The device was removed.
    Removed,
}

impl DeviceEvent {
    /// Converts a number of `enum ibv_event_type`, with the port or the token of the queue pair
    /// that the event names. `None` for events that need no reaction.
    #[must_use]
    pub const fn of(code: u32, port: u8, token: u32) -> Option<Self> {
        Some(match code {
            // 0 is an error of a completion queue, each of which serves one queue pair.
            0..=3 => Self::QueuePairBroken { token },
            8 => Self::Removed,
            9 => Self::PortUp { port },
            10 => Self::PortDown { port },
            11 | 12 | 18 => Self::PortChanged { port },
            _ => return None,
        })
    }
}

/// A failed call of a device: the operation, and the error of the operating system.
#[derive(Debug)]
pub struct RnicError {
    what: &'static str,
    cause: io::Error,
}

impl RnicError {
    /// An error of the operation `what`, as messages name it.
    #[must_use]
    pub const fn new(what: &'static str, cause: io::Error) -> Self {
        Self { what, cause }
    }

    /// Whether the cause is `ENOMEM`: the limit of locked memory (`RLIMIT_MEMLOCK`) is reached,
    /// or the system has no memory left.
    #[must_use]
    pub fn is_memory_limit(&self) -> bool {
        self.cause.raw_os_error() == Some(libc::ENOMEM)
    }

    /// The error of the operating system.
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

/// Error of posting several work requests, of which the device accepted only the first ones.
#[derive(Debug)]
pub struct PostError {
    /// Number of requests that the device accepted, from the first one.
    pub posted: usize,
    /// Why the next request was refused.
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
