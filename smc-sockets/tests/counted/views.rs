//! What a process publishes of its connections is what they are, and counts what the test counts.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::alone;
use crate::common::rnics::Hosts;
use crate::common::settles;
use rustix::net::{AddressFamily, SocketType};
use smc_proto::wire::types::PeerOs;
use smc_sockets::{Policy, Settings, SmcListener, SmcStream, Stack};
use smc_view::{Connection, Counted, Found, KEYS, Role, Side, Snapshot, Technology, state};

fn read() -> Snapshot {
    Found::at(std::process::id()).unwrap().view.read()
}

fn of_port(port: u16, role: Role) -> (Connection, Counted) {
    let all = read().connections;
    let is = |(at, _): &&(Connection, Counted)| {
        let server = if role == Role::Server {
            at.local
        } else {
            at.peer
        };
        at.role == role && at.state != state::LISTEN && server.port() == port
    };
    *all.iter().find(is).unwrap_or_else(|| panic!("{all:?}"))
}

/// One process publishes once: the parts of this run after another.
#[test]
fn a_process_publishes_what_its_connections_are() {
    if !alone(&a_process_publishes_what_its_connections_are) {
        return;
    }
    let server = Stack::open().unwrap();
    let listener = SmcListener::on(&server, TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = std::thread::spawn(move || (listener.accept().unwrap().0, listener));
    let mut client = SmcStream::connect_on(&Stack::open().unwrap(), address).unwrap();
    let (mut accepted, listener) = accepting.join().unwrap();
    assert!(client.carrier().is_smc(), "{}", client.carrier());

    // `accept` may return before the rendezvous of the server is over.
    settles(Duration::from_secs(5), || read().groups.len() == 2);
    let snapshot = read();
    let listens =
        |(at, _): &(Connection, Counted)| at.state == state::LISTEN && at.local == address;
    assert!(snapshot.connections.iter().any(listens), "{snapshot:?}");
    assert_eq!(snapshot.stacks.len(), 2);
    // Each end knows the EID in common, and the other's host by its name.
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    assert_eq!(snapshot.groups.len(), 2);
    for group in &snapshot.groups {
        assert!(!group.eid.is_empty(), "{group:?}");
        assert_eq!(group.peer_host.to_string(), host[..host.len().min(32)]);
        assert_eq!(group.peer_os, PeerOs::LINUX.0);
    }

    // 150,000 bytes in three calls, and 7 back.
    for _ in 0..3 {
        client.write_all(&[1; 50_000]).unwrap();
    }
    let mut into = vec![0; 150_000];
    accepted.read_exact(&mut into).unwrap();
    // Options count when they are set.
    for nodelay in [true, false] {
        client.set_nodelay(nodelay).unwrap();
    }
    for cork in [true, false, true, false] {
        accepted.set_cork(cork).unwrap();
    }
    accepted.write_all(&[2; 7]).unwrap();
    client.read_exact(&mut into[..7]).unwrap();
    for (role, sent, received) in [(Role::Client, 150_000, 7), (Role::Server, 7, 150_000)] {
        let (at, counted) = of_port(address.port(), role);
        assert_eq!((at.state, at.technology), (state::ACTIVE, Technology::SmcD));
        assert_eq!(
            (counted.sent, counted.received),
            (sent, received),
            "{role:?}"
        );
        assert!(at.receive_buffer > 0 && at.peer_buffer > 0 && at.group.is_some());
        assert!(at.inode != 0, "{at:?}");
    }
    let (one, other) = (
        of_port(address.port(), Role::Client).0,
        of_port(address.port(), Role::Server).0,
    );
    assert_eq!((one.local, one.peer), (other.peer, other.local));
    assert!(one.token != 0 && other.token != 0 && one.token != other.token);
    // Over shared memory nothing names the peer's.
    assert_eq!((one.peer_token, other.peer_token), (0, 0));
    assert_eq!((one.gid, one.peer_gid), (other.peer_gid, other.gid));

    // The states of the end, as the program brings them about.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(accepted.read(&mut into).unwrap(), 0);
    assert_eq!(
        of_port(address.port(), Role::Client).0.state,
        state::PEER_CLOSE_WAIT_1
    );
    assert_eq!(
        of_port(address.port(), Role::Server).0.state,
        state::APP_CLOSE_WAIT_1
    );
    drop((client, accepted));

    // What ended is still counted.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while read()
        .connections
        .iter()
        .any(|(at, _)| at.state != state::LISTEN)
    {
        assert!(
            std::time::Instant::now() < deadline,
            "{:?}",
            read().connections
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let smc_d = read().statistics.smc_d;
    for (key, value) in [
        ("SMC_TX_BYTES", 150_007),
        ("SMC_RX_BYTES", 150_007),
        ("SMC_CLNT_V2_SUCC_CNT", 1),
        ("SMC_SRV_V2_SUCC_CNT", 1),
        ("SMC_USR_TX_BUF_64K", 3),
        ("SMC_USR_TX_BUF_8K", 1),
        ("SMC_NDLY_CNT", 1),
        ("SMC_CORK_CNT", 2),
        ("SMC_RX_RMB_USAGE", 0),
    ] {
        assert_eq!(smc_d.get(key), value, "{key}");
    }

    // A client that knows nothing of SMC: TCP, with the reason.
    let accepting = std::thread::spawn(move || (listener.accept().unwrap().0, listener));
    let _plain = TcpStream::connect(address).unwrap();
    let (accepted, listener) = accepting.join().unwrap();
    let why = *accepted.carrier().why_tcp().unwrap();
    let (at, _) = of_port(address.port(), Role::Server);
    assert_eq!(
        (at.technology, at.reason),
        (Technology::Tcp, why.reason().code.0)
    );
    let view = Found::at(std::process::id()).unwrap().view;
    assert_eq!(view.sentence(at.sentence), Some(why.sentence()));
    assert_eq!(view.sentence(at.remedy), Some(why.remedy()));
    let fallbacks = read().statistics.fallbacks;
    assert_eq!(fallbacks.len(), 1);
    assert_eq!((fallbacks[0].side, fallbacks[0].count), (Side::Server, 1));
    drop((accepted, listener));
    assert!(read().connections.is_empty());
}

/// A program that accepts by itself has its plain clients to itself: they are counted, by reason.
#[test]
fn plain_clients_of_a_program_that_accepts_by_itself_are_counted() {
    if !alone(&plain_clients_of_a_program_that_accepts_by_itself_are_counted) {
        return;
    }
    let mut settings = Settings::default();
    settings.policy = Policy::parse("exclude = [\"127.0.0.2/32\"]").unwrap();
    let server = Stack::with(settings).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    server.announce_listener(&listener).unwrap();
    let port = listener.local_addr().unwrap().port();
    for (from, count) in [("127.0.0.1", 2), ("127.0.0.2", 1)] {
        for _ in 0..count {
            let _client = connect_from(from, port);
            server.accepted(listener.accept().unwrap().0).unwrap_err();
        }
    }
    let view = read();
    let fallbacks: Vec<_> = view.statistics.fallbacks.iter().collect();
    let counts: Vec<_> = fallbacks.iter().map(|at| (at.side, at.count)).collect();
    assert_eq!(
        counts,
        [(Side::Server, 2), (Side::Server, 1)],
        "{fallbacks:?}"
    );
    assert_ne!(fallbacks[0].code, fallbacks[1].code, "{fallbacks:?}");
    assert!(view.connections.is_empty(), "they have no rows");
}

/// A connection from an address of this host.
fn connect_from(address: &str, port: u16) -> OwnedFd {
    let address: IpAddr = address.parse().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::new(address, 0)).unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    rustix::net::connect(&socket, &server).unwrap();
    socket
}

/// What a call is about may exceed the buffers, of which the statistics say that they are too small.
#[test]
fn calls_that_exceed_a_buffer_are_counted() {
    if !alone(&calls_that_exceed_a_buffer_are_counted) {
        return;
    }
    let listener = SmcListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
    let mut client = SmcStream::connect(address).unwrap();
    let mut accepted = accepting.join().unwrap();
    assert!(client.carrier().is_smc(), "{}", client.carrier());
    let (at, _) = of_port(address.port(), Role::Client);
    let size = at.peer_buffer as usize;
    let counts = || {
        let smc_d = read().statistics.smc_d;
        let keys = ["TX_BUF_SIZE_SM_PEER", "TX_BUF_SIZE_SM", "RX_BUF_SIZE_SM"];
        keys.map(|key| smc_d.get(&format!("SMC_INT_{key}_CNT")))
    };
    // Whatever fills a buffer fits it.
    client.write_all(&vec![1; size]).unwrap();
    accepted.read_exact(&mut vec![0; size]).unwrap();
    assert_eq!(counts()[0], 0);
    let room = of_port(address.port(), Role::Server).0.receive_buffer as usize;
    let reading = std::thread::spawn(move || {
        let mut received = 0;
        while received <= size {
            received += accepted.read(&mut vec![0; room + 1]).unwrap();
        }
        (accepted, received)
    });
    client.write_all(&vec![1; size + 1]).unwrap();
    assert_eq!(reading.join().unwrap().1, size + 1);
    let [peer, _, receive] = counts();
    assert!(peer == 1 && receive >= 1, "{:?}", counts());
}

/// Counters of buffers of both ends, by the parts of their keys in the middle.
fn of_buffers<const N: usize>(technology: Technology, keys: [&str; N]) -> [u64; N] {
    let statistics = read().statistics;
    keys.map(|key| {
        let key = format!("SMC_INT_{key}_CNT");
        assert!(KEYS.contains(&&*key), "{key}");
        statistics[technology].get(&key)
    })
}

const FULL: [&str; 4] = [
    "TX_BUF_FULL_PEER",
    "TX_BUF_FULL",
    "RX_BUF_FULL",
    "RX_BUF_FULL_PEER",
];
const TAKEN: [&str; 4] = [
    "TX_BUF_ALLOC",
    "TX_BUF_REUSE",
    "RX_BUF_ALLOC",
    "RX_BUF_REUSE",
];

/// Sends bytes there and back in turn.
fn round_trips(client: &mut SmcStream, server: &mut SmcStream, count: usize) {
    let mut bytes = [7; 64];
    for _ in 0..count {
        client.write_all(&bytes).unwrap();
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
    }
}

/// Connects one client after another, then fills the buffers of the last connection.
fn buffers_are_counted(technology: Technology, mut pair: impl FnMut() -> (SmcStream, SmcStream)) {
    const MOST: u64 = 50;
    let (mut client, mut server) = pair();
    let established = |count: u64| {
        let taken = || of_buffers(technology, TAKEN);
        let all = || taken()[0] + taken()[1] == 2 * count && taken()[2] + taken()[3] == 2 * count;
        assert!(settles(Duration::from_secs(10), all), "{:?}", taken());
        taken()
    };
    assert_eq!(established(1), [2, 0, 2, 0]);
    for count in 2.. {
        round_trips(&mut client, &mut server, 1);
        drop(client);
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
        drop(server);
        // Both sides take in that the other one has closed.
        std::thread::sleep(Duration::from_millis(20));
        (client, server) = pair();
        let [_, sent, _, received] = established(count);
        match technology {
            // Over shared memory each connection is bound anew to its peer's buffer.
            Technology::SmcD if received > 0 => {
                assert_eq!(sent, 0);
                break;
            }
            Technology::SmcR if sent > 0 && received > 0 => break,
            _ => {}
        }
        assert!(count < MOST, "{:?}", of_buffers(technology, TAKEN));
    }

    round_trips(&mut client, &mut server, 100);
    assert_eq!(of_buffers(technology, FULL), [0; 4]);
    client.set_nonblocking(true).unwrap();
    let peer_full = || of_buffers(technology, FULL)[0] > 0;
    let filled = || match (&client).write(&[1; 50_000]) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            peer_full()
        }
    };
    assert!(settles(Duration::from_secs(10), filled));
    let [_, send, receive, _] = of_buffers(technology, FULL);
    // Over shared memory bytes are written to the peer's buffer: there is no other one.
    assert_eq!(send > 0, technology == Technology::SmcR, "{send}");
    assert_eq!(receive, 0, "nothing was read");
    let mut into = [0; 1000];
    assert_eq!(server.read(&mut into).unwrap(), 1000);
    assert_eq!(of_buffers(technology, FULL)[2], 1);
    if technology == Technology::SmcD {
        // There is room again, and nothing sends.
        assert_eq!(server.read(&mut into).unwrap(), 1000);
        assert_eq!(of_buffers(technology, FULL)[2], 1);
    }
    // What has ended is counted still.
    let before = of_buffers(technology, FULL);
    drop((client, server));
    let is_over = || {
        read()
            .connections
            .iter()
            .all(|(at, _)| at.state == state::LISTEN)
    };
    assert!(settles(Duration::from_secs(10), is_over));
    assert_eq!(of_buffers(technology, FULL), before);
}

#[test]
fn buffers_over_shared_memory_that_are_reused_or_full_are_counted() {
    if !alone(&buffers_over_shared_memory_that_are_reused_or_full_are_counted) {
        return;
    }
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::on(&server, TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    buffers_are_counted(Technology::SmcD, || {
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc(), "{}", near.carrier());
        (near, far)
    });
}

#[test]
fn buffers_over_rnics_that_are_reused_or_full_are_counted() {
    if !alone(&buffers_over_rnics_that_are_reused_or_full_are_counted) {
        return;
    }
    let hosts = Hosts::new();
    let listener = hosts.listener();
    let address = listener.local_addr().unwrap();
    buffers_are_counted(Technology::SmcR, || {
        let near = SmcStream::connect_on(&hosts.client, address).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert_eq!(near.carrier().to_string(), "SMC-R v2.1");
        (near, far)
    });
}
