//! Connections of which it is not decided yet what carries them, by where they come from.
//!
//! They are bounded in number, and a source that has many of them loses its oldest to
//! newcomers, so that one source alone shuts no other out: not by silence, and not by numbers.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::MAX_CALLERS;

use crate::shard::Shard;

/// Age of the oldest connection of a source before a newcomer of the same source takes its
/// place. Until then the newcomer waits: a crowd of clients needs a moment to propose.
const YOUNG: Duration = Duration::from_millis(100);

/// How long a connection that the engine negotiates is left alone: it can only be reset.
const NEGOTIATING: Duration = Duration::from_secs(1);

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// A process of this user, on this host.
    User(u32),
    /// A host by its IPv4 address, or a subnet by the first 64 bits of an IPv6 address: a host
    /// has all of these.
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

/// What becomes of a newcomer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The connection has this number.
    Admitted(u64),
    /// When this one is no more, it can be asked for again.
    Evict(u64),
    /// Time to ask for it again, or when another one is decided.
    Wait(Instant),
}

/// The undecided connections of a stack.
#[derive(Debug)]
pub(crate) struct Undecided {
    most: usize,
    last: u64,
    /// By number, hence by age.
    all: BTreeMap<u64, Entry>,
    sources: HashMap<Source, usize>,
    /// A newcomer waits.
    awaited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    source: Source,
    since: Instant,
    /// The engine negotiates.
    conn: Option<ConnId>,
}

impl Entry {
    /// When it may be evicted.
    fn due(&self, young: Duration) -> Instant {
        match self.conn {
            Some(_) => self.since + NEGOTIATING,
            None => self.since + young,
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
            awaited: false,
        }
    }

    /// Most at a time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Takes a newcomer in, if there is room or can be made.
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
        // One of a smaller source waits for nothing but what only a reset could end.
        let young = match own < largest {
            true => Duration::ZERO,
            false => YOUNG,
        };
        let of_largest = |entry: &Entry| match own == largest {
            true => entry.source == source,
            false => self.sources.get(&entry.source) == Some(&largest),
        };
        let mut wait = now + YOUNG;
        for (number, entry) in &self.all {
            if !of_largest(entry) {
                continue;
            }
            let due = entry.due(young);
            if due <= now {
                return Admission::Evict(*number);
            }
            wait = wait.min(due);
        }
        self.awaited = true;
        Admission::Wait(wait)
    }

    /// The engine negotiates this one from now on.
    fn negotiates(&mut self, number: u64, conn: ConnId, now: Instant) {
        if let Some(entry) = self.all.get_mut(&number) {
            entry.conn = Some(conn);
            entry.since = now;
        }
    }

    /// The connection by which the engine knows this one, if it negotiates.
    pub(crate) fn conn(&self, number: u64) -> Option<ConnId> {
        self.all.get(&number)?.conn
    }

    /// Removes a connection that is decided or gone; whether a newcomer waits for that.
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
        std::mem::take(&mut self.awaited)
    }
}

/// The place of an undecided connection, until it is given back.
pub(crate) struct Ticket {
    shard: Arc<Shard>,
    number: u64,
}

impl Ticket {
    /// The engine negotiates from now on.
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

/// Undecided connections for a process that may have so many descriptors: with the one of its
/// pairing, each has up to two, and half is for others.
pub(crate) fn most_undecided(descriptors: Option<u64>) -> usize {
    let quarter = descriptors.unwrap_or(u64::MAX) / 4;
    usize::try_from(quarter)
        .unwrap_or(usize::MAX)
        .clamp(64, 1024)
}

/// Declined connections that are drained after their streams were dropped, for a process that
/// may have so many descriptors: each costs one.
pub(crate) fn most_draining(descriptors: Option<u64>) -> usize {
    most_undecided(descriptors) / 4
}

/// Calls, before their connections are accepted, for a process that may have so many
/// descriptors: each costs one.
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
        admitted(&mut undecided, ONE, begin + YOUNG / 2);
        let wait = Admission::Wait(begin + YOUNG);
        assert_eq!(undecided.admit(ONE, begin + YOUNG / 2), wait);
        assert_eq!(undecided.admit(ONE, begin + YOUNG), Admission::Evict(first));
        // The newcomer that waits is woken once.
        assert!(undecided.remove(first));
        assert!(!undecided.remove(first));
        admitted(&mut undecided, ONE, begin + YOUNG);
        // Of two that are as large, the own one loses.
        let mut undecided = Undecided::new(2);
        admitted(&mut undecided, ONE, begin);
        let two = admitted(&mut undecided, TWO, begin);
        assert_eq!(undecided.admit(TWO, begin), Admission::Wait(begin + YOUNG));
        assert_eq!(undecided.admit(TWO, begin + YOUNG), Admission::Evict(two));
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
        let late = begin + NEGOTIATING;
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
