//! Tables on the heap grow with the connections, up to their limits.

use smc_proto::config::Config;
use smc_proto::endpoint::{ConnOptions, Endpoint, OpenError};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{Mac, PeerId};

const NOW: Instant = Instant::from_nanos(1);

/// Servers begin as many rendezvous as there are places, without any of them ending, and no more.
fn begins_as_many_as(limit: usize) {
    let mut limits = Limits::for_connections(limit);
    limits.connections = limit;
    limits.handshakes = limit;
    let config = Config::new(PeerId::new(1, Mac([2; 6])));
    let mut server = Endpoint::new(config, 1, Owned::new(limits));
    let mut listen = || server.listen(NOW, ConnOptions::new(Subnets::default()));
    let mut all: Vec<_> = (0..limit)
        .map(|number| listen().unwrap_or_else(|error| panic!("{number} of {limit}: {error:?}")))
        .collect();
    assert_eq!(listen(), Err(OpenError::Full), "{limit}");
    all.sort_unstable_by_key(|conn| conn.index());
    all.dedup_by_key(|conn| conn.index());
    assert_eq!(all.len(), limit, "each has a place of its own");
}

#[test]
fn every_place_of_a_table_is_to_be_had() {
    for limit in [0, 1, 31, 32, 33, 63, 64, 65, 128, 1000, 10_000] {
        begins_as_many_as(limit);
    }
}
