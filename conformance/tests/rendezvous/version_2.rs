//! SMC-R of version 2 between two engines: which version they end on, and that
//! links, buffers and data work in it as they do in version 1.

use conformance::versions::{Meeting, Outcome, eid, group_hosts, group_terms};
use smc_proto::config::{Config, Offers};
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion::{self, V1, V2};
use smc_proto::wire::types::{DiagnosisCode as Code, Hostname, PeerOs, Release};

const NONE: Offers = Offers::empty();
const R1: Offers = Offers::SMCR_V1;
const R2: Offers = Offers::SMCR_V2;

/// What both ends of a connection report of a meeting.
fn ends(meeting: Meeting) -> (Outcome, Outcome) {
    let mut world = meeting.build();
    let ends = world.open();
    world.is_well();
    let outcomes = (world.outcome(ends.0), world.outcome(ends.1));
    world.finish(ends);
    outcomes
}

fn smc(version: SmcVersion) -> (Outcome, Outcome) {
    (Outcome::Smc(version), Outcome::Smc(version))
}

/// The client declines.
fn by_client(code: Code) -> (Outcome, Outcome) {
    (
        Outcome::Tcp(code, None),
        Outcome::Tcp(Code::PEER_DECLINED, Some(code)),
    )
}

/// The server declines.
fn by_server(code: Code) -> (Outcome, Outcome) {
    (
        Outcome::Tcp(Code::PEER_DECLINED, Some(code)),
        Outcome::Tcp(code, None),
    )
}

#[test]
fn every_pair_of_offers_ends_on_the_best_common_version() {
    //= CLC-008 test
    //= V2-100 test
    //= V2-101 test
    //= V2-130 test
    //= V2-136 test
    for (client, server, expected) in [
        (R1 | R2, R1 | R2, smc(V2)),
        (R1 | R2, R2, smc(V2)),
        (R1 | R2, R1, smc(V1)),
        (R1 | R2, NONE, by_server(Code::PEER_NO_SMC)),
        (R2, R1 | R2, smc(V2)),
        (R2, R2, smc(V2)),
        (R2, R1, by_server(Code::PEER_NO_SMC)),
        (R2, NONE, by_server(Code::PEER_NO_SMC)),
        (R1, R1 | R2, smc(V1)),
        (R1, R2, by_server(Code::PEER_NO_SMC)),
        (R1, R1, smc(V1)),
        (R1, NONE, by_server(Code::PEER_NO_SMC)),
        (NONE, R1 | R2, by_client(Code::NO_DEVICE)),
        (NONE, NONE, by_client(Code::NO_DEVICE)),
    ] {
        let found = ends(
            Meeting::new()
                .client(|c| c.offers = client)
                .server(|c| c.offers = server),
        );
        assert_eq!(found, expected, "{client:?} meets {server:?}");
    }
}

#[test]
fn eids_and_addresses_decide_about_version_2() {
    //= V2-031 test
    //= V2-104 test
    //= V2-106 test
    let other = |c: &mut Config| {
        c.v2.ueids = Default::default();
        c.v2.ueids.push(eid("OTHER")).unwrap();
    };
    let alone = |c: &mut Config| {
        other(c);
        c.offers = R2;
    };
    let none = |c: &mut Config| c.v2.ueids = Default::default();
    assert_eq!(ends(Meeting::new().client(other)), smc(V1));
    assert_eq!(ends(Meeting::new().server(other)), smc(V1));
    assert_eq!(ends(Meeting::new().client(none)), smc(V1));
    assert_eq!(ends(Meeting::new().server(none)), smc(V1));
    assert_eq!(
        ends(Meeting::new().client(alone)),
        by_server(Code::NO_DEVICE)
    );
    // IPv6 has version 1 only; as IPv4-mapped IPv6 it is IPv4.
    let ipv6 = |m: Meeting| m.options(|options| options.ipv4 = false);
    assert_eq!(ends(ipv6(Meeting::new())), smc(V1));
    let only_v2 = |c: &mut Config| c.offers = R2;
    assert_eq!(
        ends(ipv6(Meeting::new().client(only_v2))),
        by_client(Code::NO_DEVICE)
    );
    // Without subnets there is no version 1.
    let unknown = |m: Meeting| m.options(|options| options.subnets = None);
    assert_eq!(ends(unknown(Meeting::new())), smc(V2));
    let only_v1 = |c: &mut Config| c.offers = R1;
    let found = ends(unknown(Meeting::new().client(only_v1)));
    assert_eq!(found, by_client(Code::CONFIGURATION));
}

