//! Events of RNICs that are reported to a host, and what happens to the host as a whole.

use smc_proto::id::DeviceId;
use smc_proto::time::Duration;

use super::{Fabric, HostId, PortConfig};

/// Something that happened to a host other than a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum HostEvent {
    /// A port lost its carrier.
    PortDown {
        /// The RNIC.
        device: DeviceId,
        /// Port of the RNIC.
        port: u8,
    },
    /// A port has its carrier again.
    PortUp(PortConfig),
    /// An RNIC is gone.
    DeviceRemoved {
        /// The RNIC.
        device: DeviceId,
    },
    /// The host crashed and starts again with nothing.
    Restarted,
    /// The host's clock is to jump forward.
    ClockJumps {
        /// Number of the fault in its plan.
        fault: usize,
        /// How far.
        by: Duration,
    },
    /// The host's clock is to stand still.
    ClockFreezes {
        /// Number of the fault in its plan.
        fault: usize,
        /// How long.
        time: Duration,
    },
    /// The host's timers are to fire late.
    TimersLate {
        /// Number of the fault in its plan.
        fault: usize,
        /// How late.
        by: Duration,
        /// How long.
        time: Duration,
    },
}

impl Fabric {
    /// Takes the next event of a host.
    pub fn next_host_event(&mut self, host: HostId) -> Option<HostEvent> {
        self.hosts
            .get_mut(usize::from(host.0))?
            .host_events
            .pop_front()
    }

    pub(super) fn report(&mut self, host: HostId, event: HostEvent) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.host_events.push_back(event);
        }
    }
}
