//! Policy decides when connections are made and accepted, and streams report which rule did.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::common;
use common::octets;
use common::rnics::rnics;
use smc_sockets::policy::Rule;
use smc_sockets::{
    Carrier, Cause, Limit, Policy, Settings, Side, SmcListener, SmcStream, Stack, WhyTcp,
};
use smc_transport_verbs::soft::Fabric;

fn settings(policy: &str) -> Settings {
    let mut settings = common::settings();
    settings.policy = Policy::parse(policy).unwrap();
    settings
}

fn stack(policy: &str) -> Stack {
    Stack::with(settings(policy)).unwrap()
}

/// A stack with an RNIC in software, which does not use shared memory.
fn with_rnic(fabric: &Fabric, host: u8, policy: &str) -> Stack {
    Stack::with_rnics(settings(policy), rnics(fabric, host, 1).alone()).unwrap()
}

/// Both ends of a connection that carries bytes in both directions.
fn connection(client: &Stack, server: &Stack) -> (SmcStream, SmcStream) {
    let listener = SmcListener::bind_on(server, "127.0.0.1:0").unwrap();
    connection_to(client, &listener)
}

fn connection_to(client: &Stack, listener: &SmcListener) -> (SmcStream, SmcStream) {
    let address = listener.local_addr().unwrap();
    let mut client = SmcStream::connect_on(client, address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let sent = octets(10_000);
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut client, &mut server];
        ends[from].write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        ends[to].read_exact(&mut received).unwrap();
        assert!(received == sent);
    }
    (client, server)
}

fn why(stream: &SmcStream) -> WhyTcp {
    match stream.carrier() {
        Carrier::Tcp(why) => *why,
        carrier => panic!("{carrier}"),
    }
}

fn rule(stream: &SmcStream) -> Rule {
    let why = why(stream);
    assert_eq!(
        (why.smcss().as_str(), why.decided_by()),
        ("0x03000000", Side::Here)
    );
    match why.cause() {
        Cause::Policy(rule) => rule,
        cause => panic!("{cause:?}"),
    }
}

#[test]
fn what_is_permitted_is_smc() {
    let policy = "permit = [\"127.0.0.0/8\"]\ntransports = [\"ism\"]";
    let (client, server) = connection(&stack(policy), &stack(policy));
    for end in [client, server] {
        assert_eq!(end.carrier().to_string(), "SMC-D v2.1");
    }
}

#[test]
fn a_clients_policy_keeps_its_connections_on_tcp() {
    let server = stack("");
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = port.wrapping_add(1);
    for (policy, key) in [
        ("enabled = false".to_owned(), "enabled"),
        ("transports = []".to_owned(), "transports"),
        ("exclude = [\"127.0.0.0/8\"]".to_owned(), "exclude"),
        ("permit = [\"10.0.0.0/8\"]".to_owned(), "permit"),
        (format!("connect-ports = [{other}]"), "connect-ports"),
    ] {
        let (client, server) = connection_to(&stack(&policy), &listener);
        assert_eq!(rule(&client).key(), key);
        assert!(
            client
                .carrier()
                .to_string()
                .contains(&rule(&client).to_string())
        );
        assert!(why(&client).remedy().contains(key));
        // The server receives nothing about it.
        assert_eq!(why(&server).cause(), Cause::NotOffered);
    }
    let permitted = format!("connect-ports = [{port}]");
    let (client, _) = connection_to(&stack(&permitted), &listener);
    assert!(client.carrier().is_smc(), "{}", client.carrier());
}

#[test]
fn a_servers_policy_keeps_its_connections_on_tcp() {
    for (policy, key) in [
        ("enabled = false", "enabled"),
        ("listen-ports = [1]", "listen-ports"),
        ("exclude = [\"127.0.0.1\"]", "exclude"),
    ] {
        // The server does not answer the call, and the client waits only briefly.
        let (client, server) = connection(&Stack::open().unwrap(), &stack(policy));
        assert_eq!(rule(&server).key(), key);
        assert_eq!(
            why(&client).decided_by(),
            Side::Peer,
            "{}",
            client.carrier()
        );
    }
}

