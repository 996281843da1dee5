mod hosts;
mod sweep;

use smc_proto::event::CloseReason;
use smc_proto::wire::types::{DiagnosisCode, Gid, Mac, Mtu, PeerId};

use super::*;
use crate::fault::{Ends, FaultAction, FaultPlan, Operation, Trigger};
use crate::random::StreamHash;
use crate::tcp::TcpSplit;

const SECOND: Duration = Duration::from_secs(1);

fn port(number: u8) -> PortConfig {
    let mut gid = [0; 16];
    [gid[10], gid[11], gid[12], gid[15]] = [0xff, 0xff, 10, number];
    PortConfig {
        device: DeviceId(0),
        port: 1,
        gid: Gid(gid),
        mac: Mac([2, 0, 0, 0, 0, number]),
        mtu: Mtu::M1024,
        subnet: 0,
    }
}

/// Two hosts with one RNIC each.
fn pair(seed: u64) -> (Simulation, HostId, HostId) {
    let mut simulation = Simulation::new(FabricConfig::default(), seed);
    let [client, server] = [("client", 1), ("server", 2)].map(|(name, number)| {
        let config = Config::new(PeerId::new(number.into(), port(number).mac));
        let limits = Limits::for_connections(8);
        simulation.add_host(name, config, limits, &[port(number)])
    });
    (simulation, client, server)
}

fn established(simulation: &mut Simulation, ends: (SocketId, SocketId)) {
    let both = |s: &mut Simulation| {
        [ends.0, ends.1]
            .iter()
            .all(|end| s.state(*end).unwrap().transport != Transport::None)
    };
    let driven = simulation.drive(30 * SECOND, both);
    assert_eq!(driven, Driven::Met, "{}", simulation.trace());
}

