//! Accepted connections for which SMC or TCP is not chosen yet, counted by source.
//!
//! Their number is bounded. When the bound is reached, the source with the most connections loses
//! its oldest one to a new connection, so that no source can shut others out, neither by silence nor
//! by many connections.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::MAX_CALLERS;

use crate::shard::Shard;

/// Age from which a connection may be evicted for another one of the same source, or of one that has
/// as many. Until then the new one waits: many clients at once need a moment to propose.
const MIN_AGE: Duration = Duration::from_millis(100);

/// Time from which a connection that the engine negotiates may be evicted, which resets it.
const MAX_NEGOTIATION: Duration = Duration::from_secs(1);

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// A process of this user, on this host.
    User(u32),
    /// A host by its IPv4 address, or a subnet by the first 64 bits of an IPv6 address: one host may
    /// have all addresses of it.
    Network(IpAddr),
}

impl Source {
    /// The source of a client that is not known to be on this host.
    pub(crate) fn remote(client: IpAddr) -> Self {
        Self::Network(match client.to_canonical() {
            IpAddr::V6(v6) => {
                let subnet = v6.to_bits() & !u128::from(u64::MAX);
                Ipv6Addr::from_bits(subnet).into()
            }
            v4 => v4,
        })
    }
}

/// Whether a new connection is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The new connection is admitted, with this number.
    Admitted(u64),
    /// The new connection may be admitted, once the connection with this number is removed.
    Evict(u64),
    /// The new connection may be admitted at this time, or when another connection is decided.
    Wait(Instant),
}

/// The undecided connections of a stack.
#[derive(Debug)]
pub(crate) struct Undecided {
    /// Most at a time.
    most: usize,
    /// Number of the last one that was admitted.
    last: u64,
    /// By number, hence by age.
    all: BTreeMap<u64, Entry>,
    /// Number of connections of each source.
    sources: HashMap<Source, usize>,
    /// Whether a new connection waits until one is removed.
    has_waiting: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    /// When it was admitted, or the engine began to negotiate.
    since: Instant,
    /// Handle of the connection at the engine, once the engine negotiates.
    conn: Option<ConnId>,
}

impl Entry {
    /// When it may be evicted, if connections may be from this age on.
    fn evictable_at(&self, min_age: Duration) -> Instant {
        match self.conn {
            Some(_) => self.since + MAX_NEGOTIATION,
            None => self.since + min_age,
        }
    }
}

impl Undecided {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            last: 0,
            all: BTreeMap::new(),
            sources: HashMap::new(),
            has_waiting: false,
        }
    }

    /// Most at a time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Admits a new connection, if there is room. Otherwise names the connection to evict, if there is
    /// one: the oldest of the source with the most connections.
    //= SHM-062
    pub(crate) fn admit(&mut self, source: Source, now: Instant) -> Admission {
        if self.all.len() < self.most {
            self.last += 1;
            let entry = Entry {
                source,
                since: now,
                conn: None,
            };
            self.all.insert(self.last, entry);
            *self.sources.entry(source).or_default() += 1;
            return Admission::Admitted(self.last);
        }
        let own = self.sources.get(&source).copied().unwrap_or(0);
        let largest = self.sources.values().copied().max().unwrap_or(0);
        // One of a smaller source waits only for connections that the engine negotiates.
        let min_age = match own < largest {
            true => Duration::ZERO,
            false => MIN_AGE,
        };
        let of_largest = |entry: &Entry| match own == largest {
            true => entry.source == source,
            false => self.sources.get(&entry.source) == Some(&largest),
        };
        let mut wait = now + MIN_AGE;
        for (number, entry) in &self.all {
            if !of_largest(entry) {
                continue;
            }
            let evictable_at = entry.evictable_at(min_age);
            if evictable_at <= now {
                return Admission::Evict(*number);
            }
            wait = wait.min(evictable_at);
        }
        self.has_waiting = true;
        Admission::Wait(wait)
    }

    /// Notes that the engine negotiates a connection from now on.
    fn negotiates(&mut self, number: u64, conn: ConnId, now: Instant) {
        if let Some(entry) = self.all.get_mut(&number) {
            entry.conn = Some(conn);
            entry.since = now;
        }
    }

    /// The connection at the engine, if that negotiates.
    pub(crate) fn conn(&self, number: u64) -> Option<ConnId> {
        self.all.get(&number)?.conn
    }

    /// Removes a connection that is decided or closed; whether a new one waits for that.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Some(entry) = self.all.remove(&number) else {
            return false;
        };
        if let Some(count) = self.sources.get_mut(&entry.source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&entry.source);
            }
        }
        std::mem::take(&mut self.has_waiting)
    }
}

/// The place of an undecided connection. Dropping it gives the place back.
pub(crate) struct Ticket {
    shard: Arc<Shard>,
    number: u64,
}

impl Ticket {
    /// Notes that the engine negotiates from now on.
    pub(crate) fn negotiates(&self, conn: ConnId) {
        self.shard
            .undecided()
            .negotiates(self.number, conn, Instant::now());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.shard.undecided().remove(self.number) {
            self.shard.ring();
        }
    }
}

impl Shard {
    pub(crate) fn undecided(&self) -> MutexGuard<'_, Undecided> {
        self.undecided
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a connection that was admitted.
    pub(crate) fn ticket(self: &Arc<Self>, number: u64) -> Ticket {
        let shard = self.clone();
        Ticket { shard, number }
    }
}

