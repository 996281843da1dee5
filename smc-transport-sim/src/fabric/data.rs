//! WRITE and SEND on their way from one queue pair to the other.

use smc_proto::command::Segment;
use smc_proto::id::WrId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::CDC_TYPE;
use smc_proto::wire::llc::kind;
use smc_proto::wire::types::{Psn, RKey};

use super::event::Event;
use super::queue_pair::{Order, QueuePairId, QueuePairState, Request, Work};
use super::{BufferKey, Fabric, HostId, QueuePairKey, WorkOwner};
use crate::completion::Completion;
use crate::fault::Operation;
use crate::observe::{Arrival, Outcome, RdmaFlow};
use smc_proto::completion::LinkFailure;

/// What a packet takes on an Ethernet besides its payload: preamble, headers of
/// Ethernet, IPv4, UDP and the transport, both checksums and the gap.
const PACKET_OVERHEAD: u64 = 82;

impl Fabric {
    /// Posts an RDMA WRITE; its bytes are fetched now.
    #[allow(clippy::too_many_arguments)]
    pub fn post_write(
        &mut self,
        host: HostId,
        key: QueuePairKey,
        owner: WorkOwner,
        buffer: BufferKey,
        source: [Segment; 2],
        rkey: RKey,
        address: u64,
    ) {
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        if let Err(error) = self.copy_buffer(host, buffer, source, &mut payload) {
            return self.violation(host, format!("WRITE from {buffer:?}: {error:?}"));
        }
        let registered = self
            .queue_pair(host, key)
            .is_some_and(|(_, q)| q.regions.holds(buffer));
        if !registered {
            return self.violation(host, format!("WRITE from {buffer:?}, not registered"));
        }
        let work = Work::Write {
            owner,
            rkey,
            address,
        };
        self.post(host, key, Operation::Write, work, payload);
    }

    /// Posts a SEND.
    pub fn post_send(&mut self, host: HostId, key: QueuePairKey, wr_id: WrId, bytes: &[u8]) {
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(bytes);
        self.post(host, key, Operation::Send, Work::Send { wr_id }, payload);
    }

    fn post(
        &mut self,
        host: HostId,
        key: QueuePairKey,
        operation: Operation,
        work: Work,
        payload: Vec<u8>,
    ) {
        let Some(id) = self.queue_pair(host, key).map(|(id, _)| id) else {
            return self.violation(host, format!("{operation:?} on no queue pair"));
        };
        let operation = match payload.first() {
            Some(&kind) if operation == Operation::Send => send_of(kind),
            _ => operation,
        };
        let struck = self.plan.strike(host, operation, &mut self.random);
        // What strikes at a DELETE LINK strikes while a link is being deleted, and
        // what strikes at a CONFIRM RKEY while RKeys are exchanged.
        let begins = matches!(operation, Operation::SendDeleteLink | Operation::SendRkey);
        if begins {
            self.watch_posted(id, work, &payload);
        }
        self.apply(&struck, host, Some(id));
        if !begins {
            self.watch_posted(id, work, &payload);
        }
        let now = self.queue.now();
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        match queue_pair.state {
            QueuePairState::ReadyToSend => {}
            // Flushed at once; its host is notified of the broken link.
            QueuePairState::Error => return self.spare.push(payload),
            _ => return self.violation(host, format!("{operation:?} before ready to send")),
        }
        if queue_pair.outstanding.is_empty() {
            queue_pair.last_progress = now;
        }
        let (first_psn, packets) = queue_pair.take_psns(payload.len());
        let number = queue_pair.next_number;
        queue_pair.next_number += 1;
        queue_pair.outstanding.push_back(Request {
            number,
            first_psn,
            packets,
            work,
            payload,
            starts: now,
            ends: now,
            arrives: None,
        });
        self.transmit(id, number);
        self.arm_retry_timer(id);
    }

    /// Schedules a request on the lane. Without a way to the peer it is
    /// lost there and then.
    pub(super) fn transmit(&mut self, sender: QueuePairId, number: u64) {
        let now = self.queue.now();
        let lane = self.lane(sender).copied();
        let extra = self.extra_latency(sender);
        let Some(request) = self
            .queue_pairs
            .get_mut(&sender)
            .and_then(|q| q.request_mut(number))
        else {
            return;
        };
        let Some(lane) = lane else {
            (request.starts, request.ends, request.arrives) = (now, now, None);
            return;
        };
        let bytes = request.payload.len() as u64 + u64::from(request.packets) * PACKET_OVERHEAD;
        request.starts = now.max(lane.busy_until);
        request.ends = request.starts.after(lane.path.time_for(bytes));
        let latency = lane.path.latency.saturating_add(extra);
        let arrives = request.ends.after(latency).max(lane.last_arrival);
        request.arrives = Some(arrives);
        let busy_until = request.ends;
        if let Some(lane) = self.lane(sender) {
            (lane.busy_until, lane.last_arrival) = (busy_until, arrives);
        }
        self.queue
            .schedule(arrives, Event::Arrive { sender, number });
    }

