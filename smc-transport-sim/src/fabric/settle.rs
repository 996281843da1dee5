//! How work ends: acknowledged, sent again, or flushed with its queue pair.

use smc_proto::completion::LinkFailure;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::{Cdc, ProducerFlags};
use smc_proto::wire::types::Psn;

use super::event::Event;
use super::queue_pair::{QueuePairId, QueuePairState, Work};
use super::watch::TOLERATED_DELAY;
use super::{Fabric, HostId, WorkOwner};
use crate::completion::{Completion, FabricCompletion};
use crate::fault::{FaultAction, Operation};
use crate::observe::{Acknowledgement, Outcome, RdmaFlow};

impl Fabric {
    /// The peer's answer reached the sender.
    pub(super) fn acknowledged(&mut self, sender: QueuePairId, number: u64, outcome: Outcome) {
        let Some(flow) = self.flow(sender) else {
            return;
        };
        // The way back: from the peer's port to this one, or from where the peer
        // was, if it is gone by now.
        if !self.passes_back(sender) {
            return;
        }
        let Some(queue_pair) = self.queue_pairs.get_mut(&sender) else {
            return;
        };
        let Some(request) = queue_pair.request_mut(number) else {
            return;
        };
        let work = request.work;
        let acknowledgement = Acknowledgement {
            at: self.queue.now(),
            flow: RdmaFlow {
                source: flow.destination,
                destination: flow.source,
                mtu: flow.mtu,
            },
            psn: Psn::new(request.first_psn.wrapping_add(request.packets - 1)),
            outcome,
            of_write: matches!(work, Work::Write { .. }),
        };
        self.observers
            .each(|observer| observer.on_ack(&acknowledgement));
        match outcome {
            Outcome::Accepted | Outcome::Duplicate => self.retire(sender, number + 1),
            Outcome::ReceiverNotReady => {
                self.retire(sender, number);
                self.receiver_not_ready(sender);
            }
            Outcome::Refused => {
                self.retire(sender, number);
                match work {
                    Work::Write { owner, .. } => {
                        self.fail(sender, LinkFailure::RemoteAccess, Some(owner));
                    }
                    Work::Send { .. } => {
                        self.fail(sender, LinkFailure::Other, None);
                    }
                }
            }
            Outcome::Dropped => {}
        }
    }

    /// Completes all work of a queue pair with a number below `end`.
    fn retire(&mut self, sender: QueuePairId, end: u64) {
        let now = self.queue.now();
        while let Some(queue_pair) = self.queue_pairs.get_mut(&sender) {
            let done = queue_pair
                .outstanding
                .front()
                .is_some_and(|request| request.number < end);
            let Some(request) = done.then(|| queue_pair.outstanding.pop_front()).flatten() else {
                if queue_pair.outstanding.is_empty()
                    && let Some(timer) = queue_pair.retry_timer.take()
                {
                    self.queue.cancel(timer);
                }
                return;
            };
            queue_pair.last_progress = now;
            (queue_pair.retries, queue_pair.not_ready) = (0, 0);
            self.spare.push(request.payload);
            if let Work::Send { wr_id } = request.work {
                let link = queue_pair.key;
                self.complete(sender, Completion::Sent { link, wr_id });
            }
        }
    }

