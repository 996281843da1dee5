//! Tests of the connection, on its own and as a pair.

mod close;
mod close_table;
mod cursor;
mod failover;
mod failover_sweep;
mod fast;
mod flow;
mod harness;
mod hostile;
mod invariants;
#[cfg(feature = "smc-d")]
mod ism;
#[cfg(feature = "smc-d")]
mod kept;
mod message;
mod property;
mod triples;
mod urgent;

use super::*;

#[test]
fn sizes_stay_within_the_budget_of_a_slot() {
    assert!(
        size_of::<Connection>() <= 320,
        "{}",
        size_of::<Connection>()
    );
    assert_eq!(size_of::<NotifyRecord>(), 8);
}
