//! Memory for the engine's objects: statics, borrowed slices or the heap.

pub use crate::connection_record::ConnectionRecord;
pub use crate::link_group::{Buffer, Link, LinkGroup, RemoteRmb};
#[cfg(feature = "allocation-failures")]
#[allow(deprecated)]
pub use crate::renamed::Ration;
pub use crate::rendezvous::Handshake;
#[cfg(feature = "allocation-failures")]
pub use crate::slots::AllocationFailure;
pub use crate::slots::{Pool, PoolHead, Slot, View};
#[cfg(feature = "trace")]
use crate::trace::Observer;
use crate::trace::Tap;

/// Provides the tables of an endpoint. Implement it for memory of another kind,
/// always returning the same tables; [`Fixed`] and `Owned` (feature `alloc`) serve
/// most uses.
pub trait Storage {
    /// The tables, for the duration of one call.
    fn tables(&mut self) -> Tables<'_>;

    /// The tables that [`tables`](Self::tables) returns, for a query.
    fn views(&self) -> Views<'_>;

    /// The tables, and the observer of what is done with them during the call.
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
    /// Links, two per group of SMC-R while that is formed. A group of SMC-D has none.
    pub links: Pool<'a, Link>,
    /// RMBs and send buffers: two per connection with one element per RMB.
    pub buffers: Pool<'a, Buffer>,
    /// RMBs of the peers.
    pub remote_rmbs: Pool<'a, RemoteRmb>,
}

/// All tables of an endpoint, for a query.
#[derive(Debug)]
pub struct Views<'a> {
    /// Connections.
    pub connections: View<'a, ConnectionRecord>,
    /// Connections in rendezvous.
    pub handshakes: View<'a, Handshake>,
    /// Link groups.
    pub groups: View<'a, LinkGroup>,
    /// Links.
    pub links: View<'a, Link>,
    /// RMBs and send buffers.
    pub buffers: View<'a, Buffer>,
    /// RMBs of the peers.
    pub remote_rmbs: View<'a, RemoteRmb>,
}

/// Tables inside the value: for statics and stacks without an allocator.
///
/// `C` connections, `H` of them in rendezvous at once, `G` link groups, `L`
/// links, `B` buffers, `R` RMBs of peers. For each connection plan two buffers
/// and one RMB of the peer, for each group of SMC-R two links.
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

    #[inline]
    fn views(&self) -> Views<'_> {
        let [connections, handshakes, groups, links, buffers, remote_rmbs] = &self.heads;
        Views {
            connections: View::new(connections, &self.connections),
            handshakes: View::new(handshakes, &self.handshakes),
            groups: View::new(groups, &self.groups),
            links: View::new(links, &self.links),
            buffers: View::new(buffers, &self.buffers),
            remote_rmbs: View::new(remote_rmbs, &self.remote_rmbs),
        }
    }
}

#[cfg(all(feature = "alloc", feature = "allocation-failures"))]
pub use owned::Table;
#[cfg(feature = "alloc")]
pub use owned::{Limits, Owned};

#[cfg(feature = "alloc")]
mod owned {
    use alloc::vec::Vec;

    use super::*;

    /// How many objects an endpoint may have.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
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
        /// Limits in the order of the parameters of [`Fixed`].
        #[must_use]
        pub const fn new(
            connections: usize,
            handshakes: usize,
            groups: usize,
            links: usize,
            buffers: usize,
            remote_rmbs: usize,
        ) -> Self {
            Self {
                connections,
                handshakes,
                groups,
                links,
                buffers,
                remote_rmbs,
            }
        }

