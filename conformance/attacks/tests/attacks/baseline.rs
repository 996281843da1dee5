//! Without an attack: what the others are measured by.

use std::time::Duration;

use smc_attacks::{LAG, Limits, World};

use crate::world;

#[test]
fn honest_clients_of_another_user_use_smc_and_leave_nothing() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address) = world.victim(Limits::default());
    // The first connection makes what stays: the stack's own threads and descriptors.
    let first = world.honest(&address, 1);
    let report = world.finish(first);
    assert!(report.smc > 0 && report.tcp == 0, "{report:?}");
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();

    let honest = world.honest(&address, 3);
    std::thread::sleep(Duration::from_millis(500));
    let report = world.finish(honest);
    assert!(report.smc > 3 && report.tcp == 0, "{report:?}");
    assert!(report.rounds > 10, "{report:?}");
    victim.returns_to(&before, LAG);
    assert!(victim.is_alive());
}

#[test]
fn a_neighbour_by_hand_is_taken_for_a_device() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (victim, address) = world.victim(Limits::default());
    let _ = world.finish(world.honest(&address, 1));
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();

    let honest = world.honest(&address, 1);
    let mut attacker = world.attacker("visitor", &[&address, "20"]);
    attacker.line("done");
    let report = world.finish(honest);
    assert!(report.smc > 0 && report.tcp == 0, "{report:?}");
    victim.returns_to(&before, LAG);
}
