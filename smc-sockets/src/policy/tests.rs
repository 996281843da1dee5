//! What a policy says, and what is said of a wrong one.

use super::*;

fn server(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn by_default_everything_is_permitted() {
    let policy = Policy::default();
    for address in ["10.0.0.1:80", "[fd00::1]:1", "[::ffff:10.0.0.1]:65535"] {
        assert_eq!(policy.connecting(server(address)), Ok(()));
        let server = server(address);
        assert_eq!(policy.accepting(server.port(), server.ip()), Ok(()));
        assert!(!policy.assumes(server.ip(), server.port()));
    }
    assert_eq!(policy.connections(1 << 20), usize::MAX);
    assert_eq!(Policy::parse("").unwrap(), policy);
}

#[test]
fn every_refusal_names_its_rule() {
    let policy = Policy::parse(
        r#"
        listen-ports = [5000, "6000-6010"]
        connect-ports = ["1-1023"]
        permit = ["10.0.0.0/8", "fd00::/16"]
        exclude = ["10.9.0.0/16", "10.1.1.1"]
        transports = ["ism"]
        "#,
    )
    .unwrap();
    let rule = |verdict: Result<(), Rule>| {
        let rule = verdict.unwrap_err();
        assert!(rule.to_string().starts_with(rule.key()), "{rule}");
        rule.to_string()
    };
    assert_eq!(policy.connecting(server("10.0.0.1:80")), Ok(()));
    assert_eq!(policy.connecting(server("[fd00:0:1::1]:80")), Ok(()));
    assert_eq!(
        rule(policy.connecting(server("10.0.0.1:1024"))),
        "connect-ports does not have 1024"
    );
    // IPv4 is IPv4, however it is written.
    assert_eq!(
        rule(policy.connecting(server("[::ffff:10.9.8.7]:80"))),
        "exclude has \"10.9.0.0/16\""
    );
    assert_eq!(
        rule(policy.connecting(server("10.1.1.1:80"))),
        "exclude has \"10.1.1.1\""
    );
    assert_eq!(
        rule(policy.connecting(server("[fd01::1]:80"))),
        "permit does not have fd01::1"
    );
    let client = "10.0.0.1".parse().unwrap();
    for port in [5000, 6000, 6010] {
        assert_eq!(policy.accepting(port, client), Ok(()));
    }
    for port in [4999, 5001, 6011] {
        assert_eq!(policy.accepting(port, client), Err(Rule::ListenPort(port)));
    }
    let client = "11.0.0.1".parse().unwrap();
    assert_eq!(
        rule(policy.accepting(5000, client)),
        "permit does not have 11.0.0.1"
    );
    assert_eq!(policy.transport(Transport::Ism), Ok(()));
    assert_eq!(
        rule(policy.transport(Transport::Verbs)),
        "transports does not have \"verbs\""
    );
    let off = Policy::parse("enabled = false").unwrap();
    assert_eq!(rule(off.listening(80)), "enabled = false");
    let none = Policy::parse("transports = []").unwrap();
    assert_eq!(rule(none.listening(80)), "transports is empty");
    let nothing = Policy::parse("permit = []").unwrap();
    assert_eq!(
        nothing.connecting(server("10.0.0.1:80")).unwrap_err().key(),
        "permit"
    );
}

#[test]
fn who_is_assumed_to_speak_smc_is_named_by_address_and_port() {
    let policy = Policy::parse(
        r#"
        [[assume-smc]]
        peers = ["192.0.2.0/24", "2001:db8::7"]
        ports = [7000]
        [[assume-smc]]
        peers = ["192.0.2.9"]
        ports = ["1-10"]
        "#,
    )
    .unwrap();
    let assumes = |peer: &str, port| policy.assumes(peer.parse().unwrap(), port);
    assert!(assumes("192.0.2.1", 7000) && assumes("2001:db8::7", 7000));
    assert!(assumes("192.0.2.9", 10) && !assumes("192.0.2.8", 10));
    assert!(!assumes("192.0.3.1", 7000) && !assumes("192.0.2.1", 7001));
}

#[test]
fn memory_limits_the_number_of_connections() {
    for (text, expected) in [
        ("\"1 MiB\"", 4),
        ("1048576", 4),
        ("1048575", 3),
        ("\"100k\"", 0),
    ] {
        let policy = Policy::parse(&format!("max-memory = {text}")).unwrap();
        assert_eq!(policy.connections(256 << 10), expected, "{text}");
    }
    let policy = Policy::parse("max-memory = 5").unwrap();
    for (each, expected) in [(6, 0), (5, 1), (2, 2), (1, 5), (0, 5)] {
        assert_eq!(policy.connections(each), expected, "{each}");
    }
}

#[test]
fn the_grace_of_pairing_is_a_time_in_milliseconds() {
    use std::time::Duration;
    for (text, expected) in [
        ("20", 20),
        ("\"20 ms\"", 20),
        ("\"0ms\"", 0),
        ("10000", 10_000),
    ] {
        let policy = Policy::parse(&format!("pairing-grace = {text}")).unwrap();
        let expected = Some(Duration::from_millis(expected));
        assert_eq!(policy.pairing_grace, expected, "{text}");
    }
    assert_eq!(Policy::parse("").unwrap().pairing_grace, None);
}

#[test]
fn eids_and_physical_networks_are_those_of_the_tools() {
    let policy = Policy::parse(
        r#"
        ueids = ["BLUE.ONE", "RED"]
        system-eid = "IBM-SYSZ-ISMSEID00000000A1B22964"
        pnet = [
          { id = "net1", interface = "eth0" },
          { id = "NET1", device = "mlx5_0" },
          { id = "NET2", device = "mlx5_0", port = 2 },
        ]
        [shun]
        servers = 3
        seconds = 60
        "#,
    )
    .unwrap();
    assert_eq!(
        policy.ueids,
        ["BLUE.ONE", "RED"].map(|of| Eid::user(of).unwrap())
    );
    assert!(policy.system_eid.unwrap().is_system());
    let name = |id: Option<smc_transport_verbs::pnet::PnetId>| id.unwrap().to_string();
    assert_eq!(name(policy.pnet.of_interface("eth0")), "NET1");
    assert_eq!(name(policy.pnet.of_port("mlx5_0", 1)), "NET1");
    assert_eq!(name(policy.pnet.of_port("mlx5_0", 2)), "NET2");
    assert_eq!((policy.shun.servers, policy.shun.time.as_secs()), (3, 60));
}

/// A text with a mistake in the line and the key that are named, and what is said of it.
const WRONG: [(&str, usize, &str, &str); 28] = [
    ("enabled = 1", 1, "enabled", "boolean"),
    ("\nenable = true", 2, "enable", "unknown field"),
    (
        "permit = [\"10.0.0.0/8\",\n\"10.0.0.1/8\"]",
        2,
        "permit[1]",
        "10.0.0.0/8",
    ),
    (
        "exclude = [\"10.0.0.0/33\"]",
        1,
        "exclude[0]",
        "0 to 32 bits",
    ),
    (
        "exclude = [\"localhost\"]",
        1,
        "exclude[0]",
        "neither an address",
    ),
    ("exclude = \"10.0.0.1\"", 1, "exclude", "sequence"),
    (
        "listen-ports = [70000]",
        1,
        "listen-ports[0]",
        "neither a port",
    ),
    (
        "#\nconnect-ports = [\"9-1\"]",
        2,
        "connect-ports[0]",
        "neither a port",
    ),
    ("max-memory = \"64 MB\"", 1, "max-memory", "64 MiB"),
    ("max-memory = -1", 1, "max-memory", "64 MiB"),
    ("pairing-grace = \"20\"", 1, "pairing-grace", "20 ms"),
    ("pairing-grace = \"-1 ms\"", 1, "pairing-grace", "20 ms"),
    ("pairing-grace = \"+1 ms\"", 1, "pairing-grace", "20 ms"),
    ("pairing-grace = -1", 1, "pairing-grace", "20 ms"),
    (
        "pairing-grace = 10001",
        1,
        "pairing-grace",
        "at most 10000 ms",
    ),
    ("ueids = [\"small\"]", 1, "ueids[0]", "0x73"),
    ("ueids = [\"A\",\"B\",\"C\",\"D\"]", 1, "ueids", "at most 3"),
    ("system-eid = \"X\"", 1, "system-eid", "IBM-SYSZ-ISMSEID"),
    (
        "transports = [\"ism\", \"tcp\"]",
        1,
        "transports[1]",
        "unknown variant",
    ),
    ("transports = [\"ism\", \"ism\"]", 1, "transports", "twice"),
    ("tcp-option = true", 1, "tcp-option", "string"),
    (
        "[[pnet]]\nid = \"NET-1\"\ninterface = \"eth0\"",
        1,
        "pnet[0]",
        "letters and digits",
    ),
    (
        "pnet = [\n{ id = \"A\" } ]",
        2,
        "pnet[0]",
        "has an interface",
    ),
    (
        "pnet = [{ id = \"A\", device = \"x\", port = 3 }]",
        1,
        "pnet[0]",
        "1 and 2",
    ),
    ("[shun]\ntime = 4", 2, "shun.time", "unknown field `time`"),
    (
        "\n[[assume-smc]]\npeers = [\"1.2.3.4\"]",
        2,
        "assume-smc[0]",
        "ports",
    ),
    ("\n\n[shun]\nseconds = \"x\"", 4, "shun.seconds", "u64"),
    ("enabled = true\nenabled = false", 2, "enabled", "duplicate"),
];

#[test]
fn every_mistake_is_reported_with_its_line_and_its_key() {
    for (text, line, key, words) in WRONG {
        let error = Policy::parse(text).expect_err(text);
        assert_eq!(error.line(), Some(line), "{text}: {error}");
        assert_eq!(error.key(), key, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn what_is_no_toml_is_reported_with_its_line() {
    for (text, line) in [
        ("enabled = true\npermit = [", 2),
        ("enabled", 1),
        ("\n= 1", 2),
    ] {
        let error = Policy::parse(text).expect_err(text);
        assert_eq!(error.line(), Some(line), "{error}");
    }
}