        /// Limits for `connections` connections, all of which may go to
        /// different peers or to one. There are two buffers for each, and as many further ones, 256
        /// at most, for spare DMBs of SMC-D, which take no place that a connection could need.
        #[must_use]
        pub fn for_connections(connections: usize) -> Self {
            let spare = connections.saturating_add(8);
            Self {
                connections: spare,
                handshakes: spare.min(1024),
                groups: spare.min(1024),
                links: spare.saturating_mul(2).min(2048),
                buffers: spare.saturating_mul(2).saturating_add(spare.min(256)),
                remote_rmbs: spare.saturating_mul(2),
            }
        }
    }

    /// Tables on the heap. Address space for all objects is reserved at the beginning; slots are
    /// made, and their memory is touched, as connections come. A clone reserves nothing ahead: it
    /// allocates when it grows.
    #[derive(Clone, Debug)]
    pub struct Owned {
        heads: [PoolHead; 6],
        connections: Growing<ConnectionRecord>,
        handshakes: Growing<Handshake>,
        groups: Growing<LinkGroup>,
        links: Growing<Link>,
        buffers: Growing<Buffer>,
        remote_rmbs: Growing<RemoteRmb>,
        /// [`Self::in_use`] when slots were made last.
        seen_in_use: usize,
    }

    /// Slots of one table.
    #[derive(Clone, Debug)]
    struct Growing<T> {
        /// Slots made so far.
        slots: Vec<Slot<T>>,
        /// Most slots.
        capacity: usize,
    }

    /// Slots are made so many at a time.
    const STEP: usize = 64;

    impl<T> Growing<T> {
        fn new(capacity: usize) -> Self {
            Self {
                slots: Vec::with_capacity(capacity),
                capacity,
            }
        }

        #[inline]
        fn pool<'a>(&'a mut self, head: &'a mut PoolHead) -> Pool<'a, T> {
            Pool::growing(head, &mut self.slots, self.capacity)
        }

        /// Makes slots until `free` of them are not in use, or all there may be.
        fn provide(&mut self, head: &PoolHead, free: usize) {
            let wanted = head.used().saturating_add(free).min(self.capacity);
            if self.slots.len() < wanted {
                let rounded = wanted.next_multiple_of(STEP).min(self.capacity);
                self.slots.resize_with(rounded, || Slot::EMPTY);
            }
        }
    }

    impl Owned {
        /// Empty tables of these sizes.
        #[must_use]
        pub fn new(limits: Limits) -> Self {
            let mut tables = Self {
                heads: [PoolHead::EMPTY; 6],
                connections: Growing::new(limits.connections),
                handshakes: Growing::new(limits.handshakes),
                groups: Growing::new(limits.groups),
                links: Growing::new(limits.links),
                buffers: Growing::new(limits.buffers),
                remote_rmbs: Growing::new(limits.remote_rmbs),
                seen_in_use: 0,
            };
            tables.provide();
            tables
        }

        /// A number that changes with the use of those tables that grow with what peers do.
        #[inline]
        fn in_use(&self) -> usize {
            let [connections, _, _, links, _, remote_rmbs] = &self.heads;
            let of_peers = links.used().wrapping_add(remote_rmbs.used());
            connections.used().wrapping_add(of_peers)
        }

        /// Makes slots for what the next calls may need at most: one connection each; a group with
        /// its links, two buffers and an RMB of the peer for each rendezvous under way; and
        /// one link for each group.
        #[cold]
        #[inline(never)]
        fn provide(&mut self) {
            self.seen_in_use = self.in_use();
            let [connections, handshakes, groups, links, buffers, remote_rmbs] = &self.heads;
            let spare = handshakes.used().saturating_add(STEP / 2);
            let of_groups = groups.used().saturating_add(spare);
            self.connections.provide(connections, STEP / 2);
            self.handshakes.provide(handshakes, STEP / 2);
            self.groups.provide(groups, spare);
            self.links.provide(links, of_groups.saturating_mul(2));
            self.buffers.provide(buffers, spare.saturating_mul(2));
            self.remote_rmbs.provide(remote_rmbs, spare);
        }
    }

    /// A table, for tests that count its requests and have some refused.
    #[cfg(feature = "allocation-failures")]
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

    #[cfg(feature = "allocation-failures")]
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
            if self.in_use() != self.seen_in_use {
                self.provide();
            }
            let [connections, handshakes, groups, links, buffers, remote_rmbs] = &mut self.heads;
            Tables {
                connections: self.connections.pool(connections),
                handshakes: self.handshakes.pool(handshakes),
                groups: self.groups.pool(groups),
                links: self.links.pool(links),
                buffers: self.buffers.pool(buffers),
                remote_rmbs: self.remote_rmbs.pool(remote_rmbs),
            }
        }

        #[inline]
        fn views(&self) -> Views<'_> {
            let [connections, handshakes, groups, links, buffers, remote_rmbs] = &self.heads;
            Views {
                connections: View::new(connections, &self.connections.slots),
                handshakes: View::new(handshakes, &self.handshakes.slots),
                groups: View::new(groups, &self.groups.slots),
                links: View::new(links, &self.links.slots),
                buffers: View::new(buffers, &self.buffers.slots),
                remote_rmbs: View::new(remote_rmbs, &self.remote_rmbs.slots),
            }
        }
    }
}
