//! What a connection costs until bytes may flow: made, accepted and closed by one
//! thread, so that no wake-up is measured.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketType};
use smc_transport_ism::device::{Gid128, IsmDevice};
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{
    Answer, Call, Outcome, Paired, PairingTimeouts, Progress, Rendezvous,
};

use crate::Pieces;

/// Connections timed at a time.
const PIECE: u32 = 10;

/// Microseconds of a connection, made by `one`.
fn each(count: u32, mut one: impl FnMut()) -> f64 {
    let mut pieces = Pieces::begin();
    for at in 1..=count {
        one();
        if at % PIECE == 0 {
            pieces.done();
        }
    }
    pieces.median() / f64::from(PIECE) / 1000.0
}

/// Neither end knows SMC.
pub(crate) fn plain(count: u32) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    each(count, || {
        let _client = connected(to, &unconnected());
        let _server = listener.accept().unwrap();
    })
}

/// The server would pair, the client does not.
pub(crate) fn plain_client(count: u32) -> f64 {
    let mut world = World::new();
    each(count, || {
        let _client = connected(world.to, &unconnected());
        let (_server, answer) = world.accept();
        assert!(answer.is_none());
    })
}

/// The client would pair, the server does not.
pub(crate) fn plain_server(count: u32) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    each(count, || {
        let socket = unconnected();
        let call =
            Call::announce(&socket, to, Gid128::default(), PairingTimeouts::default()).unwrap();
        assert!(call.is_none());
        let _client = connected(to, &socket);
        let _server = listener.accept().unwrap();
    })
}

/// Both pair, with a channel there already.
pub(crate) fn paired(count: u32) -> f64 {
    let mut world = World::new();
    let made = world.pair();
    world.admit(made);
    each(count, || {
        world.pair();
    })
}

/// Both pair, and make a channel each time.
pub(crate) fn first(count: u32) -> f64 {
    let mut world = World::new();
    each(count, || {
        world.pair();
    })
}

fn unconnected() -> std::os::fd::OwnedFd {
    rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
}

fn connected(to: SocketAddr, socket: &std::os::fd::OwnedFd) -> TcpStream {
    rustix::net::connect(socket, &to).unwrap();
    socket.try_clone().unwrap().into()
}

struct World {
    listener: TcpListener,
    to: SocketAddr,
    rendezvous: Rendezvous,
    server: Device,
    client: Device,
}

impl World {
    fn new() -> Self {
        let (server, client) = (Device::open().unwrap(), Device::open().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let rendezvous = Rendezvous::open(&listener, server.facts().gid).unwrap();
        Self {
            listener,
            to,
            rendezvous,
            server,
            client,
        }
    }

    fn accept(&mut self) -> (TcpStream, Option<Answer>) {
        let accepted = self.listener.accept().unwrap().0;
        let joined = |peer: &_| self.server.is_joined(peer);
        let answer = self
            .rendezvous
            .answer(&accepted, joined, &PairingTimeouts::default());
        (accepted, answer)
    }

    fn pair(&mut self) -> [Paired; 2] {
        let socket = unconnected();
        let gid = self.client.facts().gid;
        let call = Call::announce(&socket, self.to, gid, PairingTimeouts::default()).unwrap();
        let client = connected(self.to, &socket);
        let (_server, answer) = self.accept();
        let (mut call, mut answer) = (call.expect("called"), answer.expect("answered"));
        let (mut one, mut two) = (None, None);
        while one.is_none() || two.is_none() {
            let now = Instant::now();
            let joined = |peer: &_| self.client.is_joined(peer);
            one = one.or_else(|| done(call.poll(&client, joined, now).unwrap()));
            two = two.or_else(|| done(answer.poll(now)));
        }
        [one.expect("done"), two.expect("done")]
    }

    fn admit(&mut self, [one, two]: [Paired; 2]) {
        self.client.admit(one).unwrap();
        self.server.admit(two).unwrap();
    }
}

fn done(progress: Progress) -> Option<Paired> {
    match progress {
        Progress::Done(Outcome::Paired(paired)) => Some(paired),
        Progress::Done(Outcome::Plain) => panic!("plain"),
        Progress::Pending { .. } => None,
    }
}
