//! Attacks by what is sent, and not received, over channels.

use std::time::Duration;

use rustix::process::Signal;
use smc_attacks::{LAG, Limits, Possessions, Process, World};

use crate::world;

/// A victim that had a client, and what it possesses now.
fn victim(world: &World, limits: Limits) -> (Process, String, Possessions) {
    let (victim, address) = world.victim(limits);
    let report = world.finish(world.honest(&address, 1));
    assert!(report.smc > 0, "{report:?}");
    std::thread::sleep(Duration::from_millis(300));
    let before = victim.possessions();
    (victim, address, before)
}

/// Mappings of files of the attacker's.
pub(crate) fn attackers_mappings(of: &Process) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", of.id())).expect("its maps");
    maps.matches("memfd:attack").count()
}

/// 60 channels of 1,024 offers each: a process has 65,530 mappings.
//= SHM-041 test
#[test]
fn offers_that_no_connection_attaches_use_no_mappings_up() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address, before) = victim(&world, Limits::default());
    let honest = world.honest(&address, 3);
    let mut attacker = world.attacker("offers", &[&address, "60"]);
    let offers: u64 = attacker.line("done").parse().expect("a number");
    assert!(offers > 60_000, "{offers}");
    let mappings = attackers_mappings(&victim);
    // For each channel 16, one for the connection that was paired, its doorbells, and one
    // that is about to push another out.
    assert!(mappings <= 60 * 19, "{mappings}");
    std::thread::sleep(Duration::from_millis(500));
    assert!(victim.is_alive());
    let report = world.finish(honest);
    assert!(report.smc > 10 * report.tcp, "{report:?}");
    attacker.kill();
    victim.returns_to(&before, LAG);
    assert_eq!(attackers_mappings(&victim), 0);
    println!("{offers} offers, {mappings} mappings, honest clients: {report:?}");
}

/// Channels whose messages are never read: the descriptors in them stay in flight, and
/// count against every program of the victim's user.
//= SHM-042 test
#[test]
fn channels_that_are_never_read_take_no_passing_of_descriptors_away() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address, before) = victim(&world, Limits::default());
    let honest = world.honest(&address, 2);
    let mut attacker = world.attacker("deaf", &[&address, "400"]);
    let made = attacker.line("done");
    let few = Limits {
        descriptors: Some(200),
        ..Limits::default()
    };
    let mut passer = world.start(world.victim_uid(), few, "passer", &[]);
    passer.line("passed");
    assert!(victim.is_alive());
    let report = world.finish(honest);
    assert!(report.smc > 10 * report.tcp, "{report:?}");
    attacker.kill();
    victim.returns_to(&before, LAG);
    println!("{made} of 400 channels made, honest clients: {report:?}");
}

/// A peer that is stopped while it opens connections, many times shortly and once for long,
/// and killed then.
//= SHM-023 test
//= SHM-028 test
#[test]
fn a_peer_that_is_stopped_amid_its_connections_costs_no_dmb() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (mut victim, address, before) = victim(&world, Limits::default());
    let honest = world.honest(&address, 2);
    let arguments = [&address[..], "120"];
    let uid = world.attacker_uid();
    let mut stopped = world.start(uid, Limits::default(), "honest", &arguments);
    stopped.line("connected");
    for _ in 0..40 {
        stopped.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(50));
        stopped.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(50));
    }
    stopped.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(7));
    stopped.kill();
    assert!(victim.is_alive());
    let report = world.finish(honest);
    assert!(report.smc > 10 * report.tcp, "{report:?}");
    victim.returns_to(&before, LAG);
    println!("honest clients: {report:?}");
}

/// The victim's table of descriptors is full again and again, while clients of a third user
/// offer it DMBs: connections that are established live.
//= SHM-040 test
#[test]
fn a_full_table_of_descriptors_ends_no_established_connection() {
    let Some(world) = world() else { return };
    let limits = Limits {
        descriptors: Some(120),
        ..Limits::default()
    };
    let (mut victim, address, before) = victim(&world, limits);
    let arguments = [&address[..], "3", "insistent"];
    let mut honest = world.start(world.honest_uid(), Limits::default(), "honest", &arguments);
    honest.line("connected");
    let mut attacker = world.attacker("starve", &[&address, "200", "10"]);
    attacker.line("done");
    assert!(victim.is_alive());
    let report = world.finish(honest);
    assert!(report.smc > 0 && report.rounds > 0, "{report:?}");
    attacker.kill();
    victim.returns_to(&before, LAG);
    println!("honest clients: {report:?}");
}

/// One user opens as many connections at once as a busy program makes: the bounds that hold
/// attackers off do not meet it.
//= SHM-041 test
//= SHM-042 test
#[test]
fn a_crowd_of_another_user_is_served_over_smc() {
    let Some(world) = world().map(World::patient) else {
        return;
    };
    let (victim, address, before) = victim(&world, Limits::default());
    let crowd = world.honest(&address, 100);
    std::thread::sleep(Duration::from_secs(2));
    let report = world.finish(crowd);
    assert!(report.smc > 10 * report.tcp, "{report:?}");
    victim.returns_to(&before, LAG);
    println!("crowd: {report:?}");
}
