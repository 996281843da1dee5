//! Link groups of SMC-D: one path through an ISM device, and the buffers used over it.
//!
//! There are no links, no LLC and no keys. One entry in the table of links stands for
//! the path, so that lists, transmit slots and the end are those of SMC-R; no event names it as
//! a link. What the world is asked for is an
//! [`IsmCommand`](crate::command::IsmCommand):
//!
//! ```text
//!  DMB          Absent ──Register──► Present ──► in use ──► ended by both: Clear ─► spare
//!                                       ▲                   otherwise: Unregister
//!  send buffer  Absent ──Alloc──► Present ──Attach──► in use ──Detach──► spare
//!               (mapped: Attach alone makes it, Detach ends it)
//! ```

mod answers;
mod buffers;
mod events;
mod matching;
mod work;

pub(crate) use answers::IsmFollowUp;
pub(crate) use buffers::{IsmBuffer, PeerDmb, SPARE_DMB, owner_of};
pub(crate) use events::Answer;

use super::QpState;
use crate::config::MAX_DEVICES;
use crate::id::DeviceId;
use crate::wire::types::IsmGid;

/// The path through an ISM device to a peer: the key of a group of SMC-D.
//= D-034
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct IsmPeer {
    /// The own device.
    pub(crate) device: DeviceId,
    /// The peer's device, on this side's channel.
    pub(crate) peer: IsmGid,
    /// VLAN that DMBs are registered for.
    pub(crate) vlan: Option<u16>,
    /// Whether this side's device maps DMBs of the peer.
    pub(crate) maps: bool,
}

/// Whether two GIDs are those of the same device; not every report names the channel.
pub(crate) const fn same_device(a: IsmGid, b: IsmGid) -> bool {
    a.gid == b.gid && a.gid_ext == b.gid_ext
}

/// What carries a link's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Lower {
    /// A queue pair of an RNIC.
    QueuePair,
    /// An ISM device.
    Ism {
        /// Whether the peer has to be notified that the group ended.
        farewell: bool,
    },
}

impl Lower {
    /// The state that a link has as soon as it is shut: none with a queue pair, which goes by
    /// commands for its RNIC.
    pub(super) const fn state_when_shut(self) -> Option<QpState> {
        match self {
            Self::QueuePair => None,
            Self::Ism { farewell: true } => Some(QpState::Drained),
            Self::Ism { farewell: false } => Some(QpState::Absent),
        }
    }
}

/// The place of an ISM device among the lists of work: behind those of RNICs, so that
/// asking one for the other's commands finds nothing.
pub(crate) const fn ism_slot(device: DeviceId) -> DeviceId {
    DeviceId(device.0.wrapping_add(MAX_DEVICES as u8))
}
