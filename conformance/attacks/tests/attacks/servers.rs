//! Attacks by servers, on a program that connects to them and to an honest server.

use std::time::Duration;

use smc_attacks::{LAG, Limits, Possessions, Process, World};

use crate::channels::attackers_mappings;
use crate::world;

/// An honest server, and a client of it that is to be attacked, with its possessions now.
fn client(world: &World) -> (Process, Process, Possessions) {
    let mut server = world.start(world.honest_uid(), Limits::default(), "victim", &[]);
    let address = server.line("listening");
    let uid = world.victim_uid();
    let mut client = world.start(uid, Limits::default(), "client", &[&address]);
    let carrier = client.line("connected");
    assert!(carrier.contains("SMC-D"), "{carrier}");
    let carrier = client.ask("check", "checked");
    assert!(carrier.contains("SMC-D"), "{carrier}");
    std::thread::sleep(Duration::from_millis(300));
    let before = client.possessions();
    (server, client, before)
}

/// The client goes on, over SMC, and has what it had before when the attacker has gone.
fn goes_on(client: &mut Process, mut attacker: Process, before: &Possessions) {
    let carrier = client.ask("check", "checked");
    assert!(carrier.contains("SMC-D"), "{carrier}");
    attacker.kill();
    client.returns_to(before, LAG);
    assert!(client.is_alive());
}

/// A server that offers 1,024 DMBs to each connection, under a GID of its own each time.
//= SHM-033 test
//= SHM-041 test
#[test]
fn offers_of_a_server_use_no_mappings_up() {
    let Some(world) = world() else { return };
    let (_server, mut client, before) = client(&world);
    let mut attacker = world.attacker("offers-server", &["80"]);
    let address = attacker.line("listening");
    client.command(&format!("visit {address} 80 20000"));
    let done = attacker.line("done");
    let (channels, offers) = done.split_once(' ').expect("two numbers");
    let channels: usize = channels.parse().expect("a number");
    let offers: u64 = offers.parse().expect("a number");
    client.line("visited");
    // As many as a user can have, or as many as there is time for them to be read.
    assert!((32..=64).contains(&channels), "{channels}");
    assert!(offers > 1000 * channels as u64, "{offers}");
    let mappings = attackers_mappings(&client);
    // For each channel 16, one for the connection that was paired, its doorbells, and one
    // that is about to push another out.
    assert!(mappings <= channels * 19, "{mappings}");
    goes_on(&mut client, attacker, &before);
    assert_eq!(attackers_mappings(&client), 0);
    println!("{channels} channels, {offers} offers, {mappings} mappings");
}

/// A server that has its clients make channels, and neither reads nor answers their first
/// messages: clients that give up leave the descriptors in flight.
//= SHM-042 test
#[test]
fn a_server_that_answers_no_channel_takes_no_passing_of_descriptors_away() {
    let Some(world) = world() else { return };
    let (_server, mut client, before) = client(&world);
    let mut attacker = world.attacker("deaf-server", &["150"]);
    let address = attacker.line("listening");
    client.command(&format!("visit {address} 150 40"));
    client.line("visited");
    let few = Limits {
        descriptors: Some(100),
        ..Limits::default()
    };
    let mut passer = world.start(world.victim_uid(), few, "passer", &[]);
    passer.line("passed");
    let channels: u64 = attacker.line("done").parse().expect("a number");
    // The bound was met.
    assert!(channels >= 60, "{channels}");
    goes_on(&mut client, attacker, &before);
    println!("{channels} channels");
}
