//! Processes that share a listener, which clients have paired with.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::pairing::{self, Peer};

use super::{Announcement, LONG, stack, until_announced, works};
use crate::socket::Socket;
use crate::{PairingTimeouts, Settings, SmcStream, Stack, opening};

/// Workers, each with a stack of its own, and a client that has paired with the first ones.
pub(super) struct Server {
    workers: Vec<Stack>,
    listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) client: Stack,
}

impl Server {
    pub(super) fn new(client: Stack, paired: usize) -> Self {
        Self::with(client, paired, 2)
    }

    fn with(client: Stack, paired: usize, workers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let workers: Vec<_> = std::iter::repeat_with(stack).take(workers).collect();
        workers[0].announce_listener(&listener).unwrap();
        let server = Self {
            workers,
            address: listener.local_addr().unwrap(),
            listener,
            client,
        };
        for worker in 0..paired {
            server.pair(worker);
            until_announced(&server.client, server.address);
        }
        assert_eq!(
            server.answers(),
            0,
            "no worker has answered an announcement"
        );
        server
    }

    /// The workers stay, and listen no more.
    pub(super) fn close(&mut self) {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(std::mem::replace(&mut self.listener, other));
    }

    /// Announcements of the client that were answered.
    fn answers(&self) -> u64 {
        self.client.shard().lock().answers()
    }

    /// The client connects, and TCP accepts.
    fn connect(&self) -> (JoinHandle<SmcStream>, TcpStream) {
        let (client, to) = (self.client.clone(), self.address);
        let near = std::thread::spawn(move || SmcStream::connect_on(&client, to).unwrap());
        (near, self.listener.accept().unwrap().0)
    }

    /// A connection that this worker accepts.
    fn pair(&self, worker: usize) {
        let (near, tcp) = self.connect();
        self.go_on(worker, near, tcp);
    }

    fn go_on(&self, worker: usize, near: JoinHandle<SmcStream>, tcp: TcpStream) {
        let accepting = self.workers[worker].accepted(tcp).expect("it pairs");
        let far = accepting.wait().unwrap();
        let near = near.join().unwrap();
        assert!(near.carrier().is_smc(), "{}", near.carrier());
        assert!(far.carrier().is_smc(), "{}", far.carrier());
        works(near, far);
    }
}

/// There are fewer slots than connections.
//= SHM-080 test
#[test]
fn workers_that_were_met_are_not_called_again_and_another_one_calls() {
    let server = Server::new(stack(), 1);
    server.pair(0);
    assert_eq!(server.answers(), 1);
    server.pair(1);
    assert_eq!(server.answers(), 1, "it has called");
    until_announced(&server.client, server.address);
    for round in 0..600 {
        server.pair(round % 2);
    }
    assert_eq!(server.answers(), 601);
    assert!(server.client.shard().lock().handshakes.is_empty());
}

/// The client proposes when the worker's channel is made, and not only at the end of the time that
/// it may take, which is a second.
//= SHM-080 test
#[test]
fn a_worker_that_calls_is_not_kept_waiting() {
    let server = Server::with(stack(), 1, 16);
    let mut times: Vec<_> = (1..16)
        .map(|worker| {
            let begin = Instant::now();
            server.pair(worker);
            until_announced(&server.client, server.address);
            begin.elapsed()
        })
        .collect();
    times.sort();
    // Of one the machine may have made too much; most of them wait for the channel.
    assert!(times[13] < Duration::from_millis(500), "{times:?}");
}

//= SHM-080 test
#[test]
fn a_worker_that_has_not_accepted_the_connection_cannot_answer_for_it() {
    let server = Server::new(stack(), 2);
    for round in 0..100 {
        let (near, tcp) = server.connect();
        let (holder, liar) = (round % 2, (round + 1) % 2);
        {
            let mut state = server.workers[liar].shard().lock();
            let (local, peer) = (tcp.local_addr().unwrap(), tcp.peer_addr().unwrap());
            let of = state.calling_client(local, peer).expect("it takes calls");
            let announced = state.take_announcement_of(of).expect("it was announced");
            let answer = opening::decline(Default::default(), DiagnosisCode::MEMORY).unwrap();
            let device = state.transports.ism.device_mut();
            assert!(device.send_clc(announced.id, round as u64, &answer));
        }
        server.go_on(holder, near, tcp);
    }
    assert_eq!(server.answers(), 100);
}

/// The answer comes when all workers have been checked, and before the messages of the first one
/// are: taken for one of those, it would leave the announcements to the others behind, and with
/// them slots that no worker ends.
//= SHM-080 test
#[test]
fn an_answer_that_comes_late_is_one_of_several() {
    let server = Server::new(stack(), 2);
    let shard = server.client.shard();
    let tcp = crate::connecting::socket(server.address).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&tcp).unwrap();
    let socket = Arc::new(Socket::new(TcpStream::from(tcp), None, shard.spin));
    let known = shard.known_servers.get(server.address).unwrap();
    let first = server.workers.iter().find(|worker| {
        let gid = |peer: &Peer| {
            worker
                .gids()
                .is_some_and(|own| own.toward(peer.uid) == peer.gid)
        };
        known.peers().first().is_some_and(gid)
    });
    let announcement = Announcement {
        to: server.address,
        peers: known.peers(),
        socket: &socket,
        cookie,
        is_awaited: true,
    };
    // No other thread of the client receives anything meanwhile.
    let mut state = shard.lock();
    let conn = state.announce(shard, &announcement).unwrap();
    pairing::mark_announced(&socket.tcp).unwrap();
    let connected = rustix::net::connect(&socket.tcp, &server.address);
    assert_eq!(connected, Err(rustix::io::Errno::INPROGRESS));
    let (tcp, _) = server.listener.accept().unwrap();
    let accepting = first.unwrap().accepted(tcp).expect("it pairs");
    let begun = accepting.finish().map(drop).map_err(|error| error.kind());
    assert_eq!(begun, Err(std::io::ErrorKind::WouldBlock));
    state.receive_messages(conn, shard.now());
    assert!(!state.is_answered(conn));
    state.receive_answer(conn, shard.now());
    assert!(state.is_answered(conn));
    assert!(state.take_candidates(conn).is_empty());
    state.drain_and_park(shard, shard.now());
    drop(state);
    let far = accepting.wait().unwrap();
    assert!(far.carrier().is_smc(), "{}", far.carrier());
    works(SmcStream::new(server.client.clone(), socket), far);
}

/// A process that shares the listener and does not know SMC.
//= SHM-080 test
#[test]
fn a_process_that_speaks_plain_tcp_gets_no_clc() {
    let pairing_timeouts = PairingTimeouts {
        accept: Duration::from_millis(200),
        grace: Duration::from_millis(5),
        go: LONG,
    };
    let settings = Settings {
        pairing_timeouts,
        ..Settings::default()
    };
    let server = Server::new(Stack::with(settings).unwrap(), 2);
    for speaks_first in [true, false] {
        let (near, mut tcp) = server.connect();
        if speaks_first {
            tcp.write_all(b"hello").unwrap();
        }
        let mut near = near.join().unwrap();
        assert!(!near.carrier().is_smc(), "{}", near.carrier());
        if speaks_first {
            let mut bytes = [0; 5];
            near.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");
        }
        near.write_all(b"plain").unwrap();
        drop(near);
        let mut bytes = Vec::new();
        tcp.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"plain");
        assert_eq!(
            server.client.shard().known_servers.get(server.address),
            None
        );
        for worker in 0..2 {
            server.pair(worker);
        }
    }
}
