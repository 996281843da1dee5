//! One number for the state of a fabric. Times count from now, so that two
//! runs that reach the same state at different times agree.

use std::hash::{Hash, Hasher};

use smc_proto::time::Instant;

use super::Fabric;
use super::event::Event;
use super::queue_pair::QueuePair;

impl Fabric {
    /// Hashes everything that the future depends on, and nothing else. Work
    /// request numbers and past times are left out.
    pub fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        let now = self.queue.now();
        self.config.hash(hasher);
        self.random.hash(hasher);
        self.plan.hash(hasher);
        for host in &self.hosts {
            host.memory.fingerprint(hasher);
            host.completions.hash(hasher);
            host.notices.hash(hasher);
            host.host_events.hash(hasher);
            (host.few_receives, host.down_until.since(now)).hash(hasher);
            for span in [&host.withheld, &host.few, &host.busy, &host.held] {
                span.fingerprint(now, hasher);
            }
        }
        self.ism.fingerprint(hasher, now);
        for port in &self.ports {
            (port.config, port.sends, port.receives).hash(hasher);
            (port.slow_by, port.reported_down).hash(hasher);
            for span in [
                &port.down,
                &port.gone,
                &port.lost_sent,
                &port.lost_received,
                &port.slow,
            ] {
                span.fingerprint(now, hasher);
            }
        }
        for (ends, lane) in &self.lanes {
            (ends, lane.path, lane.busy_until.since(now)).hash(hasher);
            lane.last_arrival.since(now).hash(hasher);
        }
        for (id, queue_pair) in &self.queue_pairs {
            id.hash(hasher);
            queue_pair.fingerprint(now, hasher);
        }
        self.tcp.fingerprint(now, hasher);
        for (away, event) in self.queue.upcoming() {
            away.hash(hasher);
            self.fingerprint_event(event, hasher);
        }
    }

    fn fingerprint_event<H: Hasher>(&self, event: &Event, hasher: &mut H) {
        std::mem::discriminant(event).hash(hasher);
        match event {
            Event::Arrive { sender, number } => {
                (sender, self.relative(*sender, *number)).hash(hasher);
            }
            Event::Acknowledge {
                sender,
                number,
                outcome,
            } => (sender, self.relative(*sender, *number), outcome).hash(hasher),
            Event::RetryTimer { sender } | Event::ReceiverMayBeReady { sender } => {
                sender.hash(hasher);
            }
            Event::Complete {
                host,
                life,
                completion,
            } => {
                let now_living = self.hosts.get(usize::from(host.0)).map(|host| host.life);
                (host, now_living == Some(*life), completion).hash(hasher);
            }
            Event::IsmReport { host, life, report } => {
                let now_living = self.hosts.get(usize::from(host.0)).map(|host| host.life);
                (host, now_living == Some(*life), report).hash(hasher);
            }
            Event::IsmDelivers { host, device } => (host, device).hash(hasher),
            Event::ReceivesReturn { host } => host.hash(hasher),
            Event::Fault { index } => index.hash(hasher),
            Event::PortReturns { port } => port.hash(hasher),
            Event::PortFlaps {
                fault,
                port,
                left,
                period,
            } => (fault, port, left, period).hash(hasher),
            Event::LosingEnds { id } => id.hash(hasher),
            Event::Wake => {}
            Event::Tcp(event) => {
                (event.tcp, event.to, &event.item).hash(hasher);
            }
        }
    }

    /// A work request number as a distance from the next one.
    fn relative(&self, sender: super::queue_pair::QueuePairId, number: u64) -> Option<u64> {
        Some(
            self.queue_pairs
                .get(&sender)?
                .next_number
                .wrapping_sub(number),
        )
    }
}

impl QueuePair {
    fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (
            self.key,
            self.device,
            self.port,
            self.receive_size,
            self.state,
        )
            .hash(hasher);
        (self.peer, &self.regions, self.next_psn, self.expected_psn).hash(hasher);
        (self.receives, self.retries, self.not_ready).hash(hasher);
        // Matters only while the retry timer may use it.
        if !self.outstanding.is_empty() {
            now.since(self.last_progress).hash(hasher);
        }
        self.completions_not_before.since(now).hash(hasher);
        for span in [
            &self.lost_sent,
            &self.lost_received,
            &self.losing,
            &self.unreported,
        ] {
            span.fingerprint(now, hasher);
        }
        for request in &self.outstanding {
            (self.next_number - request.number).hash(hasher);
            (
                request.first_psn,
                request.packets,
                request.work,
                &request.payload,
            )
                .hash(hasher);
            (request.starts.since(now), request.ends.since(now)).hash(hasher);
            request.arrives.map(|at| at.since(now)).hash(hasher);
        }
    }
}

impl crate::tcp::Tcp {
    fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        self.hash_splits(hasher);
        for connection in &self.connections {
            connection.option.hash(hasher);
            for end in [&connection.client, &connection.server] {
                (end.host, end.latency, end.unread()).hash(hasher);
                (end.established, end.fin_sent, end.fin_received, end.reset).hash(hasher);
                end.last_arrival.since(now).hash(hasher);
            }
        }
    }
}
