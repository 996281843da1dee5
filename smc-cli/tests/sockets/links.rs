//! `smcx links`, `smcx info` and `smcx devices -d`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::symlink;

use serde_json::Value;
use smc_sockets::{SmcListener, SmcStream, Stack};
use smc_view::{
    Connection, Counted, GroupRecord, Label, LinkRecord, Name, Role, Snapshot, Technology, state,
};
use smcx::devices::kernel as kernel_devices;
use smcx::info::kernel::{self as kernel_info, Kernel};
use smcx::links::group::{self, Group};
use smcx::links::kernel;
use smcx::links::text;

use crate::common::{scratch, smcx};

fn connection(group: u64, link: u8) -> (Connection, Counted) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut connection = Connection::new(any, any);
    connection.state = state::ACTIVE;
    connection.technology = Technology::SmcR;
    connection.group = Some(group);
    connection.link = link;
    connection.send_buffer = 1000;
    connection.receive_buffer = 65_536;
    (connection, Counted::default())
}

fn link(number: u64, link: u8, active: bool, gids: [u8; 2]) -> LinkRecord {
    let mut value = LinkRecord::default();
    value.number = number;
    value.group = 1 << 32 | 5;
    value.link = link;
    value.active = active;
    value.port = 1;
    value.device = Name::of("mlx5_0");
    value.interface = Name::of("eth0");
    value.pnet = Name::of("NET1");
    value.gid = [gids[0]; 16];
    value.peer_gid = [gids[1]; 16];
    value
}

/// A group of SMC-R with two links and three connections beside a closed one; one of SMC-D whose
/// number is the same but for its generation; and what has the same numbers in another stack.
fn snapshot() -> Snapshot {
    let number = 1 << 32 | 5;
    let mut group = GroupRecord::default();
    group.number = number;
    group.technology = Technology::SmcR;
    group.role = Role::Server;
    group.version = 2;
    group.release = 1;
    group.max_links = 2;
    group.direct = true;
    group.vlan = 0x64;
    group.eid = Label(*b"COMPANY.EID                     ");
    group.peer_host = Label(*b"host2.example\x1b                  ");
    group.peer_os = 2;
    let mut smcd = GroupRecord::default();
    smcd.number = 5;
    smcd.technology = Technology::SmcD;
    let mut closed = connection(number, 1);
    closed.0.state = state::CLOSED;
    let mut of_another_stack = connection(number, 1);
    of_another_stack.0.stack = 2;
    let mut value = Snapshot::default();
    value.groups = vec![smcd, group];
    value.links = vec![link(2, 2, true, [2, 4]), link(1, 1, true, [1, 3]), {
        let mut value = link(1, 1, false, [1, 3]);
        value.stack = 2;
        value
    }];
    value.connections = vec![
        connection(number, 1),
        connection(number, 2),
        connection(number, 1),
        closed,
        of_another_stack,
    ];
    value
}

fn groups(snapshot: &Snapshot) -> Vec<Group> {
    group::of(&(4242, "redis-server".to_owned()), snapshot)
}

