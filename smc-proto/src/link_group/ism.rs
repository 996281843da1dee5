//! Link groups of SMC-D: one path through an ISM device, and the buffers used over it.
//!
//! There are no links, no LLC and no keys. The group has a transmit slot of its own
//! ([`SmcdGroup`]), and is on its device's list while it has anything to transmit. The commands are
//! [`IsmCommand`](crate::command::IsmCommand)s:
//!
//! ```text
//!  DMB          Absent ──Register──► Present ──► in use ──► ended by both: Clear ─► spare
//!                                       ▲                   otherwise: Unregister
//!  send buffer  Absent ──Alloc──► Present ──Attach──► in use ──Detach──► spare
//!               (mapped: Attach alone makes it, Detach ends it)
//! ```

mod answers;
mod buffers;
mod ending;
mod events;
mod group;
mod matching;
mod work;

pub(crate) use answers::IsmFollowUp;
pub(crate) use buffers::{IsmBuffer, PeerDmb, SPARE_DMB, owner_of};
pub(crate) use events::Answer;
pub(crate) use group::SmcdGroup;

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
