//! Handles. Each is an index into a table and the generation of that slot, so
//! that a handle kept too long names nothing instead of another object.

use core::fmt;

/// An index that names nothing.
pub(crate) const NONE: u32 = u32::MAX;

macro_rules! handle {
    ($($(#[$meta:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            pub(crate) index: u32,
            pub(crate) generation: u32,
        }
        impl $name {
            /// Position of the object in its table, below the table's capacity:
            /// an embedder may keep its own data in an array of the same size.
            #[must_use]
            pub const fn index(self) -> u32 {
                self.index
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
    ConnId "conn";
    /// A link group.
    GroupId "group";
    /// A link: one queue pair of this side, bound to one RNIC.
    LinkId "link";
    /// A registered buffer: an RMB or a send buffer.
    BufferId "buffer";
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