fn all_is_well(simulation: &Simulation) {
    let findings: Vec<_> = simulation.findings().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{findings:#?}\n{}", simulation.trace());
}

/// Writes from both ends, reads both, closes both.
fn exchange(simulation: &mut Simulation, ends: (SocketId, SocketId), bytes: u64) {
    for (end, seed) in [(ends.0, 1), (ends.1, 2)] {
        let app = simulation.app_mut(end).unwrap();
        app.forget_bytes();
        app.write_pattern(seed, bytes);
        app.finish();
    }
    let read = |s: &mut Simulation| {
        [ends.0, ends.1]
            .iter()
            .all(|end| s.app(*end).unwrap().is_at_end())
    };
    let driven = simulation.drive(600 * SECOND, read);
    assert_eq!(driven, Driven::Met, "{}", simulation.trace());
    for (one, other) in [ends, (ends.1, ends.0)] {
        assert_eq!(simulation.app(one).unwrap().written().length(), bytes);
        assert_eq!(
            simulation.app(one).unwrap().read(),
            simulation.app(other).unwrap().written()
        );
        assert_eq!(simulation.in_flight_to(one), 0);
    }
    all_is_well(simulation);
}

#[test]
fn two_engines_meet_talk_and_part() {
    let (mut simulation, client, server) = pair(1);
    let ends = simulation.connect(client, server);
    simulation.write(ends.0, b"GET /");
    established(&mut simulation, ends);
    simulation.write(ends.1, b"200 OK");
    simulation.run_for(SECOND);
    assert_eq!(simulation.read(ends.1), b"GET /");
    assert_eq!(simulation.read(ends.0), b"200 OK");
    for end in [ends.0, ends.1] {
        assert_eq!(simulation.state(end).unwrap().transport, Transport::Smc);
        assert!(simulation.state(end).unwrap().first_contact);
        simulation.close(end);
    }
    simulation.run_for(SECOND);
    for end in [ends.0, ends.1] {
        let closed = simulation.state(end).unwrap().closed;
        assert_eq!(closed, Some(CloseReason::Normal), "{}", simulation.trace());
    }
    let transcript = "
        client > server: TCP SYN with SMC option
        server > client: TCP SYN-ACK with SMC option
        client > server: CLC Proposal
        server > client: CLC Accept
        client > server: CLC Confirm
        server > client: LLC CONFIRM LINK
        ...
        client > server: RDMA WRITE 5 octets
        client > server: CDC seq 1
        ...
    ";
    simulation.trace().expect(transcript).unwrap();
    all_is_well(&simulation);
}

#[test]
fn megabytes_cross_both_ways_byte_exact() {
    let (mut simulation, client, server) = pair(2);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    exchange(&mut simulation, ends, 8 << 20);
    assert_eq!(simulation.state(ends.0).unwrap().transport, Transport::Smc);
}

#[test]
fn without_the_option_the_connection_is_plain_tcp() {
    let (mut simulation, client, server) = pair(3);
    let option = SmcOption {
        client_offers: true,
        server_answers: false,
    };
    let ends = simulation.connect_with(client, server, option);
    established(&mut simulation, ends);
    exchange(&mut simulation, ends, 1 << 20);
    assert_eq!(simulation.state(ends.1).unwrap().transport, Transport::Tcp);
}

#[test]
fn after_a_decline_the_connection_is_plain_tcp() {
    //= CASE-B07 test
    for split in [TcpSplit::Whole, TcpSplit::Every(1), TcpSplit::Random(9)] {
        let (mut simulation, client, server) = pair(4);
        let decline = Some(DiagnosisCode::CONFIGURATION);
        simulation.set_policy(
            server,
            Policy {
                decline,
                ..Policy::default()
            },
        );
        let cut = FaultPlan::none().with(
            Trigger::At(Instant::ZERO),
            None,
            FaultAction::TcpSplit(split),
        );
        simulation.fabric().set_faults(cut);
        let ends = simulation.connect(client, server);
        established(&mut simulation, ends);
        exchange(&mut simulation, ends, 10_000);
        assert_eq!(simulation.state(ends.0).unwrap().transport, Transport::Tcp);
        assert!(simulation.state(ends.0).unwrap().fell_back.is_some());
    }
}

#[test]
fn connections_share_a_link_group() {
    let (mut simulation, client, server) = pair(5);
    let first = simulation.connect(client, server);
    established(&mut simulation, first);
    let second = simulation.connect(client, server);
    established(&mut simulation, second);
    assert!(!simulation.state(second.0).unwrap().first_contact);
    assert_eq!(simulation.groups(client).len(), 1);
    exchange(&mut simulation, second, 100_000);
    exchange(&mut simulation, first, 100_000);
}

#[test]
fn a_broken_link_ends_its_connections_cleanly() {
    let (mut simulation, client, server) = pair(6);
    let fail = FaultAction::FailLink {
        device: None,
        ends: Ends::Both,
        cause: smc_proto::completion::LinkFailure::Other,
    };
    let trigger = Trigger::Nth {
        operation: Operation::Write,
        number: 20,
    };
    simulation
        .fabric()
        .set_faults(FaultPlan::none().with(trigger, client, fail));
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    simulation
        .app_mut(ends.0)
        .unwrap()
        .write_pattern(1, 4 << 20);
    simulation.run_for(60 * SECOND);
    for end in [ends.0, ends.1] {
        let closed = simulation.state(end).unwrap().closed;
        assert_eq!(
            closed,
            Some(CloseReason::LinksLost),
            "{}",
            simulation.trace()
        );
    }
    simulation.run_for(2000 * SECOND);
    for host in [client, server] {
        assert_eq!(simulation.fabric().in_use(host), [0, 0, 0]);
    }
    all_is_well(&simulation);
}

fn run(seed: u64) -> (u64, String, Instant) {
    let (mut simulation, client, server) = pair(seed);
    let chance = Trigger::Chance {
        operation: Operation::Sent,
        per_million: 300_000,
    };
    let late = FaultAction::Delay(Duration::from_micros(70));
    let split = FaultAction::TcpSplit(TcpSplit::Random(40));
    simulation
        .fabric()
        .set_faults(FaultPlan::none().with(chance, None, late).with(
            Trigger::At(Instant::ZERO),
            None,
            split,
        ));
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    exchange(&mut simulation, ends, 300_000);
    let mut hasher = StreamHash::new();
    simulation.fingerprint(&mut hasher);
    (
        hasher.value(),
        simulation.trace().to_string(),
        simulation.now(),
    )
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_clone_continues_alike() {
    let (mut simulation, client, server) = pair(9);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    let mut other = simulation.clone();
    exchange(&mut simulation, ends, 50_000);
    exchange(&mut other, ends, 50_000);
    assert_eq!(simulation.now(), other.now());
}

#[test]
fn many_laps_of_every_ring_cross_both_ways() {
    let (mut simulation, client, server) = pair(10);
    let ends = simulation.connect(client, server);
    established(&mut simulation, ends);
    exchange(&mut simulation, ends, 16 << 20);
}
