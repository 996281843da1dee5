//! Clients that are called back by whichever process has accepted their connections.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::net::{SocketAddrUnix, sockopt};

use super::super::{Answer, Call, Listeners, client_name_of, let_go, mark_listener, survey};
use super::{PATIENT, connect, done, is_plain, listening, paired, socket};
use crate::device::{Gid128, IsmDevice};
use crate::shared::Device;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

const CLIENT: Gid128 = Gid128 { gid: 1, ext: 2 };
const SERVER: Gid128 = Gid128 { gid: 3, ext: 4 };

fn marked(address: &str) -> (TcpListener, SocketAddr) {
    let listener = listening(address);
    mark_listener(&listener).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn call_back(accepted: &TcpStream) -> Option<Answer> {
    Answer::call_back(accepted, &Gids::from(SERVER), |_| false, &PATIENT)
}

/// Polls both sides alternately until both have paired.
#[track_caller]
fn both_pair(tcp: &TcpStream, call: &mut Call, answer: &mut Answer) {
    let end = Instant::now() + PATIENT.go;
    let (mut one, mut two) = (None, None);
    while Instant::now() < end {
        let now = Instant::now();
        one = one.or_else(|| done(call.poll(tcp, |_| false, now).unwrap()));
        two = two.or_else(|| done(answer.poll(now)));
        if let (Some(one), Some(two)) = (one.take_if(|_| two.is_some()), &two) {
            assert!(!is_plain(&one) && !is_plain(two));
            return;
        }
        std::thread::yield_now();
    }
    panic!("neither end comes to an end");
}

/// Does something as another user, in a thread that has taken that user's identity; nothing
/// without root.
fn as_stranger<T: Send>(task: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"));
        eprintln!("SKIPPED: to become another user takes root");
        return None;
    }
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(2_123_009);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            task()
        });
        Some(stranger.join().unwrap())
    })
}

/// Calls a client, as the process that has accepted its connection does.
fn claim(client: &TcpStream, cookie: u64) -> Socket {
    let name = client_name_of(sockopt::socket_cookie(client).unwrap());
    let caller = Socket::unconnected().unwrap();
    rustix::net::connect(&caller, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    let caller = Socket::new(caller);
    let mine = Message::Mine {
        cookie,
        gid: SERVER,
        joined: true,
    };
    caller.send(mine, None).unwrap();
    caller
}

//= SHM-076 test
#[test]
fn a_process_that_accepts_from_a_marked_listener_pairs() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let (listener, address) = marked(address);
        let loopback: std::net::IpAddr = match address.is_ipv4() {
            true => std::net::Ipv4Addr::LOCALHOST.into(),
            false => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let to = SocketAddr::new(loopback, address.port());
        let expected = Listeners {
            all: 1,
            named: 1,
            foreign: None,
        };
        assert_eq!(survey(to).unwrap(), Some(expected), "{address}");
        let (server, client) = (Device::open().unwrap(), Device::open().unwrap());
        let (gids, gid) = (server.gids(), client.facts().gid);
        let uid = rustix::process::geteuid().as_raw();
        let (mut devices, mut last) = ((server, client), None);
        for is_fresh in [true, false] {
            let (tcp, call) = connect(to, gid, PATIENT);
            let accepted = listener.accept().unwrap().0;
            let (server, client) = &mut devices;
            let answer = Answer::call_back(&accepted, &gids, |_| false, &PATIENT);
            let (mut call, mut answer) = (call.unwrap(), answer.unwrap());
            assert!(!call.is_to_one(), "another process may accept the next one");
            let (mut one, mut two) = (None, None);
            while one.is_none() || two.is_none() {
                let now = Instant::now();
                let joined = |peer: &_| client.is_joined(peer);
                one = one.or_else(|| done(call.poll(&tcp, joined, now).unwrap()));
                two = two.or_else(|| done(answer.poll(now)));
            }
            let (one, two) = (paired(one.unwrap()), paired(two.unwrap()));
            assert_eq!((one.peer.gid, two.peer.gid), (gids.toward(uid), gid));
            assert_eq!(
                (one.channel.is_some(), two.channel.is_some()),
                (is_fresh, is_fresh)
            );
            client.admit(one).unwrap();
            server.admit(two).unwrap();
            last = Some((tcp, accepted));
        }
        drop(last);
    }
}

//= SHM-002 test
#[test]
fn a_server_that_does_not_pair_is_not_waited_for() {
    let (listener, to) = marked("127.0.0.1:0");
    // A client that knows nothing of this.
    let _plain = TcpStream::connect(to).unwrap();
    let accepted = listener.accept().unwrap().0;
    assert!(call_back(&accepted).is_none());
    // A listener that is not marked.
    let other = listening("127.0.0.1:0");
    let (_tcp, call) = connect(other.local_addr().unwrap(), CLIENT, PATIENT);
    assert!(call.is_none());
    // Of a group, each has to be.
    let _member = listening(&to.to_string());
    let (_tcp, call) = connect(to, CLIENT, PATIENT);
    assert!(call.is_none());
}

//= SHM-077 test
#[test]
fn a_client_that_is_let_go_has_tcp_at_once() {
    let (listener, to) = marked("127.0.0.1:0");
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let mut call = call.unwrap();
    let accepted = listener.accept().unwrap().0;
    let_go(&accepted).unwrap();
    let outcome = done(call.poll(&tcp, |_| false, Instant::now()).unwrap());
    assert!(is_plain(&outcome.expect("decided")));
    // A process that calls later finds the name gone.
    assert!(call_back(&accepted).is_none());
}

