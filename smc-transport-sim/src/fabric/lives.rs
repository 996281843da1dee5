//! Lives of links, as far as an oracle must know them.

use smc_proto::time::Instant;
use smc_proto::wire::llc::{DeleteLink, DeleteLinkFlags};
use smc_proto::wire::types::LinkNumber;

use super::HostId;
use super::queue_pair::QueuePairId;
use super::watch::{FabricGroup, Watch};

/// The life of a link, as its RNICs saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkRecord {
    /// Group of the link.
    pub group: FabricGroup,
    /// Hosts of its ends.
    pub hosts: [HostId; 2],
    /// When both ends were ready to send.
    pub up: Instant,
    /// When a fault first harmed it so that it may end.
    pub harmed: Option<Instant>,
    /// When one of its ends was first stopped by its host.
    pub stopped: Option<Instant>,
    /// Number of the link, once it was confirmed.
    pub number: Option<LinkNumber>,
    /// When its first CONFIRM LINK was answered: from then on both ends use it.
    pub confirmed: Option<Instant>,
    /// When its end in order was announced, though nothing was wrong with it,
    /// while another link was in use.
    pub retired: Option<Instant>,
}

impl LinkRecord {
    /// A link whose ends just became ready.
    pub(super) const fn new(group: FabricGroup, hosts: [HostId; 2], up: Instant) -> Self {
        Self {
            group,
            hosts,
            up,
            harmed: None,
            stopped: None,
            number: None,
            confirmed: None,
            retired: None,
        }
    }

    /// Whether both ends used it when `begin` came, it was not harmed, and no side
    /// announced its end before `end` was over. That an end stopped it meanwhile
    /// for no such reason is no excuse.
    #[must_use]
    pub fn carries(&self, begin: Instant, end: Instant) -> bool {
        let after = |at: Option<Instant>, time| at.is_none_or(|at| at > time);
        self.confirmed.is_some_and(|at| at <= begin)
            && after(self.stopped, begin)
            && after(self.harmed, end)
            && after(self.retired, end)
    }
}

impl Watch {
    /// The CONFIRM LINK of a link was answered.
    pub(super) fn confirmed(&mut self, id: QueuePairId, number: LinkNumber, now: Instant) {
        let record = self.link_of.get(&id).copied();
        if let Some(record) = record.and_then(|record| self.links.get_mut(record)) {
            record.number = Some(number);
            record.confirmed.get_or_insert(now);
        }
    }

    /// A DELETE LINK was posted. One in order takes a link out that works, which is
    /// right as long as there is another one.
    pub(super) fn deleted(&mut self, id: QueuePairId, delete: &DeleteLink, now: Instant) {
        let Some(&group) = self.group_of.get(&id) else {
            return;
        };
        if delete.reply || !delete.flags.contains(DeleteLinkFlags::ORDERLY) {
            return;
        }
        let mine = |link: &LinkRecord| link.group.0 == group;
        let named = |link: &LinkRecord| mine(link) && link.number == Some(delete.link);
        let in_use = |link: &LinkRecord| {
            link.confirmed.is_some() && link.stopped.is_none() && link.retired.is_none()
        };
        let others = self.links.iter().any(|l| mine(l) && !named(l) && in_use(l));
        if !others {
            return;
        }
        for link in self.links.iter_mut().filter(|l| named(l) && in_use(l)) {
            link.retired = Some(now);
        }
    }
}
