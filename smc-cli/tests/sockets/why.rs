//! `smcx why`, on the loopback.
#![cfg(target_os = "linux")]

use crate::child;

use std::net::TcpListener;

use child::{Listener, User, smcx};
use serde_json::Value;

/// What the command answers about one address.
fn why(address: &str, more: &[&str]) -> Value {
    let all = [&["why", address, "--json"], more].concat();
    let (stdout, stderr, success) = smcx(&User::Own, &all);
    assert!(success && stderr.is_empty(), "{stderr}");
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

fn condition<'a>(of: &'a Value, name: &str) -> &'a Value {
    let all = of["conditions"].as_array().unwrap();
    let found = all.iter().find(|at| at["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {of}"))
}

/// An address with a listener of this test's that knows nothing of SMC.
fn plain() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn where_there_is_no_listener_that_is_the_answer() {
    let (listener, address) = plain();
    drop(listener);
    let answer = why(&address, &["--connect"]);
    assert_eq!(answer["expected"], "nobody");
    assert_eq!(answer["decisive"], "shared memory");
    let memory = condition(&answer, "shared memory");
    assert_eq!(
        (&memory["state"], &memory["whose"]),
        (&"fails".into(), &"peer".into())
    );
    assert!(
        memory["remedy"]
            .as_str()
            .unwrap()
            .contains("Start the server")
    );
    assert_eq!(answer["connected"]["error"], "connection refused");
}

#[test]
fn a_plain_listener_is_the_peers_matter() {
    let (_listener, address) = plain();
    let answer = why(&address, &[]);
    assert_eq!(answer["expected"], "tcp");
    assert_eq!(answer["decisive"], "shared memory");
    assert_eq!(answer["connected"], Value::Null);
    assert_eq!(
        condition(&answer, "route")["found"],
        "from 127.0.0.1, by lo"
    );
    let memory = condition(&answer, "shared memory");
    assert!(
        memory["found"]
            .as_str()
            .unwrap()
            .contains("1 cannot be called")
    );
    let answer = why(&address, &["--connect"]);
    let connected = &answer["connected"];
    assert_eq!(
        (&connected["smc"], &connected["code"]),
        (&false.into(), &"0x03010000".into())
    );
    assert_eq!(connected["decided_by"], "peer");
    assert!(
        connected["remedy"]
            .as_str()
            .unwrap()
            .starts_with("Enable SMC")
    );
}

#[test]
fn a_listener_of_ours_is_met_in_shared_memory() {
    let listener = Listener::start(&User::Own, &["--keep-open", "--exec", "cat"]);
    // A machine with no time to spare may leave a connection on TCP.
    let met = (0..5).any(|_| {
        // What came of it may differ on such a machine.
        let asked = ["why", &listener.address, "--json", "--connect"];
        let answer: Value = serde_json::from_str(&smcx(&User::Own, &asked).0).unwrap();
        assert_eq!(
            (&answer["expected"], &answer["decisive"]),
            (&"smc-d".into(), &Value::Null)
        );
        assert_eq!(condition(&answer, "shared memory")["state"], "holds");
        assert_eq!(condition(&answer, "TCP option")["state"], "idle");
        answer["connected"]["carrier"] == "SMC-D v2.1"
    });
    assert!(met);
    let (text, _, success) = smcx(&User::Own, &["why", &listener.address]);
    let first = format!(
        "A connection to {} would be SMC-D, through shared memory.\n",
        listener.address
    );
    assert!(success && text.starts_with(&first), "{text}");
    assert!(text.contains("│ ✓   shared memory"), "{text}");
}

