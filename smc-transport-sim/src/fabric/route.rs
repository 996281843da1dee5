//! Who reaches whom.

use smc_proto::time::Instant;

use super::queue_pair::{Peer, QueuePair, QueuePairId};
use super::{Fabric, HostId, Lane, QueuePairKey};
use crate::observe::{RdmaEnd, RdmaFlow};

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
        Some(self.lanes.entry(ends).or_insert(Lane {
            path,
            busy_until: Instant::ZERO,
        }))
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
        let heard = self.ports.get(queue_pair.port)?.sends
            && self.ports.get(target.port)?.receives
            && Some(target.port) == queue_pair.peer?.port
            && target.can_receive()
            && (bound.qpn, bound.gid) == (flow.source.qpn, flow.source.gid);
        heard.then_some(receiver)
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
