//! Whole hosts that change: ports, LANs, clocks, crashes, full tables.

use super::*;
use crate::fault::{FaultKind, PortSelector, TcpFate};

const MILLISECOND: Duration = Duration::from_millis(1);

fn now(simulation: &Simulation) -> Trigger {
    Trigger::At(simulation.now())
}

fn strike(simulation: &mut Simulation, host: HostId, action: FaultAction) {
    let plan = FaultPlan::none().with(now(simulation), host, action);
    simulation.fabric().set_faults(plan);
    simulation.step();
}

/// A port on another RNIC, on another LAN.
fn second_port(number: u8) -> PortConfig {
    let mut port = port(number + 100);
    (port.device, port.subnet) = (DeviceId(1), 7);
    port
}

#[test]
fn a_connection_uses_the_lan_that_both_hosts_are_on() {
    let mut simulation = Simulation::new(FabricConfig::default(), 21);
    let add = |simulation: &mut Simulation, number: u8, ports: &[PortConfig]| {
        let config = Config::new(PeerId::new(number.into(), port(number).mac));
        simulation.add_host("host", config, Limits::for_connections(4), ports)
    };
    // The client's first port is on a LAN of its own.
    let client = add(&mut simulation, 1, &[port(1), second_port(1)]);
    let mut lonely = port(2);
    lonely.subnet = 3;
    let server = add(&mut simulation, 2, &[lonely, second_port(2)]);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    assert_eq!(simulation.state(ends.0).unwrap().transport, Transport::Smc);
    exchange(&mut simulation, ends, 100_000);
    let gid = second_port(1).gid;
    let used = simulation.trace().messages().join("\n");
    assert!(used.contains(&gid.to_string()), "{used}");
}

#[test]
fn without_carrier_a_connection_is_plain_tcp_until_the_port_is_back() {
    let (mut simulation, client, server) = pair(22);
    let (port, time) = (PortSelector::ANY, SECOND);
    strike(
        &mut simulation,
        client,
        FaultAction::PortDown { port, time },
    );
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    assert_eq!(simulation.state(ends.0).unwrap().transport, Transport::Tcp);
    exchange(&mut simulation, ends, 1_000);
    simulation.run_for(SECOND);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    assert_eq!(simulation.state(ends.0).unwrap().transport, Transport::Smc);
}

#[test]
fn a_host_that_crashed_is_another_peer_with_the_same_addresses() {
    //= CASE-H25 test
    for tcp in [TcpFate::Reset, TcpFate::TimeOut(2 * SECOND)] {
        let (mut simulation, client, server) = pair(23);
        simulation.check_invariants();
        let ends = simulation.connect(client, server);
        established(&mut simulation, ends);
        simulation
            .app_mut(ends.0)
            .unwrap()
            .write_pattern(1, 4 << 20);
        simulation.run_for(MILLISECOND / 10);
        let identity = |s: &mut Simulation| s.endpoint(server).unwrap().config().peer_id;
        let before = identity(&mut simulation);
        let down = 10 * MILLISECOND;
        strike(&mut simulation, server, FaultAction::Restart { down, tcp });
        assert_ne!(identity(&mut simulation), before);
        assert!(simulation.state(ends.1).unwrap().crashed);
        assert_eq!(simulation.groups(server), []);
        simulation.run_for(20 * MILLISECOND);
        // The client's old link still waits for an answer.
        let again = simulation.connect(client, server);
        established(&mut simulation, again);
        exchange(&mut simulation, again, 100_000);
        simulation.run_for(60 * SECOND);
        let closed = simulation.state(ends.0).unwrap().closed;
        assert!(
            closed.is_some() && closed != Some(CloseReason::Normal),
            "{closed:?}"
        );
        assert_eq!(simulation.fabric().faults().effective(), 1);
        simulation.run_for(2_000 * SECOND);
        assert_eq!(simulation.leftovers(), []);
        all_is_well(&simulation);
    }
}

#[test]
fn a_host_with_tables_of_its_own_cannot_begin_anew() {
    let mut simulation = Simulation::new(FabricConfig::default(), 24);
    let config = Config::new(PeerId::new(1, port(1).mac));
    let storage = tables(Limits::for_connections(1));
    let host = simulation.add_host_with("fixed", config, storage, &[port(1)]);
    let (down, tcp) = (MILLISECOND, TcpFate::Reset);
    strike(&mut simulation, host, FaultAction::Restart { down, tcp });
    assert_eq!(simulation.findings().count(), 1);
}

