//! Bytes between two endpoints, in rings, writes and pieces of any size.

use conformance::world::World;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::types::BufferSize;
use smc_transport_sim::fabric::{FabricConfig, PathConfig};
use smc_transport_sim::fault::FaultAction;
use smc_transport_sim::sim::{SocketId, Transport};
use smc_transport_sim::tcp::TcpSplit;

const MILLI: Duration = Duration::from_millis(1);

/// Both applications read everything the other one wrote, then it ends in order.
#[track_caller]
fn finish(mut world: World, ends: (SocketId, SocketId)) {
    for end in [ends.0, ends.1] {
        world.sim.finish(end);
    }
    world.until("both read to the end", |sim| {
        [ends.0, ends.1]
            .iter()
            .all(|end| sim.app(*end).is_some_and(|app| app.is_at_end()))
    });
    for (one, other) in [ends, (ends.1, ends.0)] {
        let (Some(a), Some(b)) = (world.sim.app(one), world.sim.app(other)) else {
            world.fail("no application");
        };
        assert_eq!(a.written(), b.read(), "{}", world.sim.trace());
    }
    world.sim.run_for(Duration::from_secs(1));
    for end in [ends.0, ends.1] {
        let closed = world.sim.state(end).and_then(|state| state.closed);
        assert_eq!(closed, Some(CloseReason::Normal), "{}", world.sim.trace());
    }
    world.end(&[ends.0, ends.1]);
}

#[test]
fn rings_of_any_sizes_carry_a_stream_both_ways() {
    //= RMB-005 test
    //= RMB-032 test
    //= RMB-013 test
    for (number, (receive, send)) in [(0, 0), (0, 5), (5, 0), (1, 3), (5, 5), (2, 4)]
        .iter()
        .enumerate()
    {
        for eye_catcher in [false, true] {
            let mut world = World::with(
                number as u64,
                FabricConfig::default(),
                |config| {
                    config.eye_catcher = eye_catcher;
                    config.receive_buffer = BufferSize::from_code(*receive);
                    config.send_buffer = BufferSize::from_code(*send);
                },
                |config| {
                    config.receive_buffer = BufferSize::from_code(*send);
                    config.send_buffer = BufferSize::from_code(*receive);
                },
            );
            let ends = world.open();
            for (end, bytes) in [(ends.0, 700_001), (ends.1, 300_007)] {
                if let Some(app) = world.sim.app_mut(end) {
                    app.forget_bytes();
                    app.write_pattern(number as u64, bytes);
                }
            }
            finish(world, ends);
        }
    }
}

#[test]
fn writes_of_any_size_carry_a_stream() {
    //= CASE-C13 test
    //= CLOSE-037 test
    for size in [
        1,
        2,
        3,
        100,
        1_023,
        4_096,
        16_383,
        16_384,
        65_536,
        100_001,
        1 << 20,
    ] {
        let mut world = World::new(size as u64);
        world.options(world.server, |options| {
            options.receive_buffer = Some(BufferSize::K16);
        });
        let ends = world.open();
        let bytes: Vec<_> = (0..size).map(|n: usize| (n * 7 + n / 251) as u8).collect();
        for _ in 0..(200_000 / size).clamp(1, 300) {
            world.sim.write(ends.0, &bytes);
            world.sim.step();
        }
        world.sim.write(ends.1, b"thanks");
        finish(world, ends);
    }
}

#[test]
fn tcp_in_pieces_and_slow_wires_change_nothing() {
    //= CLC-015 test
    for (number, split) in [TcpSplit::Every(1), TcpSplit::Every(7), TcpSplit::Random(40)]
        .iter()
        .enumerate()
    {
        for latency in [1, 100, 20_000] {
            let fabric = FabricConfig {
                path: PathConfig {
                    latency: Duration::from_micros(latency),
                    bits_per_second: 1_000_000_000,
                },
                tcp_latency: Duration::from_micros(latency * 3),
                ..FabricConfig::default()
            };
            let mut world = World::with(number as u64, fabric, |_| {}, |_| {});
            world.fault(None, FaultAction::TcpSplit(*split));
            let ends = world.open();
            let transport = world.sim.state(ends.0).map(|state| state.transport);
            assert_eq!(transport, Some(Transport::Smc), "{}", world.sim.trace());
            for end in [ends.0, ends.1] {
                if let Some(app) = world.sim.app_mut(end) {
                    app.write_pattern(3, 150_000);
                }
            }
            finish(world, ends);
        }
    }
}