fn shown(groups: &[Group], details: u8) -> String {
    let mut out = Vec::new();
    text::write(groups, details, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A hostile process has as many groups, links and connections as a view can have, all with the
/// same number: no row counts twice, and reading them takes no time to speak of.
#[test]
fn rows_with_the_same_number_are_in_one_group() {
    const GROUPS: usize = 1024;
    const LINKS: usize = 1024;
    const CONNECTIONS: usize = 16_384;
    let number = 1 << 32 | 5;
    let mut one = GroupRecord::default();
    one.number = number;
    one.technology = Technology::SmcR;
    let mut of_memory = one;
    of_memory.technology = Technology::SmcD;
    let mut hostile = Snapshot::default();
    hostile.groups = vec![one; GROUPS];
    hostile.links = vec![link(1, 1, true, [1, 3]); LINKS];
    hostile.connections = vec![connection(number, 1); CONNECTIONS];
    // A group of the other technology may have the number, too.
    hostile.groups[0] = of_memory;
    let began = std::time::Instant::now();
    let groups = groups(&hostile);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert_eq!(groups.len(), GROUPS);
    let links: usize = groups.iter().map(|group| group.links.len()).sum();
    assert!(links <= LINKS, "{links} links");
    let connections: u64 = groups.iter().map(|group| group.connections).sum();
    assert_eq!(connections, CONNECTIONS as u64);
    let second = &groups[1];
    assert_eq!(
        (second.links.len(), second.connections),
        (LINKS, connections)
    );
}

#[test]
fn groups_and_links_have_the_columns_of_smc_tools() {
    let groups = groups(&snapshot());
    assert_eq!(
        shown(&groups, 0),
        "SMC-D link groups\n\
         LG-ID    VLAN  #Conns  PNET-ID          Process\n\
         00000005    0       0                   4242/redis-server\n\
         \n\
         SMC-R link groups\n\
         LG-ID    LG-Role  LG-Type  VLAN  #Conns  PNET-ID          Process\n\
         00000005 SERV     SYM      0x64       3  NET1             4242/redis-server\n\
         \n\
         SMC-R links\n\
         LG-ID    LG-Role  LG-Type  Net-Dev         Link-State      #Conns  Process\n\
         00000005 SERV     SYM      eth0            LINK_ACTIVE          2  4242/redis-server\n\
         00000005 SERV     SYM      eth0            LINK_ACTIVE          1  4242/redis-server\n"
    );
    let details = shown(&groups[1..], 2);
    for expected in [
        "LG-ID    : 00000005\nProcess  : 4242/redis-server\nLG-Role  : SERV\nLG-Type  : SYM\n\
         VLAN     : 64\nPNET-ID  : NET1\nVersion  : 2\nPeer-Rel : 1\nPeer-Host: host2.example?\n\
         Peer-OS  : LINUX\nDirect   : Yes\nEID      : COMPANY.EID\n#Conns   : 3\nSndbuf   : 3000 B\n\
         RMB      : 196608 B\n",
        "LG-ID    LG-Role  LG-Type  Net-Dev         Link-State      #Conns  \
         Link-UID  Peer-UID  IB-Dev    IB-P  Local-GID                                 \
         Peer-GID                                  Process\n",
        "00000005 SERV     SYM      eth0            LINK_ACTIVE          2  \
         n/a       n/a       mlx5_0       1  0101:0101:0101:0101:0101:0101:0101:0101   \
         0303:0303:0303:0303:0303:0303:0303:0303   4242/redis-server\n",
    ] {
        assert!(details.contains(expected), "{details}\nlacks\n{expected}");
    }
    let details = shown(&groups[..1], 1);
    assert!(
        details.contains("\nDMB      : 0 B\n") && !details.contains("LG-Role"),
        "{details}"
    );
    assert_eq!(shown(&[], 0), "no link group\n");
}

#[test]
fn the_kind_of_a_group_is_that_of_its_usable_links() {
    let of = |links: &[LinkRecord]| {
        let mut snapshot = snapshot();
        snapshot.links = links.to_vec();
        groups(&snapshot)[1].kind()
    };
    let (first, second) = (link(1, 1, true, [1, 3]), link(2, 2, true, [2, 4]));
    assert_eq!(of(&[]), "NONE");
    assert_eq!(of(&[link(1, 1, false, [1, 3])]), "NONE");
    assert_eq!(of(&[first]), "SINGLE");
    assert_eq!(of(&[first, link(2, 2, false, [2, 4])]), "SINGLE");
    assert_eq!(of(&[first, second]), "SYM");
    // One RNIC here, one RNIC there.
    assert_eq!(of(&[first, link(2, 2, true, [1, 4])]), "ASYML");
    assert_eq!(of(&[first, link(2, 2, true, [2, 3])]), "ASYMP");
}

#[test]
fn link_groups_of_programs_are_listed_while_they_last() {
    let stack = Stack::open().unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = SmcListener::on(&stack, tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
    let mut near = SmcStream::connect_on(&Stack::open().unwrap(), address).unwrap();
    let mut far = accepting.join().unwrap();
    assert!(near.carrier().is_smc(), "{}", near.carrier());
    near.write_all(&[1]).unwrap();
    far.read_exact(&mut [0]).unwrap();
    let outcome = smcx(["links", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let objects = outcome.stdout.lines();
    let objects = objects.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = objects.filter(|of| of["process"] == std::process::id());
    let own: Vec<_> = own.filter(|of| of["connections"] == 1).collect();
    for role in ["SERV", "CLNT"] {
        let group = own.iter().find(|of| of["role"] == role);
        let group = group.unwrap_or_else(|| panic!("no {role}: {own:?}"));
        assert_eq!(group["technology"], "SMCD");
        assert!(group["receive_buffers"].as_u64().unwrap() > 0, "{group}");
        assert_ne!(group["gid"], "0000000000000000");
    }
    let table = smcx(["links", "-D"]).stdout;
    assert!(
        table.starts_with("SMC-D link groups\nLG-ID    VLAN  #Conns"),
        "{table}"
    );
    assert!(!smcx(["links", "-R"]).stdout.contains("SMC-D"));
    assert_eq!(smcx(["links", "-R", "-D"]).status, 2);
    assert_eq!(smcx(["links", "-d", "--json"]).status, 2);
    drop((near, far));
}

#[test]
fn info_has_the_rows_of_smc_tools() {
    let root = scratch("info");
    fs::write(
        root.join("policy.toml"),
        "ueids = [\"BLUE.FABRIC\"]\nsystem-eid = \"IBM-SYSZ-ISMSEID00000000A1B22964\"\n",
    )
    .unwrap();
    let path = |name: &str| root.join(name).display().to_string();
    let fixed = [
        "info".to_owned(),
        "--policy".to_owned(),
        path("policy.toml"),
    ];
    let fixed = fixed.into_iter().chain(["--sysfs".to_owned(), path("")]);
    let shown = smcx(fixed.clone());
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for expected in [
        "SMC Version:      2.1\n",
        &format!("SMC Hostname:     {}\n", host.trim()),
        "SMC-D Features:   v2\n",
        "\nHardware Capabilities\nSEID:             IBM-SYSZ-ISMSEID00000000A1B22964\n\
         UEID:             BLUE.FABRIC SMC-SOCKETS.SHARED-MEMORY\nISM:              n/a\nRoCE:             n/a\n",
    ] {
        assert!(shown.stdout.contains(expected), "{}", shown.stdout);
    }
    let json = smcx(fixed.chain(["--json".to_owned()])).stdout;
    let object: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        object["ueids"],
        serde_json::json!(["BLUE.FABRIC", "SMC-SOCKETS.SHARED-MEMORY"])
    );
    assert_eq!(object["roce"], serde_json::json!([]));
}

/// By the attributes of `SMC_GEN_NETLINK`.
#[test]
fn what_the_kernel_says_of_itself_is_read() {
    let of = attribute;
    let padded = |eid: &str| format!("{eid:<32}\0").into_bytes();
    let system = |ism_v2: u8, smcr_v2: u8| {
        let nest = [
            of(1, &[2]),
            of(2, &[1]),
            of(3, &[ism_v2]),
            of(4, &padded("host\u{1b}[2J")),
            of(6, &[smcr_v2]),
        ];
        of(1, &nest.concat())
    };
    let mut kernel = Kernel::default();
    kernel_info::parse(1, &system(1, 0), &mut kernel);
    kernel_info::parse(9, &of(1, &padded("BLUE.FABRIC")), &mut kernel);
    kernel_info::parse(9, &of(1, &padded("GREEN.FABRIC")), &mut kernel);
    let seid = [
        of(1, &padded("IBM-SYSZ-ISMSEID00000000A1B22964")),
        of(2, &[1]),
    ];
    kernel_info::parse(13, &seid.concat(), &mut kernel);
    let expected = Kernel {
        version: Some((2, 1)),
        hostname: Some("host?[2J".to_owned()),
        smcd: vec!["v1", "v2"],
        smcr: vec!["v1"],
        ueids: vec!["BLUE.FABRIC".to_owned(), "GREEN.FABRIC".to_owned()],
        seid: Some(("IBM-SYSZ-ISMSEID00000000A1B22964".to_owned(), true)),
        ..Kernel::default()
    };
    assert_eq!(kernel, expected);
    // Anything may come.
    for command in [1, 9, 13] {
        let whole = [system(1, 1), of(1, &padded("X"))].concat();
        (0..whole.len()).for_each(|end| kernel_info::parse(command, &whole[..end], &mut kernel));
    }
    (0..1000).for_each(|_| kernel_info::parse(9, &of(1, &padded("X")), &mut kernel));
    assert!(kernel.ueids.len() < 100);
}

#[test]
fn devices_have_the_tables_of_smc_tools() {
    let root = scratch("devices-d");
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "policy.toml",
        "pnet = [{ id = \"net1\", device = \"mlx5_0\" }]",
    );
    let at = |name: &str| format!("class/infiniband/mlx5_0/{name}");
    put(&at("node_type"), "1: CA\n");
    put(&at("ports/1/state"), "4: ACTIVE\n");
    put(&at("ports/1/link_layer"), "Ethernet\n");
    put(
        &at("ports/1/gids/1"),
        "0000:0000:0000:0000:0000:ffff:7f00:0001\n",
    );
    put(&at("ports/1/gid_attrs/types/1"), "RoCE v2\n");
    put(&at("ports/1/gid_attrs/ndevs/1"), "lo\n");
    for (name, text) in [("device", "0x101e\n"), ("function_id", "0x0000aabb\n")] {
        put(&format!("bus/pci/devices/0001:00:00.0/{name}"), text);
    }
    put("bus/pci/devices/0001:00:00.0/pchid", "0x01c0\n");
    let device = root.join("bus/pci/devices/0001:00:00.0");
    symlink(device, root.join(at("device"))).unwrap();
    for (name, text) in [
        ("vendor", "0x1014\n"),
        ("device", "0x04ed\n"),
        ("pchid", "0x07c1\n"),
    ] {
        put(&format!("bus/pci/devices/0000:00:00.0/{name}"), text);
    }
    let path = |name: &str| root.join(name).display().to_string();
    let fixed = [
        "devices".to_owned(),
        "-d".to_owned(),
        "--sysfs".to_owned(),
        path(""),
    ];
    let fixed = fixed
        .into_iter()
        .chain(["--policy".to_owned(), path("policy.toml")]);
    let shown = smcx(fixed.clone());
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""));
    for expected in [
        concat!(
            "Net-Dev         IB-Dev   IB-P  IB-State  Type          Crit   ",
            "FID   PCI-ID        PCHID  #Links  PNET-ID\n",
            "lo              mlx5_0      1    ACTIVE  RoCE_Express3   No   ",
            "aabb  0001:00:00.0  01c0        0  *NET1\n"
        ),
        "\nFID  Type  PCI-ID        PCHID  InUse  #LGs  PNET-ID\n0000 shm                 ffff   ",
        "\n0000 ISM   0000:00:00.0  07c1   No        0  \n",
    ] {
        assert!(
            shown.stdout.contains(expected),
            "{}\nlacks\n{expected}",
            shown.stdout
        );
    }
    let json = smcx(fixed.chain(["--json".to_owned()])).stdout;
    let object: Value = serde_json::from_str(&json).unwrap();
    let port = &object["smcr"][0];
    assert_eq!(port["type"], "RoCE_Express3");
    assert_eq!(
        (&port["critical"], &port["links"]),
        (&false.into(), &0.into())
    );
    assert_eq!(object["smcd"].as_array().unwrap().len(), 2);
}

/// An attribute of netlink.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nest(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(0x8000 | kind, &parts.concat())
}

