//! Objects that events are about.

use core::fmt;

use crate::id::{BufferId, ConnId, DeviceId, GroupId, Idx, LinkId};

/// Object that an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// The endpoint itself.
    Endpoint,
    /// An RNIC or an ISM device.
    Device(DeviceId),
    /// A connection.
    Conn(ConnId),
    /// A link group.
    Group(GroupId),
    /// A link.
    Link(LinkId),
    /// An RMB, a send buffer or a DMB.
    Buffer(BufferId),
}

impl Subject {
    /// Type, index and generation.
    pub(super) const fn parts(self) -> (u8, u32, u32) {
        match self {
            Self::Endpoint => (0, 0, 0),
            Self::Device(id) => (1, id.0 as u32, 0),
            Self::Conn(id) => (2, id.index.get(), id.generation),
            Self::Group(id) => (3, id.index.get(), id.generation),
            Self::Link(id) => (4, id.index.get(), id.generation),
            Self::Buffer(id) => (5, id.index.get(), id.generation),
        }
    }

    /// The subject of these parts; `None` if there is no such type or device.
    pub(super) fn from_parts(of: u8, index: u32, generation: u32) -> Option<Self> {
        Some(match of {
            0 => Self::Endpoint,
            1 => Self::Device(DeviceId(u8::try_from(index).ok()?)),
            2 => Self::Conn(ConnId {
                index: Idx::new(index),
                generation,
            }),
            3 => Self::Group(GroupId {
                index: Idx::new(index),
                generation,
            }),
            4 => Self::Link(LinkId {
                index: Idx::new(index),
                generation,
            }),
            5 => Self::Buffer(BufferId {
                index: Idx::new(index),
                generation,
            }),
            _ => return None,
        })
    }

    /// Name of the type.
    #[must_use]
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Device(_) => "device",
            Self::Conn(_) => "conn",
            Self::Group(_) => "group",
            Self::Link(_) => "link",
            Self::Buffer(_) => "buffer",
        }
    }

    /// Position of the object in its table and generation of the slot: zeros for the
    /// endpoint, the number of a device.
    #[must_use]
    pub const fn index_and_generation(self) -> (u32, u32) {
        let (_, index, generation) = self.parts();
        (index, generation)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint => f.write_str("endpoint"),
            Self::Device(id) => write!(f, "device{}", id.0),
            Self::Conn(id) => id.fmt(f),
            Self::Group(id) => id.fmt(f),
            Self::Link(id) => id.fmt(f),
            Self::Buffer(id) => id.fmt(f),
        }
    }
}

impl From<ConnId> for Subject {
    fn from(id: ConnId) -> Self {
        Self::Conn(id)
    }
}

impl From<GroupId> for Subject {
    fn from(id: GroupId) -> Self {
        Self::Group(id)
    }
}

impl From<LinkId> for Subject {
    fn from(id: LinkId) -> Self {
        Self::Link(id)
    }
}

impl From<BufferId> for Subject {
    fn from(id: BufferId) -> Self {
        Self::Buffer(id)
    }
}

impl From<DeviceId> for Subject {
    fn from(id: DeviceId) -> Self {
        Self::Device(id)
    }
}
