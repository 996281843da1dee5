//! What only a group of SMC-D has.

use core::hash::{Hash, Hasher};

use super::super::open_transmit::IsmTransmit;
use super::super::transmit_queue::TransmitQueue;
use super::super::{GroupKind, LinkGroup};
use super::IsmPeer;
use crate::devices::BufferDevice;
use crate::id::{ConnIdx, GroupIdx};
use crate::link_group::Groups;

/// What only a group of SMC-D has: the path through an ISM device, and the slot in which one
/// connection after the other transmits over it.
#[derive(Clone, Debug)]
pub(crate) struct SmcdGroup {
    peer: IsmPeer,
    /// Connections with something to send.
    pub(crate) queue: TransmitQueue,
    /// The transmit that the device polls command by command.
    pub(crate) transmit: Option<IsmTransmit>,
    /// Whether the device has to notify the peer of the end of the group before the slot of the
    /// group is freed.
    farewell: bool,
}

impl SmcdGroup {
    pub(crate) const fn new(peer: IsmPeer) -> Self {
        Self {
            peer,
            queue: TransmitQueue::EMPTY,
            transmit: None,
            farewell: false,
        }
    }

    /// The path through an ISM device.
    #[inline(always)]
    pub(crate) const fn peer(&self) -> IsmPeer {
        self.peer
    }

    /// The hash bucket of groups with this peer.
    pub(crate) fn bucket(&self) -> usize {
        self.peer.bucket()
    }

    /// The own device, which has the buffers of the group.
    pub(crate) const fn device(&self) -> BufferDevice {
        BufferDevice::Ism(self.peer.device)
    }

    /// Sets whether the peer is to be notified of the end of the group, which follows.
    pub(super) const fn set_farewell(&mut self, farewell: bool) {
        self.farewell = farewell;
    }

    /// Whether the device is still to notify the peer of the end of the group.
    pub(crate) const fn is_farewell_due(&self) -> bool {
        self.farewell
    }

    /// Returns whether the device was still to notify the peer of the end of the group, and notes
    /// that it does so now.
    pub(super) const fn take_farewell(&mut self) -> bool {
        core::mem::replace(&mut self.farewell, false)
    }

    /// Whether no connection transmits or waits to.
    #[inline(always)]
    pub(crate) const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.transmit.is_none()
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.peer, self.farewell).hash(hasher);
        self.queue.fingerprint(hasher);
        if let Some(transmit) = &self.transmit {
            transmit.fingerprint(hasher);
        }
    }
}

impl LinkGroup {
    /// What it has as a group of SMC-D, to be changed.
    #[inline(always)]
    pub(crate) const fn smcd_mut(&mut self) -> Option<&mut SmcdGroup> {
        match &mut self.kind {
            GroupKind::SmcD(smcd) => Some(smcd),
            GroupKind::SmcR(_) => None,
        }
    }

    /// What it has as a group of SMC-D, if it is one and its connections may transmit.
    #[inline(always)]
    pub(crate) const fn open_smcd(&mut self) -> Option<&mut SmcdGroup> {
        if self.is_ending() {
            return None;
        }
        self.smcd_mut()
    }
}

impl Groups<'_> {
    /// Takes a connection off the list of those that wait to transmit, if its group is of SMC-D.
    pub(crate) fn leave_smcd_queue(&mut self, group: GroupIdx, conn: ConnIdx) {
        let group = self.data.groups.at_mut(group);
        if let Some(smcd) = group.and_then(LinkGroup::smcd_mut) {
            smcd.queue.ready.remove(&mut self.data.connections, conn);
        }
    }
}
