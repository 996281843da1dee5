use std::sync::{Arc, Mutex};

use smc_proto::config::Config;
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::wire::types::{Mtu, PeerId};

use super::*;
use crate::fabric::FabricConfig;
use crate::sim::Simulation;
use smc_capture::follow::{Content, Follower};
use smc_capture::reader::CaptureReader;

/// A run of two engines, recorded.
fn recorded(seed: u64) -> (Simulation, Vec<u8>) {
    let mut simulation = Simulation::new(FabricConfig::default(), seed);
    let recorder = Recorder::new(CaptureWriter::new(Vec::new()).unwrap());
    let recorder = Arc::new(Mutex::new(recorder));
    simulation.fabric().observe(Box::new(recorder.clone()));
    let [client, server] = [("client", 1), ("server", 2)].map(|(name, number)| {
        let mut gid = [0; 16];
        [gid[10], gid[11], gid[12], gid[15]] = [0xff, 0xff, 10, number];
        let mac = Mac([2, 0, 0, 0, 0, number]);
        let (device, gid, mtu) = (DeviceId(0), Gid(gid), Mtu::M1024);
        let port = PortConfig {
            device,
            port: 1,
            gid,
            mac,
            mtu,
            subnet: 0,
        };
        let config = Config::new(PeerId::new(number.into(), mac));
        simulation.add_host(name, config, Limits::for_connections(4), &[port])
    });
    let (near, far) = simulation.connect(client, server);
    for end in [near, far] {
        simulation.app_mut(end).unwrap().write_pattern(1, 100_000);
        simulation.finish(end);
    }
    simulation.run_for(Duration::from_secs(5));
    assert!(simulation.app(near).unwrap().is_at_end());
    let bytes = recorder.lock().unwrap().finish().unwrap().unwrap();
    assert!(recorder.lock().unwrap().finish().unwrap().is_none());
    (simulation, bytes)
}

#[test]
fn a_capture_contains_what_the_ladder_shows() {
    let (simulation, bytes) = recorded(1);
    let mut follower = Follower::default();
    let mut items = Vec::new();
    for frame in CaptureReader::new(bytes.as_slice()).unwrap() {
        follower.push(&frame.unwrap(), &mut items);
    }
    follower.finish(&mut items);
    let mut messages = Vec::new();
    let mut written = 0;
    for item in items {
        match item.content {
            Content::TcpOption(_) => {}
            Content::Clc(message) => messages.push(message.to_string()),
            Content::Llc(message) => messages.push(message.to_string()),
            Content::Cdc(message) => messages.push(message.to_string()),
            Content::Write(write) => written += write.length,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(written, 200_000);
    let is_message = |text: &&str| {
        ["CLC", "LLC", "CDC"]
            .iter()
            .any(|kind| text.starts_with(kind))
    };
    let ladder = simulation.trace();
    let expected: Vec<_> = ladder
        .rungs()
        .map(|rung| rung.text.as_str())
        .filter(is_message)
        .collect();
    assert_eq!(messages, expected);
}

#[test]
fn the_same_seed_gives_the_same_capture() {
    assert!(recorded(3).1 == recorded(3).1);
    assert!(recorded(3).1 != recorded(4).1);
}