/// A connection that is not what was expected is a problem: here the process that has the
/// rendezvous is stopped, which only the connection itself shows.
#[test]
fn a_connection_that_was_not_expected_has_status_1() {
    let listener = Listener::start(&User::Own, &["--keep-open", "--exec", "cat"]);
    listener.stop();
    let (stdout, stderr, success) = smcx(
        &User::Own,
        &["why", &listener.address, "--json", "--connect"],
    );
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(answer["expected"], "smc-d");
    assert_eq!(answer["connected"]["carrier"], "TCP");
    assert_eq!(answer["as_expected"], false);
    let found = format!(
        "smcx: {}: expected SMC-D, through shared memory, found TCP: 0x03010000",
        listener.address
    );
    assert!(!success && stderr.starts_with(&found), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// The user that the kernel names for all those it cannot map.
const UNKNOWN: u32 = 65_534;

/// Processes of that user pair with none, in either role: `why` says so before a connection
/// and the connection afterwards, and neither blames the TCP option.
#[test]
fn the_unknown_user_pairs_with_no_process() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test runs processes of another user: run it as root"
    );
    let unknown = User::with_uid(UNKNOWN);
    let arguments = ["--keep-open", "--exec", "cat"];
    let [own, foreign] = [&User::Own, &unknown].map(|user| Listener::start(user, &arguments));
    for (user, listener, whose, words) in [
        (&unknown, &own, "here", "user 65534, to which this process"),
        (&User::Own, &foreign, "peer", "belongs to user 65534, which"),
    ] {
        let asked = ["why", &listener.address, "--json", "--connect"];
        let (stdout, stderr, success) = smcx(user, &asked);
        assert!(success && stderr.is_empty(), "{stderr}");
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["expected"], "tcp", "{answer}");
        assert_eq!(answer["decisive"], "shared memory");
        assert_eq!(answer["as_expected"], true);
        let memory = condition(&answer, "shared memory");
        assert_eq!(
            (&memory["state"], &memory["whose"]),
            (&"fails".into(), &whose.into())
        );
        assert!(
            memory["found"].as_str().unwrap().contains(words),
            "{memory}"
        );
        assert_eq!(answer["connected"]["carrier"], "TCP");
        assert_eq!(answer["connected"]["decided_by"], whose);
    }
    let (stdout, _, _) = smcx(&unknown, &["why", &own.address, "--connect"]);
    assert!(
        stdout.contains("This process belongs to user 65534"),
        "{stdout}"
    );
}

