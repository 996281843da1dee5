//! What the engine's objects take in memory.
//!
//! The limits are promises; the exact figures are a snapshot, so that growth is
//! a visible change. `cargo test -p conformance --test bounds sizes:: -- --nocapture`
#![cfg(target_pointer_width = "64")]

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::event::Event;
use smc_proto::storage::{
    Buffer, ConnectionRecord, Fixed, Handshake, Link, LinkGroup, RemoteRmb, Slot,
};

/// Connections of a full link group (RMB-001).
const CONNECTIONS: usize = 255;

const CONNECTION: usize = size_of::<Slot<ConnectionRecord>>();
const HANDSHAKE: usize = size_of::<Slot<Handshake>>();
const GROUP: usize = size_of::<Slot<LinkGroup>>();
const LINK: usize = size_of::<Slot<Link>>();
const BUFFER: usize = size_of::<Slot<Buffer>>();
const REMOTE: usize = size_of::<Slot<RemoteRmb>>();

/// A group with 255 connections and one link, in which every connection has an
/// RMB and a send buffer of its own and an RMB of the peer: what the default of
/// one element per RMB leads to.
const FULL_GROUP: usize = GROUP + LINK + CONNECTIONS * (CONNECTION + 2 * BUFFER + REMOTE);

/// Size of a group with one RMB of 255 elements at each end.
const FULL_GROUP_SHARED_RMB: usize =
    GROUP + LINK + BUFFER + REMOTE + CONNECTIONS * (CONNECTION + BUFFER);

const GROUP_LIMIT: usize = 256 << 10;

/// Tables for the same, with one rendezvous at a time and nothing to spare.
type OneGroup = Fixed<CONNECTIONS, 1, 1, 1, { 2 * CONNECTIONS }, CONNECTIONS>;

#[test]
fn objects_stay_within_their_limits() {
    println!("slot of a connection {CONNECTION:>7} (limit 512)");
    println!("        a handshake  {HANDSHAKE:>7} (limit 1024)");
    println!("        a link       {LINK:>7} (limit 4096)");
    println!("        a link group {GROUP:>7}");
    println!("        a buffer     {BUFFER:>7}");
    println!("        a peer's RMB {REMOTE:>7}");
    println!("255 connections, one link, one RMB of 255 elements at each end:");
    println!("{FULL_GROUP_SHARED_RMB:>28} (limit {GROUP_LIMIT})");
    println!("255 connections, one link, an RMB each:");
    println!("{FULL_GROUP:>28} (limit {GROUP_LIMIT}, not kept)");
    println!("tables for these:");
    println!("{:>28}", size_of::<OneGroup>());
    const {
        assert!(CONNECTION <= 512);
        assert!(HANDSHAKE <= 1024);
        assert!(LINK <= 4096);
        assert!(FULL_GROUP_SHARED_RMB <= GROUP_LIMIT);
    }
}

#[test]
fn growth_is_a_visible_change() {
    let snapshot = [
        ("Slot<ConnectionRecord>", CONNECTION, 448),
        ("Slot<Handshake>", HANDSHAKE, 960),
        ("Slot<LinkGroup>", GROUP, 832),
        ("Slot<Link>", LINK, 1152),
        ("Slot<Buffer>", BUFFER, 320),
        ("Slot<RemoteRmb>", REMOTE, 192),
        ("group of 255 connections", FULL_GROUP, 328384),
        ("RdmaCommand", size_of::<RdmaCommand>(), 64),
        ("RdmaCompletion", size_of::<RdmaCompletion<'_>>(), 40),
        ("Event", size_of::<Event>(), 24),
    ];
    let changed: Vec<_> = snapshot
        .iter()
        .filter(|(_, is, was)| is != was)
        .map(|(name, is, was)| format!("{name}: {is}, was {was}"))
        .collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