/// Most undecided connections for a process with this limit of descriptors: each has up to two, its own
/// and one for pairing, and half of the limit is left to the program.
pub(crate) fn most_undecided(descriptors: Option<u64>) -> usize {
    let quarter = descriptors.unwrap_or(u64::MAX) / 4;
    usize::try_from(quarter)
        .unwrap_or(usize::MAX)
        .clamp(64, 1024)
}

/// Most declined connections that are drained after their streams were dropped, for a process with this
/// limit of descriptors: each has one.
pub(crate) fn most_draining(descriptors: Option<u64>) -> usize {
    most_undecided(descriptors) / 4
}

/// Most calls whose connections are not accepted yet, for a process with this limit of descriptors:
/// each has one.
pub(crate) fn most_callers(descriptors: Option<u64>) -> usize {
    most_undecided(descriptors).min(MAX_CALLERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Source = Source::User(1);
    const TWO: Source = Source::User(2);
    const THREE: Source = Source::User(3);

    fn conn() -> ConnId {
        use smc_proto::config::Config;
        use smc_proto::endpoint::{ConnOptions, Endpoint};
        use smc_proto::storage::{Limits, Owned};
        use smc_proto::time::Instant;
        let storage = Owned::new(Limits::for_connections(1));
        let mut engine = Endpoint::new(Config::new(Default::default()), 1, storage);
        let options = ConnOptions::new(Default::default());
        engine.listen(Instant::from_nanos(1), options).unwrap()
    }

    fn admitted(undecided: &mut Undecided, source: Source, now: Instant) -> u64 {
        match undecided.admit(source, now) {
            Admission::Admitted(number) => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ipv6_counts_by_subnets_and_mapped_addresses_are_ipv4() {
        let of = |address: &str| Source::remote(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn the_oldest_of_the_largest_source_makes_room_for_others_at_once() {
        let mut undecided = Undecided::new(5);
        let now = Instant::now();
        let two = admitted(&mut undecided, TWO, now);
        let ones: Vec<_> = (0..4).map(|_| admitted(&mut undecided, ONE, now)).collect();
        for victim in &ones[..2] {
            assert_eq!(undecided.admit(THREE, now), Admission::Evict(*victim));
            // As long as it is there, it is the one.
            assert_eq!(undecided.admit(THREE, now), Admission::Evict(*victim));
            assert!(!undecided.remove(*victim));
            admitted(&mut undecided, THREE, now);
        }
        // Two sources have two each by now: the oldest of them.
        assert_eq!(undecided.admit(TWO, now), Admission::Evict(ones[2]));
        undecided.remove(ones[2]);
        admitted(&mut undecided, TWO, now);
        assert!(matches!(undecided.admit(THREE, now), Admission::Wait(_)));
        assert!(undecided.all.contains_key(&two));
    }

    #[test]
    fn one_of_the_largest_source_waits_until_its_oldest_is_not_young() {
        let mut undecided = Undecided::new(2);
        let begin = Instant::now();
        let first = admitted(&mut undecided, ONE, begin);
        admitted(&mut undecided, ONE, begin + MIN_AGE / 2);
        let wait = Admission::Wait(begin + MIN_AGE);
        assert_eq!(undecided.admit(ONE, begin + MIN_AGE / 2), wait);
        assert_eq!(
            undecided.admit(ONE, begin + MIN_AGE),
            Admission::Evict(first)
        );
        // The newcomer that waits is woken once.
        assert!(undecided.remove(first));
        assert!(!undecided.remove(first));
        admitted(&mut undecided, ONE, begin + MIN_AGE);
        // Of two that are as large, the own one loses.
        let mut undecided = Undecided::new(2);
        admitted(&mut undecided, ONE, begin);
        let two = admitted(&mut undecided, TWO, begin);
        assert_eq!(
            undecided.admit(TWO, begin),
            Admission::Wait(begin + MIN_AGE)
        );
        assert_eq!(undecided.admit(TWO, begin + MIN_AGE), Admission::Evict(two));
    }

    #[test]
    fn what_the_engine_negotiates_has_a_second() {
        let mut undecided = Undecided::new(2);
        let begin = Instant::now();
        let conn = conn();
        let first = admitted(&mut undecided, ONE, begin);
        let second = admitted(&mut undecided, ONE, begin);
        undecided.negotiates(first, conn, begin);
        assert_eq!(undecided.conn(first), Some(conn));
        // The other one goes first.
        assert_eq!(undecided.admit(TWO, begin), Admission::Evict(second));
        undecided.negotiates(second, conn, begin);
        assert!(matches!(undecided.admit(TWO, begin), Admission::Wait(_)));
        let late = begin + MAX_NEGOTIATION;
        assert_eq!(undecided.admit(TWO, late), Admission::Evict(first));
    }

    #[test]
    fn descriptors_bound_the_number() {
        assert_eq!(most_undecided(Some(1024)), 256);
        assert_eq!(most_undecided(Some(20)), 64);
        assert_eq!(most_undecided(Some(1 << 20)), 1024);
        assert_eq!(most_undecided(None), 1024);
        assert_eq!(most_draining(Some(1024)), 64);
        assert_eq!(most_callers(Some(600)), 150);
        assert_eq!(most_callers(None), 256);
    }
}
