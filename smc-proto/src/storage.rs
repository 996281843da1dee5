//! Memory for the engine's objects: statics, borrowed slices or boxes.

pub use crate::connection_record::ConnectionRecord;
pub use crate::link_group::{Buffer, Link, LinkGroup, RemoteRmb};
pub use crate::rendezvous::Handshake;
#[cfg(feature = "rations")]
pub use crate::slots::Ration;
pub use crate::slots::{Pool, PoolHead, Slot};
#[cfg(feature = "trace")]
use crate::trace::Observer;
use crate::trace::Tap;

/// Provides the tables of an endpoint. Implement it for memory of another kind,
/// always returning the same tables; [`Fixed`] and `Owned` (feature `alloc`) serve
/// most uses.
pub trait Storage {
    /// The tables, for the duration of one call.
    fn tables(&mut self) -> Tables<'_>;

    /// The tables, and who observes what is done with them during the call.
    #[cfg(feature = "trace")]
    #[inline]
    fn observed(&mut self) -> (Tables<'_>, Option<&mut dyn Observer>) {
        (self.tables(), None)
    }
}

/// The tables of a call, and where its events go.
#[inline(always)]
pub(crate) fn for_call<S: Storage>(storage: &mut S) -> (Tables<'_>, Tap<'_>) {
    #[cfg(feature = "trace")]
    {
        let (tables, observer) = storage.observed();
        (tables, Tap::new(observer))
    }
    #[cfg(not(feature = "trace"))]
    {
        (storage.tables(), Tap::OFF)
    }
}

/// All tables of an endpoint. A full table makes a new connection fail or fall
/// back; nothing else.
#[derive(Debug)]
pub struct Tables<'a> {
    /// Connections, from their rendezvous to their last event.
    pub connections: Pool<'a, ConnectionRecord>,
    /// Connections in rendezvous.
    pub handshakes: Pool<'a, Handshake>,
    /// Link groups.
    pub groups: Pool<'a, LinkGroup>,
    /// Links, two per group while a group is formed.
    pub links: Pool<'a, Link>,
    /// RMBs and send buffers: two per connection with one element per RMB.
    pub buffers: Pool<'a, Buffer>,
    /// RMBs of the peers.
    pub remote_rmbs: Pool<'a, RemoteRmb>,
}

/// Tables inside the value: for statics and stacks without an allocator.
///
/// `C` connections, `H` of them in rendezvous at once, `G` link groups, `L`
/// links, `B` buffers, `R` RMBs of peers. For each connection plan two buffers
/// and one RMB of the peer, for each group two links.
#[derive(Clone, Debug)]
pub struct Fixed<
    const C: usize,
    const H: usize,
    const G: usize,
    const L: usize,
    const B: usize,
    const R: usize,
> {
    heads: [PoolHead; 6],
    connections: [Slot<ConnectionRecord>; C],
    handshakes: [Slot<Handshake>; H],
    groups: [Slot<LinkGroup>; G],
    links: [Slot<Link>; L],
    buffers: [Slot<Buffer>; B],
    remote_rmbs: [Slot<RemoteRmb>; R],
}

impl<const C: usize, const H: usize, const G: usize, const L: usize, const B: usize, const R: usize>
    Fixed<C, H, G, L, B, R>
{
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            heads: [PoolHead::EMPTY; 6],
            connections: [const { Slot::EMPTY }; C],
            handshakes: [const { Slot::EMPTY }; H],
            groups: [const { Slot::EMPTY }; G],
            links: [const { Slot::EMPTY }; L],
            buffers: [const { Slot::EMPTY }; B],
            remote_rmbs: [const { Slot::EMPTY }; R],
        }
    }
}

impl<const C: usize, const H: usize, const G: usize, const L: usize, const B: usize, const R: usize>
    Default for Fixed<C, H, G, L, B, R>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const C: usize, const H: usize, const G: usize, const L: usize, const B: usize, const R: usize>
    Storage for Fixed<C, H, G, L, B, R>
{
    #[inline]
    fn tables(&mut self) -> Tables<'_> {
        let [connections, handshakes, groups, links, buffers, remote_rmbs] = &mut self.heads;
        Tables {
            connections: Pool::new(connections, &mut self.connections),
            handshakes: Pool::new(handshakes, &mut self.handshakes),
            groups: Pool::new(groups, &mut self.groups),
            links: Pool::new(links, &mut self.links),
            buffers: Pool::new(buffers, &mut self.buffers),
            remote_rmbs: Pool::new(remote_rmbs, &mut self.remote_rmbs),
        }
    }
}

