//! Events on their way from engines to their embedders.

use smc_proto::event::Event;
use smc_proto::storage::Storage;
use smc_proto::time::Instant;

use super::{Host, HostId, Simulation};
use crate::fabric::Fabric;

impl<S: Storage> Simulation<S> {
    /// How many events a host's embedder took from its engine.
    #[must_use]
    pub fn events(&self, host: HostId) -> u64 {
        let host = self.hosts.get(usize::from(host.0));
        host.map_or(0, |host| host.events)
    }
}

impl<S: Storage> Host<S> {
    /// The next event, if the host has room for one.
    pub(super) fn next_event(&mut self, at: Instant, fabric: &mut Fabric) -> Option<Event> {
        if self.full_until > at {
            return None;
        }
        let event = self.endpoint.poll_event()?;
        self.events += 1;
        if let Some(full) = &self.policy.full
            && full.after.contains(&self.events)
        {
            self.full_until = at.after(full.time);
            fabric.wake_after(full.time);
        }
        Some(event)
    }
}