/// For people, who know hosts by their names.
#[test]
fn each_side_knows_the_others_host_and_the_common_eid() {
    let named = |name: &'static str, os: PeerOs| {
        move |c: &mut Config| {
            c.v2.hostname = Hostname::new(name);
            c.v2.os = os;
        }
    };
    let meeting = Meeting::new()
        .client(named("client.example", PeerOs::AIX))
        .server(named("server.example", PeerOs::ZOS));
    let mut world = meeting.build();
    world.open();
    let [client, server] = group_hosts(&mut world).map(|host| host.expect("version 2"));
    assert_eq!(client.name, Hostname::new("server.example"));
    assert_eq!(server.name, Hostname::new("client.example"));
    assert_eq!((client.os, server.os), (PeerOs::ZOS, PeerOs::AIX));
    assert!(client.eid == server.eid && client.eid.is_user());
    // Version 1 has nothing of the kind.
    let mut world = Meeting::new().client(|c| c.offers = R1).build();
    world.open();
    assert_eq!(group_hosts(&mut world), [None, None]);
}

#[test]
fn terms_are_the_lower_of_both_sides() {
    //= V2-056 test
    //= V2-057 test
    //= V2-109 test
    //= V2-212 test
    for (release, connections, links) in [(1, 20, 2), (1, 255, 1), (0, 20, 2), (0, 20, 1)] {
        for side in 0..2 {
            let own = move |c: &mut Config| {
                c.v2.release = Release::new(release);
                c.connections_per_group = connections;
                c.max_links = links;
            };
            let meeting = Meeting::new().rnics(2);
            let meeting = match side {
                0 => meeting.client(own),
                _ => meeting.server(own),
            };
            let mut world = meeting.build();
            let ends = world.open();
            let limits = if release == 1 {
                (connections, links)
            } else {
                (255, 2)
            };
            for terms in group_terms(&mut world) {
                assert_eq!(terms.version, V2);
                assert_eq!(terms.release.number(), release);
                assert_eq!((terms.max_connections, terms.max_links), limits);
            }
            let expected = if limits.1 == 1 { 1 } else { 2 };
            assert_eq!(world.links(), [expected; 2]);
            world.finish(ends);
        }
    }
}

#[test]
fn a_second_link_announces_all_rmbs_in_one_large_message() {
    //= V2-154 test
    //= V2-163 test
    //= V2-185 test
    // The server's second RNIC comes up when there are RMBs to announce.
    let mut world = Meeting::new().rnics(2).build();
    world.second_ports_down(Duration::from_secs(10));
    let all: Vec<_> = (0..5).map(|_| world.open()).collect();
    assert_eq!(world.links(), [1, 1]);
    world.run(Duration::from_secs(60));
    assert_eq!(world.links(), [2, 2]);
    for ends in &all {
        world.exchange(*ends, 100_000);
    }
    world.is_well();
    for ends in all {
        world.finish(ends);
    }
    world.end(&[]);
}

#[test]
fn connections_survive_the_loss_of_a_link_in_version_2() {
    //= V2-217 test
    let mut world = Meeting::new().rnics(2).build();
    let all: Vec<_> = (0..4).map(|_| world.open()).collect();
    assert_eq!(world.links(), [2, 2]);
    world.first_ports_down(Duration::from_secs(5));
    for ends in &all {
        world.exchange(*ends, 300_000);
    }
    world.run(Duration::from_secs(120));
    assert_eq!(world.links(), [2, 2], "the port is back");
    for ends in all {
        world.exchange(ends, 1000);
        world.finish(ends);
    }
    world.end(&[]);
}

#[test]
fn memory_that_an_offered_link_refuses_costs_the_offer_only() {
    // The server registers its memory on the second link before it offers that, since
    // the offer announces the RMBs: first the RMB, then the send buffer.
    for registration in [3, 4] {
        let mut world = Meeting::new().rnics(2).build();
        world.server_refuses_registration(registration);
        let ends = world.open();
        assert_eq!(world.links(), [1, 1]);
        world.run(Duration::from_secs(60));
        assert_eq!(world.links(), [2, 2], "it was offered again");
        world.first_ports_down(Duration::from_secs(5));
        world.exchange(ends, 300_000);
        world.is_well();
        world.finish(ends);
        world.end(&[]);
    }
}
