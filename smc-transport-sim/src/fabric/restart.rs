//! A host that crashes and comes back with nothing but its addresses.

use smc_proto::time::Duration;

use super::event::Event;
use super::queue_pair::QueuePairId;
use super::{Fabric, HostEvent, HostId};
use crate::fault::TcpFate;

impl Fabric {
    /// Whether a host crashed and is not back yet.
    #[must_use]
    pub fn is_away(&self, host: HostId) -> bool {
        let now = self.queue.now();
        let state = self.hosts.get(usize::from(host.0));
        state.is_some_and(|state| state.down_until > now)
    }

    /// Everything the host had is gone, and its peers are not notified: their
    /// RNICs find no queue pair any more, their TCP finds out as `tcp` decides.
    pub(super) fn restart(&mut self, fault: usize, host: HostId, down: Duration, tcp: TcpFate) {
        let phase = self.phase_of_host(host);
        let ids: Vec<_> = self
            .queue_pairs
            .range(QueuePairId::all_of(host))
            .map(|(id, _)| *id)
            .collect();
        let mut hit = !ids.is_empty();
        for id in ids {
            self.harm_link(id);
            self.watch_stopped(id);
            self.queue_pairs.remove(&id);
        }
        let until = self.queue.now().after(down);
        if let Some(state) = self.hosts.get_mut(usize::from(host.0)) {
            state.memory = Default::default();
            state.queue_pairs.clear();
            state.completions.clear();
            state.notices.clear();
            state.host_events.clear();
            state.names = Default::default();
            // What is scheduled for the old instance finds another life.
            state.life += 1;
            state.down_until = until;
        }
        self.ism_crashed(host);
        hit |= self.tcp_crash(host, down, tcp);
        self.queue.schedule(until, Event::Wake);
        self.report(host, HostEvent::Restarted);
        self.harm_host(host, down);
        if hit {
            self.plan.note(fault, phase);
        }
    }
}
