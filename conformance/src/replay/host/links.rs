//! The queue pairs of our end.

use std::collections::BTreeMap;

use smc_proto::command::QpAddress;
use smc_proto::id::{DeviceId, LinkId};
use smc_proto::wire::types::{Gid, LinkNumber, Mac, Mtu, Psn, Qpn};

/// A queue pair, from its making until it is destroyed or taken down.
#[derive(Clone, Debug)]
pub(in crate::replay) struct QueuePair {
    pub(super) device: DeviceId,
    pub(super) qpn: Qpn,
    /// What it is bound to, and the link of the capture whose end that is.
    pub(in crate::replay) bound: Option<(QpAddress, Mtu)>,
    pub(super) number: Option<LinkNumber>,
    /// First packet number that a message announced, and of the queue pair.
    pub(super) announced_psn: Option<Psn>,
    pub(super) psn: Option<Psn>,
    /// Whether it takes and delivers messages still.
    pub(super) up: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct QueuePairs {
    all: BTreeMap<LinkId, QueuePair>,
}

impl QueuePairs {
    pub(super) fn create(&mut self, link: LinkId, device: DeviceId, qpn: Qpn) {
        let pair = QueuePair {
            device,
            qpn,
            bound: None,
            number: None,
            announced_psn: None,
            psn: None,
            up: true,
        };
        self.all.insert(link, pair);
    }

    pub(super) fn get(&mut self, link: LinkId) -> Result<&mut QueuePair, String> {
        self.all
            .get_mut(&link)
            .ok_or_else(|| format!("{link:?} has no queue pair"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &QueuePair)> {
        self.all.iter().map(|(link, pair)| (*link, pair))
    }

    /// The queue pair that stands for our end of a link of the capture, until it is
    /// taken down.
    pub(super) fn carrier(&self, number: LinkNumber) -> Option<LinkId> {
        self.iter()
            .find(|(_, pair)| pair.up && pair.number == Some(number))
            .map(|(link, _)| link)
    }

    /// The queue pair that a message of ours names.
    pub(super) fn named(&mut self, qpn: Qpn) -> Result<&mut QueuePair, String> {
        self.all
            .values_mut()
            .find(|pair| pair.up && pair.qpn == qpn)
            .ok_or_else(|| format!("{qpn} is no queue pair of ours"))
    }
}

impl QueuePair {
    /// Whether the other end of the link is what a message of the peer named.
    pub(in crate::replay) fn leads_to(
        &self,
        (qpn, psn): (Qpn, Psn),
        (gid, mac): (Gid, Mac),
        mtu: Mtu,
    ) -> bool {
        let peer = QpAddress::new(qpn, psn, gid, mac);
        self.bound == Some((peer, mtu))
    }
}
