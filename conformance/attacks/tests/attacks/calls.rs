//! Calls of one user without connections behind them.

use std::time::Duration;

use smc_attacks::{Limits, Possessions};

use crate::world;

/// More than the kernel and the victim keep together.
const CALLS: &str = "500";
/// Calls that the victim keeps, and one that is about to take the place of another.
const KEPT: usize = 257;
const ROUNDS: u64 = 6;

/// Each time, no connection is made to the victim until the calls have been.
//= SHM-007 test
#[test]
fn calls_without_connections_keep_no_other_user_on_tcp() {
    let Some(world) = world() else { return };
    let (mut victim, address) = world.victim(Limits::default());
    let _ = world.finish(world.honest(&address, 1));
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();
    let tcp = |line: String| -> u64 {
        let (_, tcp) = line.split_once(' ').expect("two numbers");
        tcp.parse().expect("a number")
    };
    let tcp_before = tcp(victim.ask("served", "served"));
    let at_most = Possessions {
        descriptors: before.descriptors + KEPT,
        ..before
    };
    for _ in 0..ROUNDS {
        let mut attacker = world.attacker("caller", &[CALLS]);
        assert_eq!(attacker.line("calling"), CALLS);
        // The connection of the round before may be about to end.
        victim.returns_to(&at_most, 0);
        let _ = world.finish(world.honest(&address, 1));
        attacker.kill();
    }
    // On a busy machine one or the other gives up waiting for SMC.
    let tcp = tcp(victim.ask("served", "served")) - tcp_before;
    assert!(tcp <= ROUNDS / 2, "{tcp} connections over TCP");
    assert!(victim.is_alive());
    victim.returns_to(&before, 0);
}
