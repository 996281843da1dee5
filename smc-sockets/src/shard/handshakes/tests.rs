use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::Announcement;
use crate::shard::polling::RECEPTIONS;
use crate::socket::Socket;
use crate::{PairingTimeouts, Settings, SmcListener, SmcStream, Stack};

mod failed;
mod workers;

const LONG: Duration = Duration::from_secs(30);

/// A stack that takes its time: tests run on busy machines.
fn stack() -> Stack {
    let pairing_timeouts = PairingTimeouts {
        accept: LONG,
        grace: LONG,
        go: LONG,
    };
    let settings = Settings {
        pairing_timeouts,
        ..Settings::default()
    };
    Stack::with(settings).unwrap()
}

/// A listener at which no client can call any more, and a client that has called it before.
fn paired_before() -> (SmcListener, SocketAddr, Stack) {
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = stack();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    works(near, far);
    until_announced(&client, address);
    listener.leave_rendezvous();
    (listener, address, client)
}

/// Waits until a client can announce connections to the server at an address that it has paired with.
fn until_announced(client: &Stack, address: SocketAddr) {
    let server = client.shard().known_servers.get(address).unwrap();
    let end = std::time::Instant::now() + LONG;
    let can = || {
        let state = client.shard().lock();
        let device = state.transports.ism.device();
        server.peers().iter().all(|peer| device.can_announce(peer))
    };
    while !can() {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn works(mut near: SmcStream, mut far: SmcStream) {
    let mut bytes = [0; 5];
    near.write_all(b"there").unwrap();
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    far.write_all(b"and b").unwrap();
    near.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"and b");
}

/// The connection of a thread that connects and accepts is accepted by the driver on request.
//= SHM-066 test
//= SHM-068 test
#[test]
fn a_server_that_was_met_is_not_called_again() {
    let (listener, address, client) = paired_before();
    for _ in 0..50 {
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (far, from) = listener.accept().unwrap();
        assert!(near.carrier().is_smc(), "{}", near.carrier());
        assert!(far.carrier().is_smc(), "{}", far.carrier());
        assert_eq!(from, near.local_addr().unwrap());
        works(near, far);
    }
    let state = client.shard().lock();
    assert!(state.handshakes.is_empty());
}

/// A peer rings all the time: messages are received a few times each time that the device is drained, and
/// the drain ends.
//= SHM-065 test
#[test]
fn handshakes_are_received_seldom_however_often_a_peer_rings() {
    let (listener, address, client) = paired_before();
    let shard = client.shard();
    let server = shard.known_servers.get(address).unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::sync::atomic::Ordering;
            let mut state = shard.lock();
            let device = state.transports.ism.device_mut();
            let id = device.announce(&server.peers()[0], 1, b"none").unwrap();
            while !ended.load(Ordering::Relaxed) {
                device.ask_to_accept(id);
            }
            device.end_handshake(id);
        });
        let stack = listener.stack();
        let shard = stack.shard();
        let (mut receptions, mut drains) = (0, 0);
        let end = std::time::Instant::now() + LONG;
        while receptions < 100 {
            assert!(std::time::Instant::now() < end);
            let mut state = shard.lock();
            let before = state.receptions;
            state.drain_completions(shard, shard.now());
            let now = state.receptions - before;
            assert!(now <= RECEPTIONS, "{now} times in one drain");
            receptions += now;
            drains += 1;
        }
        assert!(drains >= 100 / RECEPTIONS);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The driver is woken by other things, too: it polls for a handshake only if the thread that is to
/// go on with it does not. Until that thread sleeps, the server wakes no thread by its answer.
//= SHM-068 test
#[test]
fn the_driver_leaves_a_handshake_to_the_thread_that_waits_for_it() {
    let (_listener, address, client) = paired_before();
    let shard = client.shard();
    // The first connection has ended.
    let end = std::time::Instant::now() + LONG;
    while !shard.lock().is_empty() {
        assert!(std::time::Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(other.local_addr().unwrap()).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&tcp).unwrap();
    let socket = Arc::new(Socket::new(tcp, None, shard.spin));
    let server = shard.known_servers.get(address).unwrap();
    let announcement = Announcement {
        to: address,
        peers: server.peers(),
        socket: &socket,
        cookie,
        is_awaited: true,
    };
    let mut state = shard.lock();
    let conn = state.announce(shard, &announcement).unwrap();
    assert!(!state.transports.ism.device().is_parked());
    let driven = state.handshakes[0].driver_polls_from;
    let early = smc_proto::time::Instant::from_nanos(driven.as_nanos() - 1);
    for (now, is_driven) in [(early, false), (driven, true)] {
        state.take_over_late_handshakes(shard, now);
        assert_eq!(state.entry(conn).unwrap().urgent, is_driven);
        assert_eq!(state.transports.ism.device().is_parked(), is_driven);
    }
    state.withdraw(shard, conn);
}

/// The client gives up a connection that was announced, for instance for want of a descriptor,
/// while its driver takes the answer in and confirms it.
//= SHM-066 test
#[test]
fn a_connection_that_was_answered_is_not_withdrawn() {
    let (listener, address, client) = paired_before();
    let shard = client.shard();
    let tcp = crate::connecting::socket(address).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&tcp).unwrap();
    let socket = Arc::new(Socket::new(TcpStream::from(tcp), None, shard.spin));
    let server = shard.known_servers.get(address).unwrap();
    let announcement = Announcement {
        to: address,
        peers: server.peers(),
        socket: &socket,
        cookie,
        is_awaited: true,
    };
    let conn = shard.lock().announce(shard, &announcement).unwrap();
    let connected = rustix::net::connect(&socket.tcp, &address);
    assert_eq!(connected, Err(rustix::io::Errno::INPROGRESS));
    let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
    let end = std::time::Instant::now() + LONG;
    loop {
        let mut state = shard.lock();
        state.stay_awake(shard, shard.now());
        if state.is_answered(conn) {
            assert_eq!(state.withdraw_unanswered(shard, conn), None);
            break;
        }
        drop(state);
        assert!(std::time::Instant::now() < end);
    }
    let carrier = loop {
        let mut state = shard.lock();
        state.stay_awake(shard, shard.now());
        if let Some(carrier) = socket.status().carrier {
            break carrier;
        }
        drop(state);
        assert!(std::time::Instant::now() < end);
    };
    assert!(carrier.is_smc(), "{carrier}");
    let far = accepting.join().unwrap();
    assert!(far.carrier().is_smc(), "{}", far.carrier());
    works(SmcStream::new(client.clone(), socket), far);
}