//= SHM-009 test
//= SHM-078 test
#[test]
fn a_call_must_name_the_very_socket() {
    let (listener, to) = marked("127.0.0.1:0");
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let mut call = call.unwrap();
    // Nothing has accepted it.
    let early = claim(&tcp, sockopt::socket_cookie(&listener).unwrap());
    assert!(done(call.poll(&tcp, |_| false, Instant::now()).unwrap()).is_none());
    let accepted = listener.accept().unwrap().0;
    let own = sockopt::socket_cookie(&accepted).unwrap();
    let liars = [0, own + 1, u64::MAX].map(|cookie| claim(&tcp, cookie));
    assert!(done(call.poll(&tcp, |_| false, Instant::now()).unwrap()).is_none());
    for liar in [early].into_iter().chain(liars) {
        assert!(matches!(liar.receive(), Received::End), "dropped");
    }
    let mut answer = call_back(&accepted).unwrap();
    both_pair(&tcp, &mut call, &mut answer);
}

/// All cookies are known to the attacker, as the kernel names them to every process.
//= SHM-006 test
//= SHM-078 test
#[test]
fn a_stranger_that_calls_is_dropped() {
    let (listener, to) = marked("127.0.0.1:0");
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let mut call = call.unwrap();
    let accepted = listener.accept().unwrap().0;
    let cookie = sockopt::socket_cookie(&accepted).unwrap();
    let Some(stranger) = as_stranger(|| claim(&tcp, cookie)) else {
        return;
    };
    assert!(done(call.poll(&tcp, |_| false, Instant::now()).unwrap()).is_none());
    assert!(matches!(stranger.receive(), Received::End), "dropped");
    let mut answer = call_back(&accepted).unwrap();
    both_pair(&tcp, &mut call, &mut answer);
}

/// The kernel's queue of a client's calls is full of a stranger's.
//= SHM-078 test
#[test]
fn calls_of_strangers_keep_no_client_from_pairing() {
    let (listener, to) = marked("127.0.0.1:0");
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let mut call = call.unwrap();
    let accepted = listener.accept().unwrap().0;
    let name = client_name_of(sockopt::socket_cookie(&tcp).unwrap());
    let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
    let flood = as_stranger(|| -> Vec<OwnedFd> {
        let one = || {
            let socket = Socket::unconnected().unwrap();
            rustix::net::connect(&socket, &name).ok()?;
            Some(socket)
        };
        std::iter::from_fn(one).collect()
    });
    let Some(flood) = flood else { return };
    assert!(!flood.is_empty());
    let mut answer = call_back(&accepted).expect("it calls again");
    assert!(answer.sockets().is_empty(), "there is no room");
    both_pair(&tcp, &mut call, &mut answer);
}

//= SHM-054 test
#[test]
fn a_clients_name_that_was_taken_in_advance_keeps_it_not_from_pairing() {
    let (listener, to) = marked("127.0.0.1:0");
    let tcp = socket(to);
    let name = client_name_of(sockopt::socket_cookie(&tcp).unwrap());
    let taken = as_stranger(|| {
        let squatter = Socket::unconnected().unwrap();
        let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
        rustix::net::bind(&squatter, &name).unwrap();
        rustix::net::listen(&squatter, 8).unwrap();
        squatter
    });
    let Some(squatter) = taken else { return };
    let mut call = Call::announce(&tcp, to, CLIENT, PATIENT).unwrap().unwrap();
    rustix::net::connect(&tcp, &to).unwrap();
    let accepted = listener.accept().unwrap().0;
    let mut answer = call_back(&accepted).unwrap();
    both_pair(&tcp.into(), &mut call, &mut answer);
    drop(squatter);
}

//= SHM-011 test
//= SHM-012 test
#[test]
fn what_either_side_gives_up_both_give_up() {
    let (listener, to) = marked("127.0.0.1:0");
    // The client, before it has seen the call.
    let (_tcp, call) = connect(to, CLIENT, PATIENT);
    let accepted = listener.accept().unwrap().0;
    let mut answer = call_back(&accepted).unwrap();
    assert!(is_plain(&call.unwrap().give_up()));
    let outcome = done(answer.poll(Instant::now()));
    assert!(is_plain(&outcome.expect("decided")));
    // The process that accepted, before the client has.
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let accepted = listener.accept().unwrap().0;
    let mut answer = call_back(&accepted).unwrap();
    assert!(is_plain(&answer.give_up()));
    let_go(&accepted).unwrap();
    let outcome = done(call.unwrap().poll(&tcp, |_| false, Instant::now()).unwrap());
    assert!(is_plain(&outcome.expect("decided")));
    // The client has sent GO by then: it counts.
    let (tcp, call) = connect(to, CLIENT, PATIENT);
    let accepted = listener.accept().unwrap().0;
    let mut answer = call_back(&accepted).unwrap();
    let mut call = call.unwrap();
    let _greets = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    let [one, two] = [paired(call.give_up()), paired(answer.give_up())];
    assert_eq!((one.peer.gid, two.peer.gid), (SERVER, CLIENT));
}