#[test]
fn without_shared_memory_nothing_pairs() {
    let (client, server) = connection(&stack("transports = [\"verbs\"]"), &stack(""));
    assert_eq!(why(&client).cause(), Cause::NotOffered);
    assert_eq!(why(&server).cause(), Cause::NotOffered);
}

#[test]
fn memory_that_is_permitted_limits_connections_and_is_named() {
    let (limited, other) = (stack("max-memory = \"256 KiB\""), stack(""));
    let listener = SmcListener::bind_on(&other, "127.0.0.1:0").unwrap();
    let first = connection_to(&limited, &listener);
    assert!(first.0.carrier().is_smc(), "{}", first.0.carrier());
    let (second, _) = connection_to(&limited, &listener);
    let reason = why(&second);
    assert_eq!(reason.cause(), Cause::Limit(Limit::PolicyMemory(256 << 10)));
    assert_eq!(
        (reason.smcss().as_str(), reason.decided_by()),
        ("0x01010000", Side::Here)
    );
    // The limited stack as the server.
    let listener = SmcListener::bind_on(&limited, "127.0.0.1:0").unwrap();
    // The server does not answer the call, and the client waits only briefly.
    let (_, third) = connection_to(&Stack::open().unwrap(), &listener);
    assert_eq!(why(&third).cause(), reason.cause());
}

#[test]
fn ends_that_assume_each_other_speak_smc_r() {
    let fabric = Fabric::default();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let policy = |more: &str| {
        format!("{more}\nassume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]")
    };
    let server = with_rnic(&fabric, 2, &policy(""));
    let listener = SmcListener::on(&server, tcp).unwrap();
    let (client, server) = connection_to(&with_rnic(&fabric, 1, &policy("")), &listener);
    for end in [&client, &server] {
        assert_eq!(end.carrier().to_string(), "SMC-R v2.1");
    }
    drop((client, server));
    // One that knows it is full, or excludes the other one, has to say so: it is waited for.
    let refuses = with_rnic(&fabric, 3, &policy("exclude = [\"127.0.0.1\"]"));
    let (client, server) = connection_to(&refuses, &listener);
    assert_eq!(why(&client).cause().to_rule().unwrap().key(), "exclude");
    assert_eq!(
        why(&server).decided_by(),
        Side::Peer,
        "{}",
        server.carrier()
    );
}

trait ToRule {
    fn to_rule(self) -> Option<Rule>;
}

impl ToRule for Cause {
    fn to_rule(self) -> Option<Rule> {
        match self {
            Cause::Policy(rule) => Some(rule),
            _ => None,
        }
    }
}

#[test]
fn a_server_that_refuses_who_was_promised_clc_declines() {
    let fabric = Fabric::default();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let assume = format!("assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]");
    for (more, code, cause) in [
        ("exclude = [\"127.0.0.1\"]", "0x03000000", None),
        (
            "max-memory = 1",
            "0x01010000",
            Some(Cause::Limit(Limit::PolicyMemory(1))),
        ),
    ] {
        let server = with_rnic(&fabric, 2, &format!("{more}\n{assume}"));
        let listener = SmcListener::on(&server, tcp.try_clone().unwrap()).unwrap();
        let (client, server) = connection_to(&with_rnic(&fabric, 1, &assume), &listener);
        assert_eq!(why(&client).smcss(), format!("0x05000000/{code}"));
        assert_eq!(why(&client).decided_by(), Side::Peer);
        assert_eq!(why(&server).smcss(), code);
        let reason = why(&server).cause();
        assert!(
            reason.to_rule().is_some() || Some(reason) == cause,
            "{reason:?}"
        );
    }
}