/// Messages of the kernel about a group of SMC-R, one of its links, and a group of SMC-D.
fn kernel_messages() -> [Vec<u8>; 3] {
    let word = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
    let version_2 = |kind| {
        nest(
            kind,
            &[
                attribute(0, &[2]),
                attribute(1, &[1]),
                attribute(2, &[1]),
                attribute(3, b"COMPANY.EID                     \0"),
                attribute(4, b"zos1.example                    \0"),
            ],
        )
    };
    let group = [
        word(1, 0x0102_0304),
        attribute(2, &[1]),
        attribute(3, &[3]),
        attribute(4, b"NET1\0"),
        attribute(5, &[0x64]),
        word(6, 7),
        version_2(7),
        nest(
            8,
            &[attribute(1, &[1]), attribute(2, &[16]), attribute(3, &[2])],
        ),
        attribute(12, &65_536_u64.to_ne_bytes()),
        word(13, 131_072),
    ];
    let link = [
        attribute(1, &[1]),
        attribute(2, b"mlx5_0\0"),
        attribute(3, &[1]),
        attribute(4, b"fe80:0000:0000:0000:0000:0000:0000:0001\0"),
        attribute(5, b"0000:0000:0000:0000:0000:ffff:c0a8:0002\0"),
        word(6, 7),
        word(7, u32::MAX),
        attribute(8, &[1, 2, 3, 4]),
        attribute(9, &[5, 6, 7, 8]),
        word(10, 2),
    ];
    let smcd = [
        word(1, 9),
        attribute(2, &0x1111_u64.to_ne_bytes()),
        attribute(3, &0x2222_u64.to_ne_bytes()),
        attribute(4, &[0]),
        word(5, 3),
        attribute(6, b"NET2\0"),
        word(7, 0xffff),
        version_2(9),
    ];
    [nest(2, &group), nest(3, &link), nest(4, &smcd)]
}

