//! A host with two RNICs, and what of them a connection may use.

use smc_proto::wire::types::{Mac, Mtu};

use super::*;
use crate::pnet::Attached;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn interface(index: u32, name: &str, address: &str, bits: u8) -> Interface {
    Interface {
        index,
        name: name.to_owned(),
        // Few interfaces.
        mac: Mac([2, 0, 0, 0, 0, index as u8]),
        addresses: vec![(ip(address), bits)],
        ..Interface::default()
    }
}

fn mapped(text: &str) -> Gid {
    let IpAddr::V4(address) = ip(text) else {
        panic!("not IPv4: {text}");
    };
    Gid(address.to_ipv6_mapped().octets())
}

fn gid(index: u16, gid: Gid, kind: GidKind, interface: u32) -> GidEntry {
    GidEntry {
        index,
        gid,
        kind,
        interface,
    }
}

fn port(device: &str, gids: Vec<GidEntry>) -> Port {
    Port {
        device: device.to_owned(),
        port: 1,
        active: true,
        ethernet: true,
        mtu: Mtu::M1024,
        pnet: None,
        gids,
    }
}

const LINK_LOCAL: Gid = Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1]);

/// Interface 2 with a RoCEv1 and a RoCEv2 RNIC, its VLAN 7 as interface 3; interface 4
/// with soft-RoCE.
fn host() -> Surroundings {
    let mut vlan = interface(3, "eth0.7", "10.7.0.1", 24);
    (vlan.vlan, vlan.lower) = (Some(7), Some(2));
    let interfaces = vec![
        interface(1, "lo", "127.0.0.1", 8),
        interface(2, "eth0", "10.0.0.1", 24),
        vlan,
        interface(4, "eth1", "10.1.0.1", 24),
    ];
    let mut host = Surroundings::new(Network { interfaces }, PnetTable::default());
    let card = port(
        "mlx5_0",
        vec![
            gid(0, LINK_LOCAL, GidKind::RoceV1, 2),
            gid(1, LINK_LOCAL, GidKind::RoceV2, 2),
            gid(2, mapped("10.0.0.1"), GidKind::RoceV1, 2),
            gid(3, mapped("10.0.0.1"), GidKind::RoceV2, 2),
            gid(4, mapped("10.7.0.1"), GidKind::RoceV1, 3),
            gid(5, mapped("10.7.0.1"), GidKind::RoceV2, 3),
        ],
    );
    host.set_ports(DeviceId(0), [card]);
    let soft = port("rxe0", vec![gid(1, mapped("10.1.0.1"), GidKind::RoceV2, 4)]);
    host.set_ports(DeviceId(1), [soft]);
    host
}

/// Everything behind 10.9.0.0 is behind a gateway, and nothing is at 10.8.
struct Ways;

impl Routes for Ways {
    fn route(&self, _: IpAddr, to: IpAddr) -> Route {
        match to.to_string() {
            to if to.starts_with("10.9.") => Route::Gateway,
            to if to.starts_with("10.8.") => Route::None,
            _ => Route::Direct,
        }
    }
}

fn summary(paths: &[LocalPath]) -> Vec<(u8, u16, RoceVersion)> {
    let of = |path: &LocalPath| (path.device.0, path.gid_index, path.roce);
    paths.iter().map(of).collect()
}

#[test]
fn without_a_table_it_is_the_rnic_of_the_connections_interface() {
    let mut host = host();
    let paths = host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways);
    let both = [(0, 0, RoceVersion::V1), (0, 3, RoceVersion::V2)];
    assert_eq!(summary(&paths), both);
    assert_eq!(paths[0].mac, Mac([2, 0, 0, 0, 0, 2]));
    assert_eq!(paths[0].route, Route::Direct);
    // IPv4 in IPv6 is IPv4.
    let paths = host.client(ip("::ffff:10.0.0.1"), ip("::ffff:10.9.0.2"), &Ways);
    assert_eq!(summary(&paths), both);
    assert_eq!(paths[1].route, Route::Gateway);
    // In a VLAN, the GIDs of that VLAN.
    let paths = host.client(ip("10.7.0.1"), ip("10.7.0.2"), &Ways);
    let tagged = [(0, 4, RoceVersion::V1), (0, 5, RoceVersion::V2)];
    assert_eq!(summary(&paths), tagged);
    assert_eq!(host.vlan(ip("10.7.0.1")), Some(7));
    for local in ["127.0.0.1", "192.0.2.1"] {
        assert!(host.client(ip(local), ip("10.0.0.2"), &Ways).is_empty());
    }
}