#[test]
fn a_clock_that_jumps_lets_waits_expire() {
    let (mut simulation, client, server) = pair(25);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    // One side closes, the other one does not answer: it is waited for a minute.
    simulation.close(ends.0);
    simulation.run_for(SECOND);
    assert_eq!(simulation.state(ends.0).unwrap().closed, None);
    strike(&mut simulation, client, FaultAction::JumpClock(60 * SECOND));
    simulation.run_for(MILLISECOND);
    let closed = simulation.state(ends.0).unwrap().closed;
    assert_eq!(closed, Some(CloseReason::CloseTimeout));
    let effect = simulation.fabric().faults().effects().next().unwrap();
    assert_eq!(effect.kind, FaultKind::JumpClock);
}

#[test]
fn timers_that_ring_late_or_when_a_clock_thaws_count_once_they_did() {
    let minute = 60 * SECOND;
    let (by, time) = (10 * SECOND, 2 * minute);
    for (action, late) in [
        (FaultAction::LateTimers { by, time }, by),
        (FaultAction::FreezeClock(90 * SECOND), 30 * SECOND),
    ] {
        let (mut simulation, client, server) = pair(26);
        let ends = simulation.connect(client, server);
        established(&mut simulation, ends);
        simulation.close(ends.0);
        let closes = simulation.now();
        strike(&mut simulation, client, action);
        assert_eq!(simulation.fabric().faults().effective(), 0);
        let driven = simulation.drive(10 * minute, |s| s.state(ends.0).unwrap().closed.is_some());
        assert_eq!(driven, Driven::Met);
        let waited = simulation.now().since(closes);
        assert!(waited >= minute + late - SECOND, "{action:?}: {waited:?}");
        assert_eq!(simulation.fabric().faults().effective(), 1);
    }
}

#[test]
fn a_server_without_room_declines_before_its_application_speaks() {
    for full in [true, false] {
        let mut simulation = Simulation::new(FabricConfig::default(), 27);
        let mut limits = Limits::for_connections(4);
        let config = |number: u8| Config::new(PeerId::new(number.into(), port(number).mac));
        let client = simulation.add_host("client", config(1), limits, &[port(1)]);
        limits.handshakes = usize::from(!full);
        let server = simulation.add_host("server", config(2), limits, &[port(2)]);
        let ends = simulation.connect(client, server);
        simulation.write(ends.1, b"welcome");
        established(&mut simulation, ends);
        let expected = if full { Transport::Tcp } else { Transport::Smc };
        assert_eq!(simulation.state(ends.0).unwrap().transport, expected);
        simulation.run_for(SECOND);
        assert_eq!(simulation.read(ends.0), b"welcome");
        all_is_well(&simulation);
    }
}

#[test]
fn a_full_send_queue_counts_once_something_had_to_wait_for_it() {
    for writes in [false, true] {
        let (mut simulation, client, server) = pair(28);
        let ends = simulation.connect(client, server);
        established(&mut simulation, ends);
        simulation.run_for(SECOND);
        strike(&mut simulation, client, FaultAction::Busy(5 * MILLISECOND));
        let begins = simulation.now();
        if writes {
            simulation.write(ends.0, b"later");
        }
        simulation.run_for(4 * MILLISECOND);
        assert_eq!(simulation.read(ends.1), b"");
        simulation.run_for(2 * MILLISECOND);
        assert_eq!(simulation.now().since(begins), 6 * MILLISECOND);
        let arrived: &[u8] = if writes { b"later" } else { b"" };
        assert_eq!(simulation.read(ends.1), arrived);
        let effective = simulation.fabric().faults().effective();
        assert_eq!(effective, usize::from(writes));
    }
}

#[test]
fn a_connection_that_nothing_harmed_must_have_survived() {
    let bytes = 1 << 18;
    for harmed in [false, true] {
        let (mut simulation, client, server) = pair(29);
        let ends = simulation.connect(client, server);
        established(&mut simulation, ends);
        if harmed {
            let lose = FaultAction::AcknowledgeAndLose(MILLISECOND);
            let plan = FaultPlan::none().with(now(&simulation), client, lose);
            simulation.fabric().set_faults(plan);
        }
        for end in [ends.0, ends.1] {
            let app = simulation.app_mut(end).unwrap();
            app.write_pattern(1, bytes);
            app.finish();
        }
        simulation.run_for(600 * SECOND);
        let conduct = simulation.conduct(ends, [bytes; 2], true).unwrap();
        assert_eq!(conduct.survivable, !harmed);
        let expected = if harmed {
            crate::oracle::Outcome::Broken
        } else {
            crate::oracle::Outcome::Complete
        };
        assert_eq!(conduct.judge(), Ok(expected));
    }
}
