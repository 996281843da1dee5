//! `smcx devices`, against file systems made for it.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// A directory like `/sys`, and one for a policy, that go with the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("smcx-devices-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let root = Self(path);
        root.put("policy.toml", "");
        root
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What the command says: its output, its errors, its status.
    fn devices(&self, more: &[&str]) -> (String, String, u8) {
        let at = |name: &str| self.0.join(name).display().to_string();
        let fixed = [
            "smcx",
            "devices",
            "--sysfs",
            &at(""),
            "--policy",
            &at("policy.toml"),
        ];
        let arguments = fixed.iter().chain(more).map(|text| (*text).into());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = smcx::run(arguments, &mut stdout, &mut stderr);
        let text = |octets| String::from_utf8(octets).unwrap();
        (text(stdout), text(stderr), status)
    }

    fn json(&self) -> Value {
        let (stdout, stderr, status) = self.devices(&["--json"]);
        assert_eq!((stderr.as_str(), status), ("", 0));
        assert_eq!(stdout.lines().count(), 1);
        serde_json::from_str(&stdout).unwrap()
    }

    /// A RoCE device whose only interface is the loopback.
    fn rnic(&self, state: &str) {
        let at = |path: &str| format!("class/infiniband/rxe0/{path}");
        self.put(&at("node_type"), "1: CA\n");
        self.put(&at("fw_ver"), "1.2.3\n");
        self.put("class/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
        self.put(&at("ports/1/state"), format!("{state}\n"));
        self.put(&at("ports/1/link_layer"), "Ethernet\n");
        self.put(&at("ports/1/rate"), "2.5 Gb/sec (1X SDR)\n");
        let mapped = "0000:0000:0000:0000:0000:ffff:7f00:0001\n";
        self.put(&at("ports/1/gids/1"), mapped);
        self.put(&at("ports/1/gid_attrs/types/1"), "RoCE v2\n");
        self.put(&at("ports/1/gid_attrs/ndevs/1"), "lo\n");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_machine_without_rdma_gets_a_clear_answer() {
    let root = Root::new("none");
    let (stdout, stderr, status) = root.devices(&[]);
    assert_eq!((stderr.as_str(), status), ("", 0));
    for facts in [
        "Shared memory with processes of this host (SMC-D)\n  usable",
        "RoCE devices (SMC-R): none\n",
        "rdma link add rxe0 type rxe",
        "one machine): none\n",
    ] {
        assert!(stdout.contains(facts), "{stdout}");
    }
    let json = root.json();
    assert_eq!(json["shared_memory"]["usable"], true);
    assert_eq!(
        (&json["rnics"], &json["ism"]),
        (&Value::from([0; 0]), &Value::from([0; 0]))
    );
}

#[test]
fn a_port_is_usable_or_it_is_facts_why_not() {
    let root = Root::new("port");
    root.rnic("4: ACTIVE");
    root.put(
        "policy.toml",
        "pnet = [{ id = \"net1\", device = \"rxe0\" }]",
    );
    let json = root.json();
    let device = &json["rnics"][0];
    assert_eq!(device["name"], "rxe0");
    assert_eq!(
        (&device["firmware"], &device["verbs"]),
        (&"1.2.3".into(), &"uverbs0".into())
    );
    let port = &device["ports"][0];
    for (key, expected) in [
        ("usable", Value::from(true)),
        ("why_not", Value::from([0; 0])),
        ("smc_r_versions", Value::from([2])),
        ("state", "ACTIVE".into()),
        ("interface", "lo".into()),
        // Of the loopback's 65536.
        ("mtu", 4096.into()),
        ("pnet_id", "NET1".into()),
        ("pnet_id_by", "policy".into()),
        ("pause", Value::Null),
    ] {
        assert_eq!(port[key], expected, "{key}");
    }
    let gid = &port["gids"][0];
    assert_eq!(
        (&gid["index"], &gid["type"]),
        (&1.into(), &"RoCE v2".into())
    );
    assert_eq!(gid["gid"], "::ffff:127.0.0.1");
    let (stdout, ..) = root.devices(&[]);
    assert!(stdout.contains("usable for SMC-R v2\n"), "{stdout}");
    assert!(stdout.contains("PNET ID NET1 by policy"), "{stdout}");

    root.rnic("1: DOWN");
    let json = root.json();
    let port = &json["rnics"][0]["ports"][0];
    assert_eq!(port["usable"], false);
    assert_eq!(port["why_not"], Value::from(["the port is DOWN"]));
    let (stdout, _, status) = root.devices(&[]);
    assert!(
        stdout.contains("not usable: the port is DOWN\n"),
        "{stdout}"
    );
    assert_eq!(status, 0);
}

#[test]
fn an_ism_function_is_shown_with_its_user_and_its_network() {
    let root = Root::new("ism");
    let at = |name: &str| format!("bus/pci/devices/0000:00:00.0/{name}");
    root.put(&at("vendor"), "0x1014\n");
    root.put(&at("device"), "0x04ed\n");
    root.put(&at("function_id"), "0x00000080\n");
    let mut utility = [0x40; 64];
    utility[..4].copy_from_slice(&[0xd5, 0xc5, 0xe3, 0xf1]);
    root.put(&at("util_string"), utility);
    let drivers = root.0.join("drivers/ism");
    fs::create_dir_all(&drivers).unwrap();
    std::os::unix::fs::symlink(&drivers, root.0.join(at("driver"))).unwrap();
    let json = root.json();
    let function = &json["ism"][0];
    assert_eq!(function["pnet_id"], "NET1");
    assert_eq!(
        (&function["driver"], &function["usable"]),
        (&"ism".into(), &false.into())
    );
    let (stdout, ..) = root.devices(&[]);
    assert!(
        stdout.contains("not usable: the driver ism has it"),
        "{stdout}"
    );
}

#[test]
fn a_wrong_policy_is_facts_with_its_file_line_and_key() {
    let root = Root::new("policy");
    root.put("policy.toml", "\npermit = [\"10.0.0.1/8\"]\n");
    let (stdout, stderr, status) = root.devices(&[]);
    assert_eq!((stdout.as_str(), status), ("", 1));
    let facts = "policy.toml: line 2: permit[0]: \"10.0.0.1/8\" has bits behind its prefix; \
                the subnet is 10.0.0.0/8\n";
    assert!(
        stderr.starts_with("smcx: policy: ") && stderr.ends_with(facts),
        "{stderr}"
    );
}