    /// All packets of a request reached the peer's port.
    pub(super) fn arrive(&mut self, sender: QueuePairId, number: u64) {
        let Some(flow) = self.flow(sender) else {
            return;
        };
        let Some(queue_pair) = self.queue_pairs.get_mut(&sender) else {
            return;
        };
        let flushing = queue_pair.state == QueuePairState::Error;
        let Some(request) = queue_pair.request_mut(number) else {
            return;
        };
        request.arrives = None;
        // Taken for the time of this call, so that it can be copied into the
        // other host without a copy in between.
        let payload = std::mem::take(&mut request.payload);
        let (work, first_psn, packets, sent_at) = (
            request.work,
            request.first_psn,
            request.packets,
            request.starts,
        );

        let (outcome, receiver) = self.judge(sender, &flow, first_psn, packets, work, &payload);
        let arrival = Arrival {
            at: self.queue.now(),
            sent_at,
            flow,
            first_psn: Psn::new(first_psn),
            packets,
            payload: &payload,
            outcome,
        };
        self.observers.each(|observer| match work {
            Work::Send { .. } => observer.on_send(&arrival),
            Work::Write { rkey, address, .. } => observer.on_write(&arrival, rkey, address),
        });
        if outcome == Outcome::Refused
            && let Some(receiver) = receiver
        {
            self.fail(receiver, LinkFailure::Other, None);
        }
        if let Some(queue_pair) = self.queue_pairs.get_mut(&sender) {
            if flushing {
                queue_pair
                    .outstanding
                    .retain(|request| request.number != number);
                self.spare.push(payload);
            } else if let Some(request) = queue_pair.request_mut(number) {
                request.payload = payload;
            }
        }
        if outcome != Outcome::Dropped {
            let extra = self.extra_latency(sender);
            let latency = self
                .lane(sender)
                .map_or(Duration::ZERO, |lane| lane.path.latency)
                .saturating_add(extra);
            let answer = Event::Acknowledge {
                sender,
                number,
                outcome,
            };
            self.queue.schedule_after(latency, answer);
        }
    }

    /// What the receiving RNIC makes of a request; executes it if it may.
    fn judge(
        &mut self,
        sender: QueuePairId,
        flow: &RdmaFlow,
        first_psn: u32,
        packets: u32,
        work: Work,
        payload: &[u8],
    ) -> (Outcome, Option<QueuePairId>) {
        if !self.passes(sender) {
            return (Outcome::Dropped, None);
        }
        let Some(receiver) = self.reachable_peer(sender, flow) else {
            return (Outcome::Dropped, None);
        };
        if self.loses(receiver, first_psn, packets) {
            self.watch_lost(sender, receiver.host, work, payload);
            return (Outcome::Accepted, Some(receiver));
        }
        let Some(queue_pair) = self.queue_pairs.get_mut(&receiver) else {
            return (Outcome::Dropped, None);
        };
        let outcome = match (queue_pair.order(first_psn), work) {
            (Order::Foreign, _) => Outcome::Dropped,
            (Order::Repeated, _) => Outcome::Duplicate,
            (Order::Next, Work::Send { .. }) if queue_pair.receives == 0 => {
                self.note_not_ready(receiver);
                Outcome::ReceiverNotReady
            }
            (Order::Next, Work::Send { .. })
                if payload.len() > queue_pair.receive_size as usize =>
            {
                Outcome::Refused
            }
            (Order::Next, Work::Send { .. }) => {
                queue_pair.receives -= 1;
                queue_pair.accept(packets);
                let link = queue_pair.key;
                self.watch_arrived(receiver, payload);
                let payload = payload.to_vec();
                self.complete(receiver, Completion::Received { link, payload });
                Outcome::Accepted
            }
            (Order::Next, Work::Write { rkey, address, .. }) => {
                let memory = self
                    .hosts
                    .get_mut(usize::from(receiver.host.0))
                    .map(|h| &mut h.memory);
                let regions = &queue_pair.regions;
                if memory.is_some_and(|memory| regions.write(memory, rkey, address, payload)) {
                    queue_pair.accept(packets);
                    Outcome::Accepted
                } else {
                    Outcome::Refused
                }
            }
        };
        (outcome, Some(receiver))
    }

    /// Whether a queue pair acknowledges this request and throws it away.
    fn loses(&mut self, receiver: QueuePairId, first_psn: u32, packets: u32) -> bool {
        let now = self.queue.now();
        let phase = self.phase_of(receiver);
        let Some(queue_pair) = self.queue_pairs.get_mut(&receiver) else {
            return false;
        };
        if !queue_pair.losing.is_on(now) || !matches!(queue_pair.order(first_psn), Order::Next) {
            return false;
        }
        queue_pair.accept(packets);
        if let Some(fault) = queue_pair.losing.hit(now) {
            self.plan.note(fault, phase);
        }
        true
    }
}

/// The operation that posting a message of this type is.
const fn send_of(message: u8) -> Operation {
    if message == CDC_TYPE {
        return Operation::Send;
    }
    // What a type of version 2 has more than one of version 1.
    match message & !0x20 {
        kind::DELETE_LINK => Operation::SendDeleteLink,
        kind::CONFIRM_RKEY | kind::CONFIRM_RKEY_CONTINUATION | kind::DELETE_RKEY => {
            Operation::SendRkey
        }
        kind::TEST_LINK => Operation::SendTestLink,
        _ => Operation::SendLlc,
    }
}
