//! Which hosts reach each other.

use smc_proto::time::Duration;

use super::queue_pair::{Peer, QueuePair, QueuePairId};
use super::{Fabric, HostId, Lane, QueuePairKey};
use crate::fault::Phase;
use crate::observe::{RdmaEnd, RdmaFlow};

/// A port, and the queue pair on it if it is still there.
type PortUser = (usize, Option<QueuePairId>);

impl Fabric {
    /// The lane from a queue pair's port to its peer's port.
    pub(super) fn lane(&mut self, sender: QueuePairId) -> Option<&mut Lane> {
        let queue_pair = self.queue_pairs.get(&sender)?;
        let ends = (queue_pair.port, queue_pair.peer?.port?);
        let (from, to) = (self.ports.get(ends.0)?, self.ports.get(ends.1)?);
        if from.config.subnet != to.config.subnet {
            return None;
        }
        let path = self.config.path;
        Some(self.lanes.entry(ends).or_insert(Lane::new(path)))
    }

    /// The queue pair that a sender's packets reach and that listens to it.
    pub(super) fn reachable_peer(
        &self,
        sender: QueuePairId,
        flow: &RdmaFlow,
    ) -> Option<QueuePairId> {
        let queue_pair = self.queue_pairs.get(&sender)?;
        let receiver = self.peer_of(sender)?;
        let target = self.queue_pairs.get(&receiver)?;
        let bound = target.peer?.address;
        let accepted = Some(target.port) == queue_pair.peer?.port
            && target.can_receive()
            && (bound.qpn, bound.gid) == (flow.source.qpn, flow.source.gid);
        accepted.then_some(receiver)
    }

    /// Whether a packet gets from a queue pair's port to its peer's port.
    pub(super) fn passes(&mut self, sender: QueuePairId) -> bool {
        let Some((near, far)) = self.both_ends(sender) else {
            return false;
        };
        self.passes_from(near, far)
    }

    /// Whether the answer to a packet gets back.
    pub(super) fn passes_back(&mut self, sender: QueuePairId) -> bool {
        let Some((near, far)) = self.both_ends(sender) else {
            return false;
        };
        self.passes_from(far, near)
    }

    /// The ports of a queue pair and its peer, and those two.
    fn both_ends(&self, id: QueuePairId) -> Option<(PortUser, PortUser)> {
        let queue_pair = self.queue_pairs.get(&id)?;
        let far = queue_pair.peer?.port?;
        Some(((queue_pair.port, Some(id)), (far, self.peer_of(id))))
    }

    /// Whether a packet gets from one port to another. What swallowed it is
    /// noted, once for each fault.
    fn passes_from(&mut self, from: PortUser, to: PortUser) -> bool {
        let now = self.queue.now();
        let ((from, sender), (to, receiver)) = (from, to);
        let user = |id: Option<QueuePairId>| id.and_then(|id| self.queue_pairs.get(&id));
        let sent = self.ports.get(from).is_some_and(|p| p.passes_sent(now));
        let received = self.ports.get(to).is_some_and(|p| p.passes_received(now));
        let lost_sent = user(sender).is_some_and(|q| q.lost_sent.is_on(now));
        let lost_received = user(receiver).is_some_and(|q| q.lost_received.is_on(now));
        if sent && received && !lost_sent && !lost_received {
            return true;
        }
        let phase = sender
            .or(receiver)
            .map_or(Phase::Idle, |id| self.phase_of(id));
        if !sent {
            self.note_lost_packet(from, true, phase);
        } else if !received {
            self.note_lost_packet(to, false, phase);
        }
        let mut hit = |id: Option<QueuePairId>, sent: bool| {
            let queue_pair = self.queue_pairs.get_mut(&id?)?;
            if sent {
                queue_pair.lost_sent.hit(now)
            } else {
                queue_pair.lost_received.hit(now)
            }
        };
        for fault in [hit(sender, true), hit(receiver, false)]
            .into_iter()
            .flatten()
        {
            self.plan.note(fault, phase);
        }
        false
    }

    /// How much longer the wire between a queue pair and its peer takes now; what
    /// slows it is noted.
    pub(super) fn extra_latency(&mut self, sender: QueuePairId) -> Duration {
        let now = self.queue.now();
        let Some(queue_pair) = self.queue_pairs.get(&sender) else {
            return Duration::ZERO;
        };
        let ends = [Some(queue_pair.port), queue_pair.peer.and_then(|p| p.port)];
        let mut extra = Duration::ZERO;
        for port in ends.into_iter().flatten() {
            let hit = self.ports.get_mut(port).and_then(|port| {
                extra = extra.saturating_add(port.extra_latency(now));
                port.slow.hit(now)
            });
            if let Some(fault) = hit {
                let phase = self.phase_of(sender);
                self.plan.note(fault, phase);
            }
        }
        extra
    }

    /// The queue pair that a queue pair was connected to, if it exists.
    pub(super) fn peer_of(&self, id: QueuePairId) -> Option<QueuePairId> {
        let peer: Peer = self.queue_pairs.get(&id)?.peer?;
        let host = self.ports.get(peer.port?)?.host;
        let qpn = peer.address.qpn;
        let peer = QueuePairId { host, qpn };
        self.queue_pairs.contains_key(&peer).then_some(peer)
    }

    /// Addresses of a queue pair and its peer.
    pub(super) fn flow(&self, id: QueuePairId) -> Option<RdmaFlow> {
        let queue_pair = self.queue_pairs.get(&id)?;
        let port = &self.ports.get(queue_pair.port)?.config;
        let peer = queue_pair.peer?;
        let host = peer.port.and_then(|port| Some(self.ports.get(port)?.host));
        Some(RdmaFlow {
            source: RdmaEnd {
                host: Some(id.host),
                gid: port.gid,
                mac: port.mac,
                qpn: id.qpn,
            },
            destination: RdmaEnd {
                host,
                gid: peer.address.gid,
                mac: peer.address.mac,
                qpn: peer.address.qpn,
            },
            mtu: peer.mtu,
        })
    }

    pub(super) fn queue_pair(
        &self,
        host: HostId,
        key: QueuePairKey,
    ) -> Option<(QueuePairId, &QueuePair)> {
        let id = *self.hosts.get(usize::from(host.0))?.queue_pairs.get(&key)?;
        Some((id, self.queue_pairs.get(&id)?))
    }
}
