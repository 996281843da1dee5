//! Names of rendezvous that another user has taken before the listener is made.

use std::time::Duration;

use smc_attacks::{Limits, World, neighbour};

use crate::world;

//= SHM-054 test
#[test]
fn names_taken_in_advance_keep_no_connection_on_tcp() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let mut attacker = world.attacker("squatter", &[]);
    attacker.line("squatting");
    let (mut victim, address) = world.victim(Limits::default());
    let _ = world.finish(world.honest(&address, 1));
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();
    // The first name is the attacker's: the victim has one with two numbers.
    let names = world.enter(neighbour::names).unwrap();
    let spare = names.iter().filter(|name| name.matches('.').count() == 3);
    assert_eq!(spare.count(), 1, "the attack missed the listener");

    let honest = world.honest(&address, 2);
    std::thread::sleep(Duration::from_millis(500));
    let report = world.finish(honest);
    // On a busy machine a few give up waiting for SMC.
    assert!(
        report.smc > 10 && report.tcp <= report.smc / 10,
        "{report:?}"
    );
    assert!(victim.is_alive());
    attacker.kill();
    victim.returns_to(&before, 0);
}
