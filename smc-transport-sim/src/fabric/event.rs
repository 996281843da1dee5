//! What a fabric schedules, and the loop that makes it happen.

use smc_proto::time::Instant;

use super::queue_pair::QueuePairId;
use super::{Fabric, HostId};
use crate::completion::FabricCompletion;
use crate::fault::{Ends, FaultAction};
use crate::observe::Outcome;
use crate::tcp::TcpEvent;

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// All packets of a request reach the peer's port.
    Arrive { sender: QueuePairId, number: u64 },
    /// The peer's answer reaches the sender.
    Acknowledge {
        sender: QueuePairId,
        number: u64,
        outcome: Outcome,
    },
    /// The sender may have waited too long.
    RetryTimer { sender: QueuePairId },
    /// The pause after a peer that was not ready is over.
    ReceiverMayBeReady { sender: QueuePairId },
    /// A completion becomes visible.
    Complete {
        host: HostId,
        completion: FabricCompletion,
    },
    /// The host posts receives again.
    ReceivesReturn { host: HostId },
    /// A fault whose time has come.
    Fault { index: usize },
    /// A TCP segment arrives.
    Tcp(TcpEvent),
}

impl Fabric {
    /// When something happens next.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.queue.next_time()
    }

    /// Makes everything happen that happens until `limit`, which becomes the
    /// present. Stops early, at the time of the event, once a host has something
    /// to react to, so that it reacts in time; call again after it did.
    /// Returns whether `limit` was reached.
    pub fn run_until(&mut self, limit: Instant) -> bool {
        while let Some(event) = self.queue.take_until(limit) {
            self.happen(event);
            if self.wants_attention() {
                return false;
            }
        }
        self.queue.advance_to(limit);
        true
    }

    /// Makes the next event happen, if there is one.
    pub fn step(&mut self) -> bool {
        let event = self.queue.take_until(Instant::MAX);
        event.map(|event| self.happen(event)).is_some()
    }

    /// Whether a host has completions or TCP notices to take.
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        let waiting = |host: &super::Host| !host.completions.is_empty() || !host.notices.is_empty();
        self.hosts.iter().any(waiting)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { sender, number } => self.arrive(sender, number),
            Event::Acknowledge {
                sender,
                number,
                outcome,
            } => self.acknowledged(sender, number, outcome),
            Event::RetryTimer { sender } => self.retry_timer(sender),
            Event::ReceiverMayBeReady { sender } => self.resend(sender),
            Event::Complete { host, completion } => self.complete_now(host, completion),
            Event::ReceivesReturn { host } => self.post_receives(host),
            Event::Fault { index } => self.timed_fault(index),
            Event::Tcp(event) => self.tcp_arrive(event),
        }
    }

    pub(super) fn complete_now(&mut self, host: HostId, completion: FabricCompletion) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.completions.push_back(completion);
        }
    }

    fn timed_fault(&mut self, index: usize) {
        let Some(&fault) = self.plan.faults().get(index) else {
            return;
        };
        let hosts: Vec<_> = self
            .hosts()
            .filter(|host| fault.host.is_none_or(|h| h == *host))
            .collect();
        for host in hosts {
            match fault.action {
                FaultAction::FailLink {
                    device,
                    ends,
                    cause,
                } => {
                    let ids: Vec<_> = self
                        .queue_pairs
                        .range(QueuePairId::all_of(host))
                        .map(|(id, _)| *id)
                        .collect();
                    for id in ids {
                        self.break_link(id, device, ends, cause);
                    }
                }
                FaultAction::WithholdReceives(time) => self.withhold_receives(host, time),
                FaultAction::TcpReset => self.tcp_reset_all(host),
                FaultAction::TcpSplit(split) => self.tcp.set_split(host, split),
                FaultAction::Refuse | FaultAction::Delay(_) => {}
            }
        }
    }

    /// Applies the faults that struck work on a queue pair.
    pub(super) fn strike_link(&mut self, id: QueuePairId, actions: &[FaultAction]) {
        for action in actions {
            match *action {
                FaultAction::FailLink {
                    device,
                    ends,
                    cause,
                } => self.break_link(id, device, ends, cause),
                FaultAction::WithholdReceives(time) => self.withhold_receives(id.host, time),
                FaultAction::TcpReset => self.tcp_reset_all(id.host),
                FaultAction::TcpSplit(split) => self.tcp.set_split(id.host, split),
                FaultAction::Refuse | FaultAction::Delay(_) => {}
            }
        }
    }

    fn break_link(
        &mut self,
        id: QueuePairId,
        device: Option<smc_proto::id::DeviceId>,
        ends: Ends,
        cause: smc_proto::completion::LinkFailure,
    ) {
        let Some(queue_pair) = self.queue_pairs.get(&id) else {
            return;
        };
        if device.is_some_and(|only| only != queue_pair.device) || queue_pair.peer.is_none() {
            return;
        }
        let far = self.peer_of(id);
        if ends != Ends::Far {
            self.fail(id, cause, None);
        }
        if let (Ends::Far | Ends::Both, Some(far)) = (ends, far) {
            self.fail(far, cause, None);
        }
    }
}
