//! Link groups of SMC-D in a build without the feature `smc-d`: there are none.
//!
//! [`IsmPeer`] and [`IsmBuffer`] have no values, so that the compiler drops every branch of the
//! rooms above that depends on one.

use core::hash::Hasher;

use super::buffer::{Control, Registrable};
use super::{Buffer, Groups, QpState};
use crate::command::BufferKind;
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

/// What carries a link's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Lower {
    /// A queue pair of an RNIC.
    QueuePair,
}

impl Lower {
    /// The state that a link has as soon as it is shut: its queue pair goes by commands for its
    /// RNIC.
    pub(super) const fn state_when_shut(self) -> Option<QpState> {
        match self {
            Self::QueuePair => None,
        }
    }
}

impl IsmPeer {
    pub(super) const fn bucket(&self) -> usize {
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
    pub(super) fn wanted_of_ism(
        &self,
        ism: IsmBuffer,
        _: impl FnOnce() -> Registrable,
    ) -> Option<Control> {
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

    /// No buffer is a DMB, which has an owner.
    pub(super) const fn note_owner(&self, _: BufferIdx, _: ConnIdx) {}

    /// No buffer is one of SMC-D.
    pub(super) const fn take_back_ism(&self, _: ConnIdx, _: BufferIdx) {}
}
