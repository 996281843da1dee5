//! Clients of one user that never decide what carries their connections.

use std::time::Duration;

use smc_attacks::Limits;

use crate::world;

/// The victim keeps a quarter of its descriptors for the undecided: 256.
const DESCRIPTORS: u64 = 1024;

/// More than these are held at a time.
#[test]
fn silent_clients_of_one_user_keep_no_other_user_out() {
    let Some(world) = world() else { return };
    let limits = Limits {
        descriptors: Some(DESCRIPTORS),
        ..Limits::default()
    };
    let (mut victim, address) = world.victim(limits);
    let _ = world.finish(world.honest(&address, 1));
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();

    let honest = world.honest(&address, 3);
    let mut attacker = world.attacker("silence", &[&address, "350", "4000"]);
    attacker.line("holding");
    let during = victim.possessions();
    let count: u64 = attacker.line("done").parse().unwrap();
    // Every honest connection is served. On a busy machine a few give up waiting for SMC.
    let report = world.finish(honest);
    assert!(count > 350, "{count} attacks");
    assert!(
        report.smc > 20 && report.tcp <= report.smc / 10,
        "{report:?}"
    );
    assert!(report.slowest < 3000, "{report:?}");
    assert!(victim.is_alive());
    // What the application has not closed counts, too.
    assert!(during.descriptors < 900, "{during:?}");

    attacker.kill();
    victim.returns_to(&before, 0, Duration::from_secs(1));
}
