//! Link groups of SMC-D in a build without the feature `smc-d`: there are none.
//!
//! [`IsmPeer`] and [`IsmBuffer`] have no values, so that the compiler drops every branch of the
//! rooms above that depends on one.

use core::hash::Hasher;

use super::buffer::Control;
use super::{Buffer, Groups};
use crate::command::BufferKind;
use crate::devices::BufferDevice;
use crate::id::{BufferIdx, ConnIdx, DeviceId, GroupIdx};
use crate::time::Duration;

/// How long a DMB is spare: there is none.
pub(super) const SPARE_DMB: Duration = Duration::ZERO;

/// The path through an ISM device to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IsmPeer {}

/// State of a buffer of SMC-D beside its memory's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IsmBuffer {}

/// What only a group of SMC-D has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SmcdGroup {}

impl SmcdGroup {
    /// The path through an ISM device.
    pub(super) const fn peer(&self) -> IsmPeer {
        match *self {}
    }

    /// The hash bucket of groups with this peer.
    pub(super) const fn bucket(&self) -> usize {
        match *self {}
    }

    /// The own device.
    pub(super) const fn device(&self) -> BufferDevice {
        match *self {}
    }

    /// Whether the peer is still to be notified of the end of the group.
    pub(super) const fn is_farewell_due(&self) -> bool {
        match *self {}
    }

    pub(super) fn fingerprint<H: Hasher>(&self, _: &mut H) {
        match *self {}
    }
}

impl IsmBuffer {
    pub(super) const fn new(_: BufferKind, ism_peer: IsmPeer) -> Self {
        match ism_peer {}
    }

    pub(super) const fn is_free(self) -> bool {
        match self {}
    }

    pub(super) fn fingerprint<H: Hasher>(self, _: &mut H) {
        match self {}
    }
}

impl Buffer {
    pub(super) const fn wanted_of_ism(&self, ism: IsmBuffer, _: bool) -> Option<Control> {
        match ism {}
    }
}

impl Groups<'_> {
    /// The peer of a group of SMC-D.
    pub(crate) const fn ism_peer_of(&self, _: GroupIdx) -> Option<IsmPeer> {
        None
    }

    /// No device is one of ISM.
    pub(crate) const fn forget_ism_device(&self, _: DeviceId) {}

    pub(super) const fn end_ism_groups_gracefully(&self, _: GroupIdx, ism_peer: IsmPeer) {
        match ism_peer {}
    }

    /// No group is of SMC-D.
    pub(super) const fn close_smcd(&self, _: GroupIdx) {}

    /// No group is of SMC-D.
    pub(super) const fn complete_last_transmit(&self, _: GroupIdx) {}

    /// No group is of SMC-D.
    pub(super) const fn leave_smcd_queue(&self, _: GroupIdx, _: ConnIdx) {}

    /// No buffer is a DMB, which has an owner.
    pub(super) const fn note_owner(&self, _: BufferIdx, _: ConnIdx) {}

    /// No buffer is one of SMC-D.
    pub(super) const fn take_back_ism(&self, _: ConnIdx, _: BufferIdx) {}
}