#[test]
fn groups_of_the_kernel_are_shown_beside_those_of_programs() {
    let (mut groups, mut interfaces) = (Vec::new(), Vec::new());
    for message in kernel_messages() {
        kernel::parse(&message, &mut groups, &mut interfaces);
    }
    assert_eq!(interfaces, [(0, 0, u32::MAX)]);
    let table = shown(&groups, 0);
    for line in [
        "00000009    0       3  NET2             kernel\n",
        "01020304 SERV     ASYMP    0x64       7  NET1             kernel\n",
        "01020304 SERV     ASYMP                    LINK_ACTIVATING      7  kernel\n",
    ] {
        assert!(table.contains(line), "{table}\nlacks\n{line}");
    }
    let details = shown(&groups, 2);
    for expected in [
        "VLAN     : 64\nPNET-ID  : NET1\nVersion  : 2\nPeer-Rel : 1\nPeer-Host: zos1.example\n\
         Peer-OS  : ZOS\nDirect   : Yes\nEID      : COMPANY.EID\n#Conns   : 7\n\
         Sndbuf   : 65536 B\nRMB      : 131072 B\n",
        "01020304  05060708  mlx5_0       1  fe80:0000:0000:0000:0000:0000:0000:0001   ",
        " 0000:0000:0000:0000:0000:ffff:c0a8:0002 ",
    ] {
        assert!(details.contains(expected), "{details}\nlacks\n{expected}");
    }
}