    fn receiver_not_ready(&mut self, sender: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&sender) else {
            return;
        };
        if queue_pair.not_ready >= self.config.receiver_not_ready_count {
            self.fail(sender, LinkFailure::ReceiverNotReady, None);
            return;
        }
        queue_pair.not_ready += 1;
        if let Some(timer) = queue_pair.retry_timer.take() {
            self.queue.cancel(timer);
        }
        let pause = self.config.receiver_not_ready_delay;
        self.queue
            .schedule_after(pause, Event::ReceiverMayBeReady { sender });
    }

    /// Sends everything outstanding again, from the oldest on.
    pub(super) fn resend(&mut self, sender: QueuePairId) {
        let now = self.queue.now();
        let Some(queue_pair) = self.queue_pairs.get_mut(&sender) else {
            return;
        };
        if queue_pair.state != QueuePairState::ReadyToSend {
            return;
        }
        queue_pair.last_progress = now;
        let numbers: Vec<_> = queue_pair
            .outstanding
            .iter()
            .map(|request| request.number)
            .collect();
        for number in numbers {
            self.transmit(sender, number);
        }
        self.arm_retry_timer(sender);
    }

    /// Starts the retry timer unless it runs or nothing is outstanding.
    pub(super) fn arm_retry_timer(&mut self, sender: QueuePairId) {
        let Some(deadline) = self.retry_deadline(sender) else {
            return;
        };
        if let Some(queue_pair) = self.queue_pairs.get_mut(&sender)
            && queue_pair.retry_timer.is_none()
        {
            let timer = self.queue.schedule(deadline, Event::RetryTimer { sender });
            queue_pair.retry_timer = Some(timer);
        }
    }

    fn retry_deadline(&self, sender: QueuePairId) -> Option<Instant> {
        let queue_pair = self.queue_pairs.get(&sender)?;
        let oldest = queue_pair.outstanding.front()?;
        let latency = || {
            let lane = (queue_pair.port, queue_pair.peer?.port?);
            Some(self.lanes.get(&lane)?.path.latency)
        };
        let round_trip = latency().unwrap_or(Duration::ZERO).saturating_mul(2);
        let timeout = self.config.retry_timeout.saturating_add(round_trip);
        Some(queue_pair.last_progress.max(oldest.ends).after(timeout))
    }

    pub(super) fn retry_timer(&mut self, sender: QueuePairId) {
        let deadline = self.retry_deadline(sender);
        let Some(queue_pair) = self.queue_pairs.get_mut(&sender) else {
            return;
        };
        queue_pair.retry_timer = None;
        match deadline {
            None => {}
            Some(deadline) if deadline > self.queue.now() => self.arm_retry_timer(sender),
            Some(_) if queue_pair.retries >= self.config.retry_count => {
                self.fail(sender, LinkFailure::RetriesExhausted, None);
            }
            Some(_) => {
                queue_pair.retries += 1;
                self.resend(sender);
            }
        }
    }

    /// Breaks a queue pair and reports it, once; false if it was broken before.
    pub(super) fn fail(
        &mut self,
        id: QueuePairId,
        cause: LinkFailure,
        owner: Option<WorkOwner>,
    ) -> bool {
        let Some(queue_pair) = self.queue_pairs.get(&id) else {
            return false;
        };
        if queue_pair.state == QueuePairState::Error {
            return false;
        }
        let link = queue_pair.key;
        self.harm_link(id);
        self.watch_stopped(id);
        self.flush(id);
        let conn = owner;
        self.complete(id, Completion::LinkFailed { link, cause, conn });
        true
    }

    /// Moves a queue pair to the error state. What is on the wire still arrives
    /// there; all else is dropped. Returns when the last of it has arrived.
    pub(super) fn flush(&mut self, id: QueuePairId) -> Instant {
        let now = self.queue.now();
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return now;
        };
        queue_pair.state = QueuePairState::Error;
        queue_pair.receives = 0;
        if let Some(timer) = queue_pair.retry_timer.take() {
            self.queue.cancel(timer);
        }
        queue_pair
            .outstanding
            .retain(|request| request.arrives.is_some() && request.starts <= now);
        let arrivals = queue_pair
            .outstanding
            .iter()
            .filter_map(|request| request.arrives);
        arrivals.max().unwrap_or(now)
    }

    /// Whether a queue pair does not report what it sent.
    fn swallows(&mut self, id: QueuePairId) -> bool {
        let now = self.queue.now();
        let phase = self.phase_of(id);
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return false;
        };
        if !queue_pair.unreported.is_on(now) {
            return false;
        }
        if let Some(fault) = queue_pair.unreported.hit(now) {
            self.plan.note(fault, phase);
        }
        self.harm_link(id);
        true
    }

    /// Until when the host of a queue pair holds completions back.
    fn held_until(&mut self, id: QueuePairId) -> Instant {
        let now = self.queue.now();
        let phase = self.phase_of(id);
        let Some(host) = self.hosts.get_mut(usize::from(id.host.0)) else {
            return now;
        };
        if !host.held.is_on(now) {
            return now;
        }
        if let Some(fault) = host.held.hit_in(now, phase) {
            self.plan.note(fault, phase);
        }
        host.held.until()
    }

    /// When everything that a host's queue pairs have to report now is out.
    ///
    /// A failover validation judges what arrived on another link, so an adapter
    /// reports that first, whatever completion queue it waits in.
    fn all_reported(&self, host: HostId) -> Instant {
        self.queue_pairs
            .iter()
            .filter(|(id, _)| id.host == host)
            .map(|(_, queue_pair)| queue_pair.completions_not_before)
            .max()
            .unwrap_or(Instant::ZERO)
    }

    /// Reports something of the data path, behind all reported before.
    pub(super) fn complete(&mut self, id: QueuePairId, completion: FabricCompletion) {
        let now = self.queue.now();
        let mut at = now;
        if matches!(completion, Completion::Sent { .. }) {
            let struck = self.plan.strike(id.host, Operation::Sent, &mut self.random);
            for (fault, action) in &struck {
                if let FaultAction::Delay(time) = *action {
                    at = at.after(time);
                    self.plan.note(*fault, self.phase_of(id));
                    if time >= TOLERATED_DELAY {
                        self.harm_host(id.host, time);
                    }
                }
            }
            self.apply(&struck, id.host, Some(id));
            if self.swallows(id) {
                return;
            }
        }
        at = at.max(self.held_until(id));
        if is_validation(&completion) {
            at = at.max(self.all_reported(id.host));
        }
        let mut held_back = at > now;
        if let Some(queue_pair) = self.queue_pairs.get_mut(&id) {
            // Also when equal: what is held back until now may not be out yet.
            held_back |= queue_pair.completions_not_before >= now;
            if held_back {
                at = at.max(queue_pair.completions_not_before);
                queue_pair.completions_not_before = at;
            }
        }
        let host = id.host;
        if held_back {
            self.complete_at(at, host, completion);
        } else {
            self.complete_now(host, completion);
        }
    }
}

/// Whether a failover validation arrived.
fn is_validation(completion: &FabricCompletion) -> bool {
    let Completion::Received { payload, .. } = completion else {
        return false;
    };
    Cdc::parse(payload).is_ok_and(|cdc| {
        cdc.producer_flags
            .contains(ProducerFlags::FAILOVER_VALIDATION)
    })
}