/// The first connections of a client have their CLC over TCP, which the driver of the server
/// reads; further ones are announced, and decided by the thread that accepts.
//= SHM-069 test
#[test]
fn connections_are_accepted_in_the_order_in_which_they_were_made() {
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Arc::new(listener);
    for round in 0..60 {
        let client = stack();
        let accepting = std::thread::spawn({
            let listener = Arc::clone(&listener);
            move || (0..6).map(|_| listener.accept()).collect::<Vec<_>>()
        });
        let connect = |_| SmcStream::connect_on(&client, address).unwrap();
        let connected: Vec<_> = (0..6).map(connect).collect();
        let accepted = accepting.join().unwrap();
        for (at, (near, far)) in connected.iter().zip(accepted).enumerate() {
            assert_eq!(
                far.unwrap().1,
                near.local_addr().unwrap(),
                "connection {at} of round {round}"
            );
        }
    }
}

//= SHM-066 test
#[test]
fn many_threads_connect_to_a_server_that_was_met() {
    let (listener, address, client) = paired_before();
    // A client that fails ends the test: nothing waits for the connections it does not make.
    let serving = std::thread::spawn(move || {
        for _ in 0..200 {
            let (mut far, _) = listener.accept().unwrap();
            let mut bytes = [0; 5];
            far.read_exact(&mut bytes).unwrap();
            far.write_all(&bytes).unwrap();
        }
    });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let mut near = SmcStream::connect_on(&client, address).unwrap();
                    assert!(near.carrier().is_smc(), "{}", near.carrier());
                    near.write_all(b"there").unwrap();
                    let mut bytes = [0; 5];
                    near.read_exact(&mut bytes).unwrap();
                    assert_eq!(&bytes, b"there");
                }
            });
        }
    });
    serving.join().unwrap();
}

/// The server's process is there, but another listener has the address: it gets what the client
/// writes, and no byte of CLC.
//= SHM-002 test
//= SHM-011 test
#[test]
fn a_listener_that_does_not_answer_gets_plain_tcp() {
    let server = Stack::open().unwrap();
    let client = Stack::open().unwrap();
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc());
    until_announced(&client, address);
    drop((listener, near));
    let other = rustix_listener(address);
    for _ in 0..2 {
        let accepting = std::thread::spawn({
            let other = other.try_clone().unwrap();
            move || {
                let mut bytes = Vec::new();
                let (mut tcp, _) = other.accept().unwrap();
                tcp.read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        let mut near = SmcStream::connect_on(&client, address).unwrap();
        assert!(!near.carrier().is_smc());
        near.write_all(b"plain").unwrap();
        drop(near);
        assert_eq!(accepting.join().unwrap(), b"plain");
        assert_eq!(
            client.shard().known_servers.get(address),
            None,
            "it is forgotten"
        );
    }
    drop(far);
}

/// A listener at an address at which another one was.
fn rustix_listener(address: SocketAddr) -> TcpListener {
    let end = std::time::Instant::now() + LONG;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The program of the server closes the listener: as with TCP, what it has not accepted is reset.
#[test]
fn a_listener_that_is_dropped_ends_connections_that_were_announced() {
    let (listener, address, client) = paired_before();
    let near = SmcStream::connect_on(&client, address).unwrap();
    assert!(near.carrier().is_smc());
    drop(listener);
    near.set_read_timeout(Some(LONG)).unwrap();
    let mut near = near;
    assert!(matches!(near.read(&mut [0]), Ok(0) | Err(_)));
    assert!(SmcStream::connect_on(&client, address).is_err());
}

/// However long the program is willing to wait: the engine would reset the connection.
//= SHM-011 test
#[test]
fn a_connection_that_nothing_accepts_goes_on_as_tcp_before_the_engine_ends_it() {
    let (server, client) = (stack(), stack());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let far = listener.accept().unwrap();
    assert!(near.carrier().is_smc());
    until_announced(&client, address);
    drop((listener, near));
    let _other = rustix_listener(address);
    let near = SmcStream::connect_on(&client, address).unwrap();
    assert!(!near.carrier().is_smc(), "{}", near.carrier());
    drop(far);
}

/// Many connections that begin at about one time set the driver's timer once.
#[test]
fn the_timer_is_not_set_for_each_of_many_checks() {
    let (_listener, _address, client) = paired_before();
    let shard = client.shard();
    let mut state = shard.lock();
    let now = shard.now();
    let soon = Duration::from_millis(2);
    state.armed = None;
    state.wake_about(shard, now.after(soon), now);
    let first = state.armed;
    assert_eq!(first, Some(now.after(soon)));
    // A little earlier is no reason.
    state.wake_about(shard, now.after(soon / 2), now);
    state.wake_about(shard, now.after(soon * 2), now);
    assert_eq!(state.armed, first);
    state.wake_about(shard, now.after(soon / 4), now);
    assert_eq!(state.armed, Some(now.after(soon / 4)));
}