#[test]
fn shared_memory_is_no_matter_for_a_peer_elsewhere() {
    let path = std::env::temp_dir().join(format!("smcx-why-far-{}.toml", std::process::id()));
    std::fs::write(&path, "transports = [\"verbs\"]").unwrap();
    let answer = why("192.0.2.1:7609", &["--policy", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let memory = condition(&answer, "shared memory");
    assert_eq!(
        (&memory["state"], &memory["found"]),
        (&"idle".into(), &"the peer is not on this host".into())
    );
    assert_ne!(answer["decisive"], "shared memory");
}

#[test]
fn a_rule_of_the_policy_is_named_with_its_key() {
    let listener = Listener::start(&User::Own, &["--keep-open", "--exec", "cat"]);
    let path = std::env::temp_dir().join(format!("smcx-why-{}.toml", std::process::id()));
    std::fs::write(&path, "exclude = [\"127.0.0.0/8\"]").unwrap();
    let policy = ["--connect", "--policy", path.to_str().unwrap()];
    let answer = why(&listener.address, &policy);
    assert_eq!(
        (&answer["expected"], &answer["decisive"]),
        (&"tcp".into(), &"policy".into())
    );
    let rule = condition(&answer, "policy");
    assert_eq!(rule["found"], "exclude has \"127.0.0.0/8\"");
    assert!(rule["remedy"].as_str().unwrap().contains("`exclude`"));
    let connected = &answer["connected"];
    assert_eq!(
        (&connected["code"], &connected["decided_by"]),
        (&"0x03000000".into(), &"here".into())
    );
    assert!(
        connected["sentence"]
            .as_str()
            .unwrap()
            .contains("exclude has")
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_rdma_there_is_is_answer_for_peers_elsewhere() {
    let devices = std::fs::read_dir("/sys/class/infiniband");
    let first = devices.ok().and_then(|mut devices| devices.next());
    // An address that no host has.
    let answer = why("192.0.2.77:80", &[]);
    assert_eq!(condition(&answer, "shared memory")["state"], "idle");
    let device = condition(&answer, "RoCE device");
    let Some(first) = first else {
        assert_eq!(answer["expected"], "tcp");
        assert_eq!(
            (&device["state"], &device["whose"]),
            (&"fails".into(), &"here".into())
        );
        assert!(device["remedy"].as_str().unwrap().contains("rdma link add"));
        return;
    };
    // Whether it can be used or not, a device is named, and none has to be made.
    let name = first.unwrap().file_name().into_string().unwrap();
    let found = device["found"].as_str().unwrap();
    assert!(found.contains(" port "), "{name}: {device}");
    let remedy = device["remedy"].as_str().unwrap_or_default();
    assert!(!remedy.contains("rdma link add"), "{name}: {device}");
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let (stdout, stderr, success) = smcx(&User::Own, &["why", "no.such.host.invalid", "80"]);
    assert!(!success && stdout.is_empty());
    assert!(
        stderr.starts_with("smcx: no.such.host.invalid:80: "),
        "{stderr}"
    );
    let (_, stderr, success) = smcx(&User::Own, &["why", "localhost"]);
    assert!(!success && stderr.contains("to which port"), "{stderr}");
}

/// A process without any privilege or RDMA still gets SMC-D between processes of the host
/// and TCP everywhere else, and can ask why.
#[test]
fn without_any_right_there_is_shared_memory_and_an_answer() {
    let user = User::without_rights();
    let listener = Listener::start(&user, &["--keep-open", "--exec", "tr a-z A-Z"]);
    assert_eq!(listener.capabilities(), 0, "it has no right");
    let ask = |address: &str| -> Value {
        let arguments = ["why", address, "--json", "--connect"];
        let (stdout, stderr, success) = smcx(&user, &arguments);
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["as_expected"], success, "{stderr}");
        answer
    };
    let met = (0..5).any(|_| {
        let answer = ask(&listener.address);
        assert_eq!(answer["expected"], "smc-d");
        answer["connected"]["carrier"] == "SMC-D v2.1"
    });
    assert!(met);
    let carried = (0..5).any(|_| {
        let arguments = ["connect", listener.address.as_str()];
        let (stdout, stderr, success) = child::with_input(&user, &arguments, b"octets");
        assert!(success && stdout == "OCTETS", "{stdout}{stderr}");
        stderr.contains(": SMC-D v2.1; 6 bytes sent, 6 received")
    });
    assert!(carried);
    // Elsewhere it is TCP, and the missing capabilities are named.
    let (_plain, address) = plain();
    let answer = ask(&address);
    assert_eq!(answer["expected"], "tcp");
    assert_eq!(answer["connected"]["code"], "0x03010000");
    let option = condition(&answer, "TCP option");
    assert_eq!(option["state"], "fails");
    let found = option["found"].as_str().unwrap();
    assert!(found.contains("lacks CAP_BPF and CAP_NET_ADMIN"), "{found}");
    assert!(option["remedy"].as_str().unwrap().contains("assume-smc"));
    let devices = smcx(&user, &["devices"]);
    assert!(
        devices.2 && devices.0.contains("  usable for every process"),
        "{devices:?}"
    );
}

#[test]
fn the_document_has_every_code_with_its_name() {
    use smc_proto::wire::types::DiagnosisCode;

    let document = include_str!("../../../docs/why-tcp.md");
    for code in DiagnosisCode::ALL {
        let row = format!("| 0x{:08x} | `{}` |", code.0, code.name());
        assert!(document.contains(&row), "docs/why-tcp.md lacks {row}");
    }
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| 0x"))
        .count();
    assert_eq!(rows, DiagnosisCode::ALL.len());
}
