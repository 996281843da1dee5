//! Receives that a host keeps posted, fails to post, or posts too few of.

use smc_proto::time::Duration;

use super::event::Event;
use super::fault_span::FaultSpan;
use super::queue_pair::{QueuePairId, QueuePairState};
use super::{Fabric, HostId};

/// How long a host that has few receives takes to post one again: longer than a
/// burst, shorter than the pause of a sender that got a not-ready answer.
const REPOST: Duration = Duration::from_micros(100);

impl Fabric {
    /// How many receives a host keeps posted on each queue pair now.
    pub(super) fn receives_of(&self, host: HostId) -> u32 {
        let now = self.queue.now();
        let all = self.config.receives;
        self.hosts
            .get(usize::from(host.0))
            .map_or(all, |state| match () {
                () if state.withheld.is_on(now) => 0,
                () if state.few.is_on(now) => state.few_receives.min(all),
                () => all,
            })
    }

    /// Takes all posted receives away for a while.
    pub(super) fn withhold_receives(&mut self, fault: usize, host: HostId, time: Duration) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.withheld = span;
        }
        self.limit_receives(host, time);
    }

    /// Leaves only a few receives posted for a while.
    pub(super) fn few_receives(
        &mut self,
        fault: usize,
        host: HostId,
        receives: u32,
        time: Duration,
    ) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            (host.few, host.few_receives) = (span, receives);
        }
        self.limit_receives(host, time);
    }

    /// A receive was used: posts it again, at once or, where there are few, a
    /// little later.
    pub(super) fn post_receive(&mut self, id: QueuePairId) {
        let now = self.queue.now();
        let host = id.host;
        let state = self.hosts.get(usize::from(host.0));
        if state.is_some_and(|state| state.few.is_on(now)) {
            self.queue
                .schedule_after(REPOST, Event::ReceivesReturn { host });
            return;
        }
        let most = self.receives_of(host);
        if let Some(queue_pair) = self.queue_pairs.get_mut(&id)
            && queue_pair.can_receive()
        {
            queue_pair.receives = (queue_pair.receives + 1).min(most);
        }
    }

    fn limit_receives(&mut self, host: HostId, time: Duration) {
        let most = self.receives_of(host);
        for (_, queue_pair) in self.queue_pairs.range_mut(QueuePairId::all_of(host)) {
            queue_pair.receives = queue_pair.receives.min(most);
        }
        if time < Duration::MAX {
            self.queue
                .schedule_after(time, Event::ReceivesReturn { host });
        }
    }

    /// Posts as many receives of a host as it may have.
    pub(super) fn post_receives(&mut self, host: HostId) {
        let all = self.receives_of(host);
        for (_, queue_pair) in self.queue_pairs.range_mut(QueuePairId::all_of(host)) {
            if queue_pair.state != QueuePairState::Error {
                queue_pair.receives = all;
            }
        }
    }

    /// A SEND met no receive: notes which fault took it away.
    pub(super) fn note_not_ready(&mut self, receiver: QueuePairId) {
        let now = self.queue.now();
        let phase = self.phase_of(receiver);
        let Some(host) = self.hosts.get_mut(usize::from(receiver.host.0)) else {
            return;
        };
        for fault in [host.withheld.hit(now), host.few.hit(now)]
            .into_iter()
            .flatten()
        {
            self.plan.note(fault, phase);
        }
    }
}
