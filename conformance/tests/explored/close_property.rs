//! The close and abort machine with both applications and the network free to
//! act in any order: every run ends CLOSED on both sides, all resources back.

use conformance::world::World;
use proptest::prelude::*;
use smc_proto::completion::LinkFailure;
use smc_proto::time::Duration;
use smc_transport_sim::fault::{Ends, FaultAction};

/// Something one side, or the network, does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Write(bool, u32),
    Pause(bool, bool),
    Finish(bool),
    Close(bool),
    Abort(bool),
    TcpReset(bool),
    LinkFails(u8),
    NoReceives(bool, u32),
    Wait(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let side = any::<bool>;
    prop_oneof![
        6 => (side(), 1..200_000u32).prop_map(|(s, n)| Act::Write(s, n)),
        2 => (side(), side()).prop_map(|(s, on)| Act::Pause(s, on)),
        2 => side().prop_map(Act::Finish),
        2 => side().prop_map(Act::Close),
        1 => side().prop_map(Act::Abort),
        1 => side().prop_map(Act::TcpReset),
        1 => (0..3u8).prop_map(Act::LinkFails),
        1 => (side(), 1..3_000u32).prop_map(|(s, n)| Act::NoReceives(s, n)),
        8 => prop_oneof![1..40u32, 1..2_000u32, 1..10_000_000u32].prop_map(Act::Wait),
    ]
}

fn play(seed: u64, [reset_aborts, open_first]: [bool; 2], acts: &[Act]) {
    let set = |config: &mut smc_proto::config::Config| config.tcp_reset_aborts = reset_aborts;
    let mut world = World::with(seed, Default::default(), set, set);
    let ends = if open_first {
        world.open()
    } else {
        world.sim.connect(world.client, world.server)
    };
    let (client, server) = (world.client, world.server);
    let end = |side| if side { ends.1 } else { ends.0 };
    let host = |side| Some(if side { server } else { client });
    // An application that ended sending writes no more.
    let mut finished = [false; 2];
    for act in acts {
        match *act {
            Act::Write(side, bytes) if !finished[usize::from(side)] => {
                if let Some(app) = world.sim.app_mut(end(side)) {
                    app.write_pattern(seed, bytes.into());
                }
            }
            Act::Pause(side, on) => {
                if let Some(app) = world.sim.app_mut(end(side)) {
                    app.pause(on);
                }
            }
            Act::Write(..) => {}
            Act::Finish(side) => {
                finished[usize::from(side)] = true;
                world.sim.finish(end(side));
            }
            Act::Close(side) => {
                finished[usize::from(side)] = true;
                world.sim.close(end(side));
            }
            Act::Abort(side) => world.sim.abort(end(side)),
            Act::TcpReset(side) => world.fault(host(side), FaultAction::TcpReset),
            Act::LinkFails(which) => {
                let ends = [Ends::Near, Ends::Far, Ends::Both][usize::from(which)];
                let (device, cause) = (None, LinkFailure::Other);
                world.fault(
                    host(which == 0),
                    FaultAction::FailLink {
                        device,
                        ends,
                        cause,
                    },
                );
            }
            Act::NoReceives(side, time) => {
                let time = Duration::from_micros(time.into());
                world.fault(host(side), FaultAction::WithholdReceives(time));
            }
            Act::Wait(time) => {
                world.sim.run_for(Duration::from_micros(time.into()));
            }
        }
    }
    // In the end both applications go.
    for side in [false, true] {
        world.sim.close(end(side));
    }
    world.sim.run_for(Duration::from_secs(200));
    // A writer that waits until everything is written needs a reader at the other end.
    for side in [false, true] {
        if let Some(app) = world.sim.app_mut(end(side)) {
            app.pause(false);
        }
    }
    world.end(&[ends.0, ends.1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_closed_on_both_sides(
        seed in any::<u64>(),
        settings in any::<[bool; 2]>(),
        acts in prop::collection::vec(act(), 0..16),
    ) {
        //= CASE-E02 test
        //= CLOSE-039 test
        //= TIMER-032 test
        //= TIMER-033 test
        play(seed, settings, &acts);
    }
}