#[test]
fn soft_roce_serves_version_1_in_a_lab_only() {
    let mut host = host();
    let client = |host: &mut Surroundings| {
        let paths = host.client(ip("10.1.0.1"), ip("10.1.0.2"), &Ways);
        summary(&paths)
    };
    assert_eq!(client(&mut host), [(1, 1, RoceVersion::V2)]);
    let mut host = host.with_v1_on_rocev2(true);
    let both = [(1, 1, RoceVersion::V1), (1, 1, RoceVersion::V2)];
    assert_eq!(client(&mut host), both);
}

#[test]
fn with_a_pnet_id_all_ports_of_that_network_count() {
    let mut host = host();
    let net = PnetId::new("NET1").unwrap();
    host.facts
        .pnet
        .add(net, Attached::Interface("eth0".into()))
        .unwrap();
    // The interface has an ID, and no port has.
    assert!(
        host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways)
            .is_empty()
    );
    host.facts
        .pnet
        .add(net, Attached::Port("mlx5_0".into(), 1))
        .unwrap();
    host.facts
        .pnet
        .add(net, Attached::Port("rxe0".into(), 1))
        .unwrap();
    // The other interface is in another network of IP, so it cannot serve version 2.
    let paths = host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways);
    let own = [(0, 0, RoceVersion::V1), (0, 3, RoceVersion::V2)];
    assert_eq!(summary(&paths), own);
    host.facts.network.interfaces[3].addresses = vec![(ip("10.0.0.3"), 24)];
    let paths = host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways);
    assert_eq!(summary(&paths)[2..], [(1, 1, RoceVersion::V2)]);
    assert_eq!(paths[1].lan, paths[2].lan);
    // The hardware's PNET ID takes precedence over the table's.
    host.facts.ports[1].1.pnet = Some(PnetId::new("NET2").unwrap());
    let paths = host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways);
    assert_eq!(summary(&paths), own);
}

#[test]
fn ports_in_one_network_of_ip_are_on_one_lan_and_others_are_not() {
    let mut host = host();
    let lan = |host: &mut Surroundings, device| host.port(DeviceId(device), 1)[0].lan;
    assert_ne!(lan(&mut host, 0), lan(&mut host, 1));
    host.facts.network.interfaces[3].addresses = vec![(ip("10.0.0.3"), 24)];
    assert_eq!(lan(&mut host, 0), lan(&mut host, 1));
    host.facts.ports[0].1.active = false;
    assert!(host.port(DeviceId(0), 1).is_empty());
    assert!(
        host.client(ip("10.0.0.1"), ip("10.0.0.2"), &Ways)
            .is_empty()
    );
    assert!(host.port(DeviceId(7), 1).is_empty());
}

#[test]
fn clients_announce_their_networks_and_servers_compare() {
    //= RENDEZVOUS-004 test
    //= RENDEZVOUS-005 test
    let mut host = host();
    let subnets = host.subnets(ip("10.0.0.1")).unwrap();
    assert_eq!(subnets.network.to_string(), "10.0.0.0");
    assert_eq!(subnets.prefix_length, 24);
    assert!(host.facts.shares_subnet(ip("10.0.0.1"), &subnets));
    assert!(!host.facts.shares_subnet(ip("10.7.0.1"), &subnets));
    let mut wider = subnets.clone();
    wider.prefix_length = 16;
    assert!(!host.facts.shares_subnet(ip("10.0.0.1"), &wider));
    let more = [(ip("fd00:5::1"), 64), (ip("fe80::1"), 64)];
    host.facts.network.interfaces[1].addresses.extend(more);
    let subnets = host.subnets(ip("fd00:5::1")).unwrap();
    assert_eq!((subnets.ipv6.len(), subnets.ipv6[0].length), (1, 64));
    assert!(host.facts.shares_subnet(ip("fd00:5::1"), &subnets));
    assert_eq!(host.subnets(ip("192.0.2.1")), None);
    // IPv6 has no version 2.
    let paths = host.client(ip("fd00:5::1"), ip("fd00:5::2"), &Ways);
    assert_eq!(summary(&paths), [(0, 0, RoceVersion::V1)]);
}
