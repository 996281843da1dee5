//! Order, time and determinism.

use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::RToken;

use super::world::*;
use crate::completion::Completion;
use crate::fabric::{FabricConfig, PathConfig};
use crate::random::{Random, StreamHash};

#[test]
fn a_send_arrives_behind_the_writes_before_it() {
    let mut world = World::new();
    world.write(0, &[5; 4000], world.rmb[1]);
    world.send(0, 1, b"done");
    let mut reported = Vec::new();
    while reported.is_empty() {
        assert!(world.fabric.step());
        reported = completions(&mut world.fabric, world.hosts[1]);
    }
    assert_eq!(reported, [received(b"done")]);
    assert_eq!(world.read(1, 0, 4000), vec![5; 4000]);
    // The sender learns of it one latency later.
    let arrived = world.at();
    assert_eq!(world.run()[0], [sent(1)]);
    assert_eq!(world.at().since(arrived), PathConfig::default().latency);
    let seen = world.seen.lock().unwrap().clone();
    assert_eq!((seen.writes, seen.write_bytes, seen.sends), (1, 4000, 1));
    assert_eq!((seen.acknowledgements, seen.not_accepted), (2, 0));
}

#[test]
fn bytes_are_fetched_when_the_write_is_posted() {
    let mut world = World::new();
    world.write(0, b"first", world.rmb[1]);
    let second = RToken {
        address: world.rmb[1].address + 5,
        ..world.rmb[1]
    };
    world.write(0, b"other", second);
    world.run();
    assert_eq!(world.read(1, 0, 10), b"firstother");
}

#[test]
fn bandwidth_and_latency_set_the_time_of_arrival() {
    let arrival = |latency, bits_per_second| {
        let latency = Duration::from_micros(latency);
        let path = PathConfig {
            latency,
            bits_per_second,
        };
        let mut world = World::connected(
            FabricConfig {
                path,
                ..FabricConfig::default()
            },
            1,
        );
        let start = world.at();
        world.write(0, &[1; 10_240], world.rmb[1]);
        world.write(1, &[1; 10_240], world.rmb[0]);
        world.run();
        world.at().since(start)
    };
    // Ten packets of 1024 bytes and 82 of overhead; the way back is not shared.
    assert_eq!(
        arrival(3, 8_000_000_000),
        Duration::from_nanos(10 * (1024 + 82) + 6000)
    );
    assert_eq!(arrival(3, 0), Duration::from_micros(6));
    assert!(arrival(100, 8_000_000_000) > arrival(3, 8_000_000_000));
}

#[test]
fn long_latency_is_no_reason_to_send_again() {
    let path = PathConfig {
        latency: Duration::from_secs(1),
        bits_per_second: 1_000_000,
    };
    let mut world = World::connected(
        FabricConfig {
            path,
            ..FabricConfig::default()
        },
        1,
    );
    for number in 0..20 {
        world.write(0, &[1; 4096], world.rmb[1]);
        world.send(0, number, b"slow");
    }
    let [near, _] = world.run();
    assert_eq!(near, (0..20).map(sent).collect::<Vec<_>>());
    assert_eq!(world.seen.lock().unwrap().not_accepted, 0);
}

/// Random traffic both ways; returns the trace hash of the run.
fn traffic(world_seed: u64, traffic_seed: u64) -> (u64, World) {
    let mut world = World::connected(FabricConfig::default(), world_seed);
    let mut random = Random::new(traffic_seed);
    let mut expected: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let mut got: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let mut acknowledged: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    let mut memory = [vec![0; 2 * ELEMENT as usize], vec![0; 2 * ELEMENT as usize]];
    for _ in 0..200 {
        let side = random.below(2) as usize;
        match random.below(3) {
            0 => {
                let message = vec![random.next_u64() as u8; 1 + random.below(44) as usize];
                world.send(side, expected[1 - side].len() as u32, &message);
                expected[1 - side].push(message);
            }
            1 => {
                let bytes = vec![random.next_u64() as u8; 1 + random.below(5000) as usize];
                let offset = random.below(2 * u64::from(ELEMENT) - bytes.len() as u64 + 1);
                let rmb = world.rmb[1 - side];
                world.write(
                    side,
                    &bytes,
                    RToken {
                        address: rmb.address + offset,
                        ..rmb
                    },
                );
                let end = offset as usize + bytes.len();
                memory[1 - side][offset as usize..end].copy_from_slice(&bytes);
            }
            _ => {
                let limit = world.at().after(Duration::from_nanos(random.below(9000)));
                while !world.fabric.run_until(limit) {
                    take(&mut world, &mut got, &mut acknowledged);
                }
            }
        }
    }
    while world.fabric.step() {
        take(&mut world, &mut got, &mut acknowledged);
    }
    for side in [0, 1] {
        // In order, none missing, none twice; memory as if writes happened in order.
        assert_eq!(got[side], expected[side]);
        assert!(
            acknowledged[side]
                .iter()
                .copied()
                .eq(0..expected[1 - side].len() as u32)
        );
        assert_eq!(world.read(side, 0, 2 * ELEMENT), memory[side]);
    }
    let hash = world.seen.lock().unwrap().trace_hash();
    (hash, world)
}

fn take(world: &mut World, got: &mut [Vec<Vec<u8>>; 2], acknowledged: &mut [Vec<u32>; 2]) {
    for side in [0, 1] {
        for completion in completions(&mut world.fabric, world.hosts[side]) {
            match completion {
                Completion::Received { payload, .. } => got[side].push(payload),
                Completion::Sent { wr_id, .. } => acknowledged[side].push(wr_id.0),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn whatever_the_traffic_order_holds() {
    for seed in 0..200 {
        traffic(seed, seed ^ 0xabcd);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let (one, first) = traffic(5, 9);
    let (two, second) = traffic(5, 9);
    assert_eq!(one, two);
    assert_eq!(first.at(), second.at());
    assert_eq!(fingerprint(&first), fingerprint(&second));
    assert_ne!(one, traffic(6, 9).0);
    assert_ne!(one, traffic(5, 10).0);
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = StreamHash::new();
    world.fabric.fingerprint(&mut hasher);
    hasher.value()
}

#[test]
fn a_fingerprint_forgets_the_time_and_sees_the_state() {
    let mut world = World::new();
    let before = fingerprint(&world);
    let mut later = world.clone();
    assert!(later.fabric.run_until(Instant::from_nanos(10_000_000_000)));
    assert_eq!(fingerprint(&later), before);

    later.send(0, 1, b"x");
    world.send(0, 1, b"x");
    assert_ne!(fingerprint(&world), before);
    assert_eq!(fingerprint(&world), fingerprint(&later));
    later.send(0, 2, b"y");
    assert_ne!(fingerprint(&world), fingerprint(&later));
}

#[test]
fn a_clone_goes_its_own_way_unobserved() {
    let mut world = World::new();
    let seen = world.seen.lock().unwrap().clone();
    let mut branch = world.clone();
    branch.send(0, 1, b"branch");
    assert_eq!(branch.run()[1], [received(b"branch")]);
    assert_eq!(*world.seen.lock().unwrap(), seen);
    assert_eq!(world.run(), [vec![], vec![]]);
}
