//! The queue pairs of our end.

use smc_proto::command::QpAddress;
use smc_proto::id::LinkId;
use smc_proto::wire::types::{Gid, LinkNumber, Mac, Mtu, Psn, Qpn};

use super::Host;
use crate::rig::nic;

/// What a queue pair is in the capture.
#[derive(Clone, Debug, Default)]
pub(in crate::replay) struct Captured {
    /// The link of the capture whose end it is bound to.
    pub(super) number: Option<LinkNumber>,
    /// First packet number that a message announced.
    pub(super) announced_psn: Option<Psn>,
    /// The queue pair takes and delivers no messages any more.
    pub(super) down: bool,
}

/// A queue pair, from its making until it is destroyed or taken down.
pub(in crate::replay) type QueuePair = nic::QueuePair<Captured>;

impl Host {
    pub(super) fn pair(&mut self, link: LinkId) -> Result<&mut QueuePair, String> {
        let missing = || format!("{link:?} has no queue pair");
        self.nic.qp_mut(link).ok_or_else(missing)
    }

    /// All queue pairs that there ever were.
    pub(in crate::replay) fn pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.nic.qps().chain(&self.gone)
    }

    /// The queue pair that stands for our end of a link of the capture, until it is
    /// taken down.
    pub(in crate::replay) fn carrier(&self, number: LinkNumber) -> Option<LinkId> {
        let mut up = self.nic.qps().filter(|pair| !pair.work.down);
        let found = up.find(|pair| pair.work.number == Some(number));
        found.map(|pair| pair.link)
    }

    /// The queue pair that a message of ours names.
    pub(super) fn named(&mut self, qpn: Qpn) -> Result<&mut QueuePair, String> {
        let mut up = self.nic.qps_mut().filter(|pair| !pair.work.down);
        up.find(|pair| pair.qpn == qpn)
            .ok_or_else(|| format!("{qpn} is no queue pair of ours"))
    }

    /// Whether no queue pair is bound any more.
    pub(in crate::replay) fn is_cut_off(&self) -> bool {
        let mut pairs = self.nic.qps();
        !pairs.any(|pair| !pair.work.down && pair.bound.is_some())
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
        self.bound
            .is_some_and(|bound| (bound.peer, bound.mtu) == (peer, mtu))
    }
}
