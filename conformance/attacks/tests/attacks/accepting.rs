//! A program that accepts by itself, its clients, and a third user.

use smc_attacks::{Limits, World};

use crate::world;

/// Each connection is paired by a call to its client.
//= SHM-076 test
#[test]
fn without_an_attacker_clients_are_called_back() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address) = world.victim_that_accepts(Limits::default());
    let report = world.finish(world.honest(&address, 2));
    assert!(report.smc > 0 && report.tcp == 0, "{report:?}");
    let served = victim.ask("served", "served");
    assert!(served.ends_with(" 0"), "{served}");
}

//= SHM-078 test
#[test]
fn calls_of_another_user_keep_no_client_from_its_server() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address) = world.victim_that_accepts(Limits::default());
    let mut attacker = world.attacker("claimer", &[]);
    attacker.line("claiming");
    let honest = world.honest(&address, 3);
    // Clients come and go until it meets one that is not decided yet, and some more.
    attacker.line("met");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let claimed = attacker.ask("end", "claimed");
    let report = world.finish(honest);
    // The attacker may call faster than a client drops calls.
    assert!(
        report.smc > 5 && report.tcp <= report.smc / 5,
        "{report:?}, {claimed} claims"
    );
    assert!(victim.is_alive());
}

//= SHM-062 test
#[test]
fn clients_that_answer_no_call_keep_no_other_user_out() {
    let Some(world) = world() else { return };
    let limits = Limits {
        descriptors: Some(2048),
        ..Limits::default()
    };
    let (mut victim, address) = world.victim_that_accepts(limits);
    let _ = world.finish(world.honest(&address, 1));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = victim.possessions();
    let honest = world.honest(&address, 2);
    let mut attacker = world.attacker("mute", &[&address, "150", "2000"]);
    attacker.line("holding");
    let count: u64 = attacker.line("done").parse().unwrap();
    let report = world.finish(honest);
    assert!(count > 150, "{count} attacks");
    assert!(report.smc + report.tcp > 10, "{report:?}");
    assert!(victim.is_alive());
    attacker.kill();
    victim.returns_to(&before, 0);
}
