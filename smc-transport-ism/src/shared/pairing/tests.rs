//! Both ends of every connection come to the same, and plain TCP never waits.

mod agreement;
mod call_backs;
mod callers;
mod channels;
mod claims;
mod giving_up;
mod groups;
mod names;
mod plain;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use super::{
    Answer, Call, Callers, Outcome, Paired, PairingTimeouts, Progress, Rendezvous, name_of,
};
use crate::device::{Gid128, IsmDevice, IsmReport};
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::socket::Socket;

/// No wait in these tests is cut short by a slow machine.
const PATIENT: PairingTimeouts = PairingTimeouts {
    accept: Duration::from_secs(20),
    grace: Duration::from_secs(20),
    go: Duration::from_secs(20),
};
const SOON: Duration = Duration::from_millis(5);

fn socket(of: SocketAddr) -> OwnedFd {
    let family = if of.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    rustix::net::socket(family, SocketType::STREAM, None).unwrap()
}

/// A listener as members of a group are.
fn listening(address: &str) -> TcpListener {
    let address = address.parse().unwrap();
    let socket = socket(address);
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    socket.into()
}

/// A client that announced itself, if any server asked, and is connected.
fn connect(to: SocketAddr, gid: Gid128, timeouts: PairingTimeouts) -> (TcpStream, Option<Call>) {
    let socket = socket(to);
    let call = Call::announce(&socket, to, gid, timeouts).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    (socket.into(), call)
}

/// A server and a client with a device each.
struct World {
    listener: TcpListener,
    rendezvous: Rendezvous,
    server: Device,
    client: Device,
}

impl World {
    fn new(address: &str) -> Self {
        Self::new_in(address, &Callers::default())
    }

    fn new_in(address: &str, callers: &Callers) -> Self {
        let (server, client) = (Device::open().unwrap(), Device::open().unwrap());
        let listener = listening(address);
        let rendezvous = Rendezvous::open_in(&listener, server.facts().gid, callers).unwrap();
        Self {
            listener,
            rendezvous,
            server,
            client,
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn connect(&self, timeouts: PairingTimeouts) -> (TcpStream, Option<Call>) {
        connect(self.address(), self.client.facts().gid, timeouts)
    }

    fn accept(&mut self) -> (TcpStream, Option<Answer>) {
        let accepted = self.listener.accept().unwrap().0;
        let joined = |peer: &_| self.server.is_joined(peer);
        let answer = self.rendezvous.answer(&accepted, joined, &PATIENT);
        (accepted, answer)
    }

    /// Polls both sides alternately until both are done.
    fn settle(&mut self, tcp: &TcpStream, mut call: Call, mut answer: Answer) -> [Outcome; 2] {
        let (mut one, mut two) = (None, None);
        for _ in 0..1000 {
            let now = Instant::now();
            if one.is_none() {
                one = done(
                    call.poll(tcp, |peer| self.client.is_joined(peer), now)
                        .unwrap(),
                );
            }
            if two.is_none() {
                two = done(answer.poll(now));
            }
            if let (Some(_), Some(_)) = (&one, &two) {
                return [one.unwrap(), two.unwrap()];
            }
        }
        panic!("neither end comes to an end");
    }

    /// Pairs a connection and lets the devices have what came of it.
    fn pair(&mut self) {
        let (tcp, call) = self.connect(PATIENT);
        let (_accepted, answer) = self.accept();
        let [one, two] = self.settle(&tcp, call.unwrap(), answer.expect("it has called"));
        let gids = [self.server.facts().gid, self.client.facts().gid];
        assert_eq!(self.client.admit(paired(one)).unwrap(), gids[0]);
        assert_eq!(self.server.admit(paired(two)).unwrap(), gids[1]);
    }
}

fn done(progress: Progress) -> Option<Outcome> {
    match progress {
        Progress::Done(outcome) => Some(outcome),
        Progress::Pending { .. } => None,
    }
}

#[track_caller]
fn paired(outcome: Outcome) -> Paired {
    match outcome {
        Outcome::Paired(paired) => paired,
        Outcome::Plain => panic!("plain"),
    }
}

fn is_plain(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Plain)
}

/// Longest time until the device of a test reports something.
fn next(device: &mut Device) -> IsmReport {
    device
        .wait(Some(Duration::from_secs(20)))
        .unwrap()
        .expect("a report")
}

/// A caller at the rendezvous of a world that announces the socket with this cookie.
fn caller(world: &World, cookie: u64) -> Socket {
    let name = name_of(sockopt::socket_cookie(&world.listener).unwrap());
    let caller = Socket::unconnected().unwrap();
    rustix::net::connect(&caller, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    let caller = Socket::new(caller);
    let gid = Gid128 { gid: 1, ext: 2 };
    caller
        .send(Message::Announce { cookie, gid }, None)
        .unwrap();
    caller
}

/// How many calls its rendezvous keeps.
fn calls(world: &World) -> usize {
    world.rendezvous.callers.lock().all.len()
}

/// Lets the server accept a client that has not called, and so take in all calls.
fn take_calls(world: &mut World) {
    let _plain = TcpStream::connect(world.address()).unwrap();
    assert!(world.accept().1.is_none());
}