#[cfg(all(feature = "alloc", feature = "rations"))]
pub use owned::Table;
#[cfg(feature = "alloc")]
pub use owned::{Limits, Owned};

#[cfg(feature = "alloc")]
mod owned {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use super::*;

    /// How many objects an endpoint may have.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Limits {
        /// Connections.
        pub connections: usize,
        /// Connections in rendezvous at once.
        pub handshakes: usize,
        /// Link groups.
        pub groups: usize,
        /// Links.
        pub links: usize,
        /// Buffers: RMBs and send buffers.
        pub buffers: usize,
        /// RMBs of peers.
        pub remote_rmbs: usize,
    }

    impl Limits {
        /// Limits for `connections` connections, all of which may go to
        /// different peers or to one.
        #[must_use]
        pub fn for_connections(connections: usize) -> Self {
            let spare = connections.saturating_add(8);
            Self {
                connections: spare,
                handshakes: spare.min(1024),
                groups: spare.min(1024),
                links: spare.saturating_mul(2).min(2048),
                buffers: spare.saturating_mul(2),
                remote_rmbs: spare.saturating_mul(2),
            }
        }
    }

    /// Tables in boxes, allocated once.
    #[derive(Clone, Debug)]
    pub struct Owned {
        heads: [PoolHead; 6],
        connections: Box<[Slot<ConnectionRecord>]>,
        handshakes: Box<[Slot<Handshake>]>,
        groups: Box<[Slot<LinkGroup>]>,
        links: Box<[Slot<Link>]>,
        buffers: Box<[Slot<Buffer>]>,
        remote_rmbs: Box<[Slot<RemoteRmb>]>,
    }

    fn empty<T>(length: usize) -> Box<[Slot<T>]> {
        let mut slots = Vec::with_capacity(length);
        slots.resize_with(length, || Slot::EMPTY);
        slots.into_boxed_slice()
    }

    impl Owned {
        /// Empty tables of these sizes.
        #[must_use]
        pub fn new(limits: Limits) -> Self {
            Self {
                heads: [PoolHead::EMPTY; 6],
                connections: empty(limits.connections),
                handshakes: empty(limits.handshakes),
                groups: empty(limits.groups),
                links: empty(limits.links),
                buffers: empty(limits.buffers),
                remote_rmbs: empty(limits.remote_rmbs),
            }
        }
    }

    /// A table, for tests that count its requests and have some refused.
    #[cfg(feature = "rations")]
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Table {
        /// Connections.
        Connections,
        /// Connections in rendezvous.
        Handshakes,
        /// Link groups.
        Groups,
        /// Links.
        Links,
        /// Buffers.
        Buffers,
        /// RMBs of peers.
        RemoteRmbs,
    }

    #[cfg(feature = "rations")]
    impl Owned {
        /// The bookkeeping of a table.
        pub const fn head(&mut self, table: Table) -> &mut PoolHead {
            let [connections, handshakes, groups, links, buffers, remote_rmbs] = &mut self.heads;
            match table {
                Table::Connections => connections,
                Table::Handshakes => handshakes,
                Table::Groups => groups,
                Table::Links => links,
                Table::Buffers => buffers,
                Table::RemoteRmbs => remote_rmbs,
            }
        }
    }

    impl Storage for Owned {
        #[inline]
        fn tables(&mut self) -> Tables<'_> {
            let [connections, handshakes, groups, links, buffers, remote_rmbs] = &mut self.heads;
            Tables {
                connections: Pool::new(connections, &mut self.connections),
                handshakes: Pool::new(handshakes, &mut self.handshakes),
                groups: Pool::new(groups, &mut self.groups),
                links: Pool::new(links, &mut self.links),
                buffers: Pool::new(buffers, &mut self.buffers),
                remote_rmbs: Pool::new(remote_rmbs, &mut self.remote_rmbs),
            }
        }
    }
}
