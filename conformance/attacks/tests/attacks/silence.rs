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
    let mut attacker = world.attacker("silence", &[&address, "350", "4000", "pair"]);
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
    victim.returns_to(&before, 0);
}

/// Where the policy promises CLC, each connection is waited for: the attacker's, too.
#[test]
fn silence_where_smc_is_assumed_resets_no_other_user() {
    let Some(world) = world() else { return };
    let policy = world.folder().join("policy.toml");
    let assume = "assume-smc = [{ peers = [\"127.0.0.1\"], ports = [\"1-65535\"] }]";
    std::fs::write(&policy, assume).unwrap();
    let start = |uid, limits, role: &str, arguments: &[&str]| {
        world.start_with(uid, limits, role, arguments, |command| {
            command.env("SMC_POLICY", &policy);
        })
    };
    let limits = Limits {
        descriptors: Some(DESCRIPTORS),
        ..Limits::default()
    };
    let mut victim = start(world.victim_uid(), limits, "victim", &[]);
    let address = victim.line("listening");
    let honest = || {
        let arguments = [&*address, "3"];
        let mut honest = start(world.honest_uid(), Limits::default(), "honest", &arguments);
        honest.line("connected");
        honest
    };
    let _ = world.finish(honest());
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();

    let mut attacker = world.attacker("silence", &[&address, "350", "4000", "connect"]);
    attacker.line("holding");
    // They come while the attack goes on.
    let honest = honest();
    attacker.line("done");
    let report = world.finish(honest);
    assert!(report.smc + report.tcp > 20, "{report:?}");
    assert!(report.slowest < 3000, "{report:?}");

    attacker.kill();
    victim.returns_to(&before, 0);
}