#[test]
fn one_side_sends_on_after_the_other_is_done() {
    //= CLOSE-016 test
    //= CLOSE-024 test
    for flip in [false, true] {
        let mut world = World::new(20);
        let ends = world.open();
        let (done, still) = if flip { (ends.1, ends.0) } else { ends };
        world.sim.write(done, b"that is all");
        world.sim.finish(done);
        world.sim.run_for(MILLI);
        assert!(world.sim.app(still).is_some_and(|app| app.is_at_end()));
        if let Some(app) = world.sim.app_mut(still) {
            app.write_pattern(1, 500_000);
        }
        finish(world, ends);
    }
}

#[test]
fn a_close_with_unread_bytes_aborts_the_peer() {
    //= CLOSE-003 test
    for flip in [false, true] {
        let mut world = World::new(21);
        let ends = world.open();
        let (writer, closer) = if flip { (ends.1, ends.0) } else { ends };
        if let Some(app) = world.sim.app_mut(closer) {
            app.pause(true);
        }
        world.sim.write(writer, b"you will not read this");
        world.sim.run_for(MILLI);
        world.sim.close(closer);
        world.sim.run_for(Duration::from_secs(10));
        let reasons = [closer, writer].map(|end| world.sim.state(end).and_then(|s| s.closed));
        let expected = [CloseReason::LocalAbort, CloseReason::PeerAbort].map(Some);
        assert_eq!(reasons, expected, "{}", world.sim.trace());
        world.end(&[ends.0, ends.1]);
    }
}

#[test]
fn an_abort_of_either_side_ends_both() {
    //= ABORT-002 test
    //= ABORT-005 test
    //= ABORT-008 test
    //= ABORT-009 test
    for flip in [false, true] {
        for bytes in [0, 10, 200_000] {
            let mut world = World::new(22);
            let ends = world.open();
            let (one, other) = if flip { (ends.1, ends.0) } else { ends };
            for end in [one, other] {
                if let Some(app) = world.sim.app_mut(end) {
                    app.write_pattern(1, bytes);
                }
            }
            world.sim.run_for(Duration::from_micros(20));
            world.sim.abort(one);
            world.sim.run_for(Duration::from_secs(10));
            let reasons = [one, other].map(|end| world.sim.state(end).and_then(|s| s.closed));
            let expected = [CloseReason::LocalAbort, CloseReason::PeerAbort].map(Some);
            assert_eq!(reasons, expected, "{}", world.sim.trace());
            world.end(&[ends.0, ends.1]);
        }
    }
}

#[test]
fn declines_that_cross_at_any_distance_reach_no_application() {
    //= CASE-A06 test
    // The client gives up waiting for its RNIC when the server gives up waiting
    // for CONFIRM LINK, a little earlier or later (reliability A6).
    //= CLC-051 test
    //= CLC-064 test
    use smc_proto::time::Duration as D;
    use smc_transport_sim::fault::{FaultPlan, Operation, Trigger};
    for microseconds in (0..400).step_by(5) {
        let mut world = World::with(
            microseconds,
            FabricConfig::default(),
            |config| config.timeouts.control_command = D::from_millis(3_005),
            |config| {
                config.timeouts.decline = D::from_millis(1_000);
                config.timeouts.llc_reply = D::from_micros(1_999_800 + microseconds);
            },
        );
        let stall = Trigger::Nth {
            operation: Operation::ActivateQueuePair,
            number: 1,
        };
        let delay = FaultAction::Delay(D::from_secs(60));
        let client = world.client;
        let plan = FaultPlan::none().with(stall, client, delay);
        world.sim.fabric().set_faults(plan);
        let ends = world.sim.connect(world.client, world.server);
        for end in [ends.0, ends.1] {
            world.sim.write(end, b"first octets of the application");
        }
        world.until("both fell back", |sim| {
            [ends.0, ends.1].iter().all(|end| {
                sim.state(*end)
                    .is_some_and(|s| s.transport == Transport::Tcp)
            })
        });
        world.sim.run_for(D::from_secs(1));
        for end in [ends.0, ends.1] {
            let read = world.sim.read(end);
            assert_eq!(
                String::from_utf8_lossy(&read),
                "first octets of the application",
                "{}",
                world.sim.trace()
            );
            world.sim.finish(end);
        }
        world.end(&[ends.0, ends.1]);
    }
}