/// Whatever the bytes are, nothing but what is complete is listed, and reading them ends.
#[test]
fn what_is_cut_off_or_damaged_is_left_out() {
    let all = kernel_messages();
    for message in &all {
        for end in 0..message.len() {
            let (mut groups, mut interfaces) = (Vec::new(), Vec::new());
            kernel::parse(&message[..end], &mut groups, &mut interfaces);
            assert!(groups.is_empty() && interfaces.is_empty(), "{end}");
        }
    }
    // A link without a group before it, and behind one of SMC-D.
    let (mut groups, mut interfaces) = (Vec::new(), Vec::new());
    for message in [&all[1], &all[2], &all[1]] {
        kernel::parse(message, &mut groups, &mut interfaces);
    }
    assert!(groups.len() == 1 && groups[0].links.is_empty() && interfaces.is_empty());
    // No group has more links than a few.
    kernel::parse(&all[0], &mut groups, &mut interfaces);
    for _ in 0..1000 {
        kernel::parse(&all[1], &mut groups, &mut interfaces);
    }
    assert_eq!((groups[1].links.len(), interfaces.len()), (16, 16));
    let mut seed = 7_u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut message = all[draw() % 3].clone();
        for _ in 0..1 + draw() % 4 {
            let at = draw() % message.len();
            message[at] = draw() as u8;
        }
        let (mut groups, mut interfaces) = (Vec::new(), Vec::new());
        kernel::parse(&message, &mut groups, &mut interfaces);
        let _ = shown(&groups, 2);
    }
}

