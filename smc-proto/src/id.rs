//! Handles. Each is an index into a table and the generation of that slot, so
//! that a handle kept too long names nothing instead of another object.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use crate::connection_record::ConnectionRecord;
use crate::link_group::{Buffer, Link, LinkGroup, RemoteRmb};
use crate::rendezvous::Handshake;

/// Position of an object in the table of its type: an index of one table cannot be used
/// for another.
#[repr(transparent)]
pub(crate) struct Idx<T>(u32, PhantomData<fn(T)>);

/// Position of a connection.
pub(crate) type ConnIdx = Idx<ConnectionRecord>;
/// Position of the rendezvous of a connection.
pub(crate) type HandshakeIdx = Idx<Handshake>;
/// Position of a link group.
pub(crate) type GroupIdx = Idx<LinkGroup>;
/// Position of a link.
pub(crate) type LinkIdx = Idx<Link>;
/// Position of an RMB or a send buffer of this side.
pub(crate) type BufferIdx = Idx<Buffer>;
/// Position of an RMB of a peer.
pub(crate) type RemoteRmbIdx = Idx<RemoteRmb>;

impl<T> Idx<T> {
    /// An index that names nothing.
    pub(crate) const NONE: Self = Self::new(u32::MAX);

    #[inline(always)]
    pub(crate) const fn new(position: u32) -> Self {
        Self(position, PhantomData)
    }

    /// The position as a number.
    #[inline(always)]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// Whether the index names nothing.
    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Whether the index may name an object.
    #[inline(always)]
    pub(crate) const fn is_some(self) -> bool {
        !self.is_none()
    }
}

// Not derived: that would ask the same of `T`.
impl<T> Clone for Idx<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Idx<T> {}

impl<T> PartialEq for Idx<T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Idx<T> {}

impl<T> PartialOrd for Idx<T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Idx<T> {
    #[inline]
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Idx<T> {
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl<T> fmt::Debug for Idx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<T> fmt::Display for Idx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

macro_rules! handle {
    ($($(#[$meta:meta])* $name:ident $index:ident $prefix:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            pub(crate) index: $index,
            pub(crate) generation: u32,
        }
        impl $name {
            /// Position of the object in its table, below the table's capacity:
            /// an embedder may keep its own data in an array of the same size.
            #[must_use]
            pub const fn index(self) -> u32 {
                self.index.get()
            }
            /// Which use of the slot this is; changes each time the slot is freed.
            #[must_use]
            pub const fn generation(self) -> u32 {
                self.generation
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}.{}"), self.index, self.generation)
            }
        }
    )*};
}

handle! {
    /// A connection, from its rendezvous to its last event.
    ConnId ConnIdx "conn";
    /// A link group.
    GroupId GroupIdx "group";
    /// A link: one queue pair of this side, bound to one RNIC.
    LinkId LinkIdx "link";
    /// A registered buffer: an RMB or a send buffer.
    BufferId BufferIdx "buffer";
}

/// An RNIC or ISM device of this host, numbered together by the embedder from 0 to
/// [`MAX_DEVICES`](crate::config::MAX_DEVICES) - 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub u8);

/// A LAN (with its VLAN, if any) that RNIC ports are attached to, numbered by the
/// embedder: ports with the same number reach the same peers, so that they can
/// serve the links of one group (LINK-037). With PNET ids: one number per id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct LanId(pub u16);

/// Number of a SEND work request, counted per link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WrId(pub u32);
