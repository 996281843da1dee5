//! What a fabric schedules, and the loop that makes it happen.

use smc_proto::completion::IsmCompletion;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use super::queue_pair::QueuePairId;
use super::{Fabric, HostId};
use crate::completion::FabricCompletion;
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
        /// Of the host, when it was scheduled.
        life: u32,
        completion: FabricCompletion,
    },
    /// The answer of an ISM device becomes visible.
    IsmReport {
        host: HostId,
        /// Of the host, when it was scheduled.
        life: u32,
        report: IsmCompletion,
    },
    /// What peers did to an ISM device is reported.
    IsmDelivers { host: HostId, device: DeviceId },
    /// The host posts receives again.
    ReceivesReturn { host: HostId },
    /// A fault whose time has come.
    Fault { index: usize },
    /// A port may have its carrier again.
    PortReturns { port: usize },
    /// A port that flaps loses its carrier again.
    PortFlaps {
        fault: usize,
        port: usize,
        left: u16,
        period: Duration,
    },
    /// What a queue pair was to lose is lost.
    LosingEnds { id: QueuePairId },
    /// Something may go on that was held up.
    Wake,
    /// A TCP segment arrives.
    Tcp(TcpEvent),
}

impl Fabric {
    /// Something happens after so long, for what is built on the fabric and waits.
    pub fn wake_after(&mut self, time: Duration) {
        self.queue.schedule_after(time, Event::Wake);
    }

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
        let waiting = |host: &super::Host| {
            !host.completions.is_empty() || !host.notices.is_empty() || !host.host_events.is_empty()
        };
        self.hosts.iter().any(waiting) || self.ism.wants_attention()
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
            Event::Complete {
                host,
                life,
                completion,
            } => {
                let now_living = self.hosts.get(usize::from(host.0)).map(|host| host.life);
                if now_living == Some(life) {
                    self.complete_now(host, completion);
                }
            }
            Event::IsmReport { host, life, report } => self.ism_reported(host, life, report),
            Event::IsmDelivers { host, device } => self.ism_deliver(host, device),
            Event::ReceivesReturn { host } => self.post_receives(host),
            Event::Fault { index } => self.timed_fault(index),
            Event::PortReturns { port } => self.port_returns(port),
            Event::PortFlaps {
                fault,
                port,
                left,
                period,
            } => self.port_flaps(fault, port, left, period),
            Event::LosingEnds { id } => self.losing_ends(id),
            Event::Wake => {}
            Event::Tcp(event) => self.tcp_arrive(event),
        }
    }

    pub(super) fn complete_now(&mut self, host: HostId, completion: FabricCompletion) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.completions.push_back(completion);
        }
    }

    /// Schedules a completion, for the present instance of the host only.
    pub(super) fn complete_at(&mut self, at: Instant, host: HostId, completion: FabricCompletion) {
        let life = self.hosts.get(usize::from(host.0)).map_or(0, |h| h.life);
        let event = Event::Complete {
            host,
            life,
            completion,
        };
        self.queue.schedule(at, event);
    }
}