#[test]
fn devices_of_the_kernel_have_the_columns_of_smc_tools() {
    let word = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
    let short = |kind, value: u16| attribute(kind, &value.to_ne_bytes());
    let port = |kind, by_user: u8, there: u8| {
        nest(
            kind,
            &[
                attribute(1, &[by_user]),
                attribute(2, b"NET1            \0"),
                word(3, u32::MAX),
                attribute(4, &[1]),
                attribute(5, &[there]),
                word(6, 5),
            ],
        )
    };
    let rnic = [
        attribute(2, &[1]),
        word(3, 0x10),
        short(4, 0x01c8),
        short(5, 0x15b3),
        short(6, 0x1016),
        attribute(7, b"0010:00:00.0\0"),
        port(8, 1, 1),
        port(9, 0, 0),
        attribute(10, b"mlx5_0\0"),
    ];
    let ism = [
        word(1, 2),
        attribute(2, &[0]),
        word(3, 0x80),
        short(4, 0x07c1),
        attribute(7, b"0080:00:00.0\0"),
        port(8, 0, 1),
    ];
    let mut devices = Vec::new();
    kernel_devices::parse(&nest(6, &rnic), &mut devices);
    kernel_devices::parse(&nest(5, &ism), &mut devices);
    let mut out = Vec::new();
    kernel_devices::write(&devices, &mut out).unwrap();
    let table = String::from_utf8(out).unwrap();
    for line in [
        "                mlx5_0      1    ACTIVE  RoCE_Express2  Yes   0010  0010:00:00.0  01c8    \
         \u{20}   5  *NET1\n",
        "0080 ISM   0080:00:00.0  07c1   Yes       2  NET1\n",
    ] {
        assert!(table.contains(line), "{table}\nlacks\n{line}");
    }
    let object = kernel_devices::object(&devices);
    assert_eq!(object["smcr"].as_array().map(Vec::len), Some(1));
    assert_eq!(object["smcd"][0]["groups"], 2);
    // Damaged bytes end what is read.
    let whole = nest(6, &rnic);
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let mut message = whole.clone();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (at, byte) = ((seed >> 33) as usize % message.len(), (seed >> 20) as u8);
        message[at] = byte;
        let mut devices = Vec::new();
        kernel_devices::parse(&message, &mut devices);
        kernel_devices::write(&devices, &mut Vec::new()).unwrap();
        assert!(devices.len() <= whole.len() / 4);
    }
}
