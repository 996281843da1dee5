//! Devices read from a file system made for it.

use std::fs;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::*;

/// A directory that goes with the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("smc-sysfs-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// A port with GIDs: index, GID, type, interface.
    fn port(&self, device: &str, port: u8, state: &str, gids: &[(u16, &str, &str, &str)]) {
        let at = format!("class/infiniband/{device}/ports/{port}");
        self.put(&format!("{at}/state"), state);
        self.put(&format!("{at}/link_layer"), "Ethernet");
        self.put(&format!("{at}/rate"), "25 Gb/sec (1X EDR)");
        for (index, gid, kind, interface) in gids {
            self.put(&format!("{at}/gids/{index}"), gid);
            if !kind.is_empty() {
                self.put(&format!("{at}/gid_attrs/types/{index}"), kind);
                self.put(&format!("{at}/gid_attrs/ndevs/{index}"), interface);
            }
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn network() -> Network {
    let interface = |index, name: &str, mtu, running| Interface {
        index,
        name: name.to_owned(),
        mtu,
        running,
        ..Interface::default()
    };
    let interfaces = vec![
        interface(2, "eth0", 1500, true),
        interface(3, "eth1", 9000, false),
    ];
    Network { interfaces }
}

const MAPPED: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001";
const LOCAL: &str = "fe80:0000:0000:0000:0000:00ff:fe00:0001";
const NONE: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

#[test]
fn a_machine_without_rdma_has_none() {
    let root = Root::new("none");
    assert_eq!(list(&root.0, &network()).unwrap(), []);
}

#[test]
fn devices_ports_and_gids_are_listed_in_order() {
    let root = Root::new("listed");
    for (device, verbs) in [("rxe0", "uverbs1"), ("mlx5_0", "uverbs0")] {
        root.put(&format!("class/infiniband/{device}/node_type"), "1: CA");
        root.put(&format!("class/infiniband_verbs/{verbs}/ibdev"), device);
    }
    root.put("class/infiniband/mlx5_0/fw_ver", "16.35.4030");
    let gids = [
        (0, LOCAL, "IB/RoCE v1", "eth0"),
        (1, LOCAL, "RoCE v2", "eth0"),
        (2, NONE, "", ""),
        (10, MAPPED, "RoCE v2", "eth0"),
    ];
    root.port("mlx5_0", 1, "4: ACTIVE", &gids);
    root.port("mlx5_0", 2, "1: DOWN", &[]);
    root.port(
        "rxe0",
        1,
        "4: ACTIVE",
        &[(0, MAPPED, "RoCE v2", "elsewhere")],
    );
    let all = list(&root.0, &network()).unwrap();
    let [mlx, rxe] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!((mlx.name.as_str(), rxe.name.as_str()), ("mlx5_0", "rxe0"));
    assert_eq!(mlx.verbs.as_deref(), Some("uverbs0"));
    assert_eq!(mlx.firmware.as_deref(), Some("16.35.4030"));
    let port = &mlx.ports[0];
    assert_eq!(port.rate.as_deref(), Some("25 Gb/sec (1X EDR)"));
    assert_eq!(port.interface.as_deref(), Some("eth0"));
    assert_eq!(port.port.mtu, Mtu::M1024);
    let entry = |entry: &GidEntry| (entry.index, entry.kind, entry.interface);
    let found: Vec<_> = port.port.gids.iter().map(entry).collect();
    let expected = [
        (0, GidKind::RoceV1, 2),
        (1, GidKind::RoceV2, 2),
        (10, GidKind::RoceV2, 2),
    ];
    assert_eq!(found, expected);
    assert_eq!(port.versions(), Versions { v1: true, v2: true });
    assert_eq!(mlx.usable(port, &network()), Ok(port.versions()));
    let down = mlx.usable(&mlx.ports[1], &network()).unwrap_err();
    let words = down.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(words[0], "the port is DOWN");
    assert!(words.contains(&Obstacle::NoGid.to_string()), "{words:?}");
    // Its interface is another namespace's.
    assert_eq!(
        rxe.usable(&rxe.ports[0], &network()),
        Err(vec![Obstacle::NoInterface])
    );
}

#[test]
fn native_ipv6_gids_are_listed_and_serve_no_version_by_themselves() {
    //= V2-028 test
    const NATIVE: &str = "fd00:0010:0000:0000:0000:0000:0000:0001";
    let root = Root::new("native");
    root.put("class/infiniband/mlx5_0/node_type", "1: CA");
    root.put("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
    root.port("mlx5_0", 1, "4: ACTIVE", &[(0, NATIVE, "RoCE v2", "eth0")]);
    let both = [
        (0, NATIVE, "RoCE v2", "eth0"),
        (1, MAPPED, "RoCE v2", "eth0"),
    ];
    root.port("mlx5_0", 2, "4: ACTIVE", &both);
    let all = list(&root.0, &network()).unwrap();
    let [alone, beside] = &all[0].ports[..] else {
        panic!("{all:?}");
    };
    let native: Ipv6Addr = "fd00:10::1".parse().unwrap();
    for port in [alone, beside] {
        assert_eq!(port.port.gids[0].gid.0, native.octets());
    }
    assert_eq!(
        all[0].usable(alone, &network()),
        Err(vec![Obstacle::NoGid]),
        "no peer of today takes it"
    );
    let versions = Versions {
        v1: false,
        v2: true,
    };
    assert_eq!(all[0].usable(beside, &network()), Ok(versions));
}

#[test]
fn every_obstacle_is_reported() {
    let root = Root::new("obstacles");
    root.put("class/infiniband/hfi1_0/node_type", "2: switch");
    root.port("hfi1_0", 1, "4: ACTIVE", &[(0, LOCAL, "RoCE v2", "eth1")]);
    root.put("class/infiniband/hfi1_0/ports/1/link_layer", "InfiniBand");
    let all = list(&root.0, &network()).unwrap();
    let port = &all[0].ports[0];
    assert_eq!(port.port.mtu, Mtu::M4096);
    assert_eq!(
        all[0].usable(port, &network()),
        Err(vec![
            Obstacle::Node("switch".to_owned()),
            Obstacle::NoVerbs,
            Obstacle::NotEthernet,
            Obstacle::Interface("eth1".to_owned()),
            Obstacle::NoGid,
        ])
    );
}
