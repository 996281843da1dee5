//! Both ends of every connection come to the same, and plain TCP never waits.

mod giving_up;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use super::{
    Answer, Call, Callers, Listeners, MAX_CALLERS, Outcome, Paired, Patience, Peer, Progress,
    Reach, Rendezvous, name_of, survey,
};
use crate::device::{Gid128, IsmDevice, IsmReport};
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// No wait in these tests is cut short by a slow machine.
const PATIENT: Patience = Patience {
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

/// A client that announced itself, if anybody wanted to know, and is connected.
fn connect(to: SocketAddr, gid: Gid128, patience: Patience) -> (TcpStream, Option<Call>) {
    let socket = socket(to);
    let call = Call::announce(&socket, to, gid, patience).unwrap();
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

    fn connect(&self, patience: Patience) -> (TcpStream, Option<Call>) {
        connect(self.address(), self.client.facts().gid, patience)
    }

    fn accept(&mut self) -> (TcpStream, Option<Answer>) {
        let accepted = self.listener.accept().unwrap().0;
        let joined = |peer: &_| self.server.is_joined(peer);
        let answer = self.rendezvous.answer(&accepted, joined, &PATIENT);
        (accepted, answer)
    }

    /// Both sides go on by turns until both are done.
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

/// How long the device of a test may take to hear of something.
fn next(device: &mut Device) -> IsmReport {
    device
        .wait(Some(Duration::from_secs(20)))
        .unwrap()
        .expect("a report")
}

//= SHM-001 test
//= SHM-008 test
#[test]
fn both_ends_pair_whatever_the_address() {
    for (bound, called) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.7"),
        ("[::]:0", "127.0.0.1"),
        ("[::]:0", "::1"),
        ("[::1]:0", "::1"),
        ("0.0.0.0:0", "::ffff:127.0.0.1"),
        ("[::]:0", "::ffff:127.0.0.1"),
        ("[::ffff:127.0.0.1]:0", "127.0.0.1"),
    ] {
        let mut world = World::new(bound);
        let to = SocketAddr::new(called.parse().unwrap(), world.address().port());
        let (tcp, call) = connect(to, world.client.facts().gid, PATIENT);
        let (_accepted, answer) = world.accept();
        let call = call.unwrap_or_else(|| panic!("{bound} {called}"));
        let [one, two] = world.settle(&tcp, call, answer.unwrap());
        world.client.admit(paired(one)).unwrap();
        world.server.admit(paired(two)).unwrap();

        let World {
            mut server,
            mut client,
            ..
        } = world;
        server
            .register_dmb(16384, client.facts().gid, None)
            .unwrap();
        let IsmReport::DmbRegistered { dmb, token } = next(&mut server) else {
            panic!()
        };
        let remote = client.attach_dmb(server.facts().gid, token, 16384).unwrap();
        client.move_cdc(remote, 0, 0, &[5; 32], true).unwrap();
        let signalled = IsmReport::Signalled {
            dmb,
            mask: 0x8000,
            cdc: [5; 32],
        };
        assert_eq!(next(&mut server), signalled);
    }
}

//= SHM-004 test
//= SHM-002 test
#[test]
fn a_plain_client_is_answered_at_once() {
    let mut world = World::new("127.0.0.1:0");
    let mut client = TcpStream::connect(world.address()).unwrap();
    let before = Instant::now();
    let (mut accepted, answer) = world.accept();
    assert!(answer.is_none());
    // Also while somebody else has called and not come yet.
    let _caller = world.connect(PATIENT);
    let plain = TcpStream::connect(world.address()).unwrap();
    let _first = world.accept();
    assert!(world.accept().1.is_none());
    assert!(
        before.elapsed() < Duration::from_secs(5),
        "nothing waited for {PATIENT:?}"
    );
    drop(plain);
    client.write_all(b"hello").unwrap();
    let mut octets = [0; 5];
    accepted.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"hello");
}

//= SHM-002 test
//= SHM-005 test
#[test]
fn a_plain_server_is_not_called() {
    let listener = listening("127.0.0.1:0");
    let gid = Device::open().unwrap().facts().gid;
    let (_tcp, call) = connect(listener.local_addr().unwrap(), gid, PATIENT);
    assert!(call.is_none());
    // Nor is one on another host, whoever listens to the same port here.
    let far = SocketAddr::new(
        "192.0.2.1".parse().unwrap(),
        listener.local_addr().unwrap().port(),
    );
    assert!(
        Call::announce(socket(far), far, gid, PATIENT)
            .unwrap()
            .is_none()
    );
}

//= SHM-005 test
#[test]
fn a_group_with_a_plain_member_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let plain = listening(&world.address().to_string());
    let (_tcp, call) = world.connect(PATIENT);
    assert!(call.is_none());
    drop(plain);
    world.listener.set_nonblocking(true).unwrap();
    while world.listener.accept().is_ok() {}
    world.listener.set_nonblocking(false).unwrap();
    world.pair();
}

//= SHM-005 test
#[test]
fn any_member_of_a_group_may_be_the_one() {
    let mut one = World::new("127.0.0.1:0");
    let mut two = World::new(&one.address().to_string());
    let mut accepted = [0; 2];
    for _ in 0..40 {
        let (tcp, call) = one.connect(PATIENT);
        let end = [tcp.peer_addr().unwrap(), tcp.local_addr().unwrap()];
        let mine = |world: &World| {
            world.listener.set_nonblocking(true).unwrap();
            let polled = &mut [rustix::event::PollFd::new(
                &world.listener,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(polled, Some(&Default::default())).unwrap() == 1
        };
        let at = usize::from(!mine(&one));
        let world = if at == 0 { &mut one } else { &mut two };
        let (stream, answer) = world.accept();
        assert_eq!(
            [stream.local_addr().unwrap(), stream.peer_addr().unwrap()],
            end
        );
        let [client, server] = world.settle(&tcp, call.unwrap(), answer.unwrap());
        assert_eq!(paired(client).peer.gid, world.server.facts().gid);
        paired(server);
        accepted[at] += 1;
    }
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
}

//= SHM-011 test
#[test]
fn accepted_by_somebody_else_is_plain_after_the_grace() {
    let mut world = World::new("127.0.0.1:0");
    let patience = Patience {
        grace: SOON,
        ..PATIENT
    };
    let (mut tcp, call) = world.connect(patience);
    // As a worker would that shares the listener and knows nothing of this.
    let mut accepted = world.listener.accept().unwrap().0;
    let outcome = call.unwrap().finish(&tcp, |_| false).unwrap();
    assert!(is_plain(&outcome));
    tcp.write_all(b"x").unwrap();
    let mut octet = [0];
    accepted.read_exact(&mut octet).unwrap();
    assert_eq!(&octet, b"x", "and no octet of CLC before it");
    // Had it asked after all, it would know that the client has withdrawn.
    let joined = |peer: &_| world.server.is_joined(peer);
    let answer = world.rendezvous.answer(&accepted, joined, &PATIENT);
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}

//= SHM-011 test
#[test]
fn octets_from_the_server_are_plain_at_once() {
    let world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PATIENT);
    let mut accepted = world.listener.accept().unwrap().0;
    accepted.write_all(b"220 ready").unwrap();
    assert!(is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()));
    let mut octets = [0; 9];
    (&tcp).read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"220 ready", "none of it was taken");
}

//= SHM-011 test
#[test]
fn an_accept_that_lags_is_awaited_and_one_that_never_comes_is_not() {
    let mut world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(Patience {
        grace: SOON,
        ..PATIENT
    });
    std::thread::scope(|scope| {
        let client = scope.spawn(|| call.unwrap().finish(&tcp, |_| false).unwrap());
        std::thread::sleep(SOON * 10);
        let (_accepted, answer) = world.accept();
        paired(answer.unwrap().finish().unwrap());
        paired(client.join().unwrap());
    });
    let (tcp, call) = world.connect(Patience {
        accept: SOON,
        ..PATIENT
    });
    assert!(is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()));
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}

//= SHM-010 test
//= SHM-012 test
#[test]
fn giving_up_and_going_on_exclude_each_other() {
    let late = Instant::now() + Duration::from_secs(3600);
    let mut world = World::new("127.0.0.1:0");
    // The client goes on, then the server's patience ends.
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let (mut call, mut answer) = (call.unwrap(), answer.unwrap());
    let first = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    assert!(done(first).is_none(), "it awaits the channel");
    let _ = answer.poll(late);
    let second = done(call.poll(&tcp, |_| false, Instant::now()).unwrap());
    paired(second.expect("both have spoken"));
    // The other way round.
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let (mut call, mut answer) = (call.unwrap(), answer.unwrap());
    assert!(is_plain(&done(answer.poll(late)).unwrap()));
    let outcome = done(call.poll(&tcp, |_| false, Instant::now()).unwrap());
    assert!(is_plain(&outcome.unwrap()));
}

//= SHM-014 test
#[test]
fn what_fails_behind_go_is_out_of_reach_and_not_plain() {
    let mut world = World::new("127.0.0.1:0");
    let (tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    let mut call = call.unwrap();
    let progress = call.poll(&tcp, |_| false, Instant::now()).unwrap();
    assert!(done(progress).is_none(), "GO is sent, the channel awaited");
    // The server ends before there is a channel.
    drop(answer);
    let outcome = call.finish(&tcp, |_| false).unwrap();
    assert!(world.client.admit(paired(outcome)).is_err());
    let gid = world.server.facts().gid;
    assert!(!world.client.query_reach(gid, None));
}

//= SHM-004 test
//= CASE-B08 test
#[test]
fn a_connection_that_stands_already_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let to = world.address();
    let tcp = TcpStream::connect(to).unwrap();
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none(), "nobody called before");
    // A call that comes late is about a connection that is somebody's already.
    let gid = world.client.facts().gid;
    let quick = Patience {
        grace: SOON,
        ..PATIENT
    };
    let call = Call::announce(&tcp, to, gid, quick).unwrap();
    let outcome = call.unwrap().finish(&tcp, |_| false).unwrap();
    assert!(is_plain(&outcome));
    // And whoever connects next is not taken for it.
    let plain = TcpStream::connect(to).unwrap();
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none());
    drop(plain);
}

//= SHM-012 test
#[test]
fn a_client_that_withdraws_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let (_tcp, call) = world.connect(PATIENT);
    let (_accepted, answer) = world.accept();
    drop(call);
    assert!(is_plain(&answer.unwrap().finish().unwrap()));
    let (_tcp, call) = world.connect(PATIENT);
    drop(call);
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none_or(|answer| is_plain(&answer.finish().unwrap())));
}

//= SHM-009 test
#[test]
fn a_claim_must_name_the_very_socket() {
    let listener = listening("127.0.0.1:0");
    let to = listener.local_addr().unwrap();
    let name = name_of(sockopt::socket_cookie(&listener).unwrap());
    let liar = Socket::unconnected().unwrap();
    rustix::net::bind(&liar, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    rustix::net::listen(&liar, 8).unwrap();
    let gid = Gid128 { gid: 1, ext: 2 };
    for lie in [0, 1, u64::MAX, sockopt::socket_cookie(&listener).unwrap()] {
        let (tcp, call) = connect(to, gid, PATIENT);
        let caller = Socket::new(rustix::net::accept_with(&liar, Socket::FLAGS).unwrap());
        assert!(matches!(
            caller.receive(),
            Received::Message(Message::Announce { .. }, None)
        ));
        caller
            .send(
                Message::Mine {
                    cookie: lie,
                    gid,
                    joined: false,
                },
                None,
            )
            .unwrap();
        assert!(
            is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()),
            "{lie}"
        );
        assert!(
            matches!(caller.receive(), Received::End),
            "it was not told to go on"
        );
        let _ = listener.accept();
    }
    // Not even the right one, before somebody has accepted the connection.
    let (tcp, call) = connect(to, gid, PATIENT);
    let caller = Socket::new(rustix::net::accept_with(&liar, Socket::FLAGS).unwrap());
    let kernel = super::kernel::Kernel::open().unwrap();
    let end = kernel
        .end(tcp.peer_addr().unwrap(), tcp.local_addr().unwrap())
        .unwrap()
        .unwrap();
    caller
        .send(
            Message::Mine {
                cookie: end.cookie,
                gid,
                joined: false,
            },
            None,
        )
        .unwrap();
    assert!(is_plain(&call.unwrap().finish(&tcp, |_| false).unwrap()));
}

//= SHM-008 test
#[test]
fn an_announcement_counts_for_its_own_socket_only() {
    let mut world = World::new("127.0.0.1:0");
    let name = name_of(sockopt::socket_cookie(&world.listener).unwrap());
    let plain = TcpStream::connect(world.address()).unwrap();
    let own = sockopt::socket_cookie(&plain).unwrap();
    let mut callers = Vec::new();
    for cookie in [0, own + 1, own - 1, u64::MAX] {
        let caller = Socket::unconnected().unwrap();
        let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
        rustix::net::connect(&caller, &name).unwrap();
        let caller = Socket::new(caller);
        let gid = Gid128 { gid: 1, ext: 2 };
        caller
            .send(Message::Announce { cookie, gid }, None)
            .unwrap();
        callers.push(caller);
    }
    assert!(world.accept().1.is_none());
    assert!(
        callers
            .iter()
            .all(|caller| matches!(caller.receive(), Received::Nothing))
    );
}

//= SHM-007 test
#[test]
fn callers_without_end_are_bounded_and_forgotten() {
    let mut world = World::new("127.0.0.1:0");
    let name = name_of(sockopt::socket_cookie(&world.listener).unwrap());
    let mut silent = Vec::new();
    for _ in 0..6 {
        for _ in 0..100 {
            let caller = Socket::unconnected().unwrap();
            let name = SocketAddrUnix::new_abstract_name(&name).unwrap();
            rustix::net::connect(&caller, &name).unwrap();
            silent.push(caller);
        }
        let _plain = TcpStream::connect(world.address()).unwrap();
        assert!(world.accept().1.is_none());
        assert!(calls(&world) <= MAX_CALLERS);
    }
    world.pair();
    silent.clear();
    let _plain = TcpStream::connect(world.address()).unwrap();
    assert!(world.accept().1.is_none());
    assert_eq!(calls(&world), 0);
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

//= SHM-006 test
#[test]
fn a_call_of_another_user_for_the_same_socket_keeps_no_client_from_pairing() {
    let mut world = World::new("127.0.0.1:0");
    let tcp = socket(world.address());
    let cookie = sockopt::socket_cookie(&tcp).unwrap();
    let earlier = caller(&world, cookie);
    let (to, gid) = (world.address(), world.client.facts().gid);
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap().unwrap();
    let later = caller(&world, cookie);
    take_calls(&mut world);
    for stranger in [0, 2] {
        world.rendezvous.callers.lock().all[stranger].uid = 4_000_000;
    }
    rustix::net::connect(&tcp, &to).unwrap();
    let (_accepted, answer) = world.accept();
    let answer = answer.expect("the client has called");
    let [one, two] = world.settle(&tcp.into(), call, answer);
    assert_eq!(paired(one).peer.gid, world.server.facts().gid);
    assert_eq!(paired(two).peer.gid, gid);
    for liar in [earlier, later] {
        assert!(matches!(liar.receive(), Received::End), "dropped");
    }
    assert!(world.rendezvous.callers.is_empty());
}

//= SHM-007 test
#[test]
fn a_crowd_of_one_user_pushes_no_call_of_another_out() {
    let mut world = World::new("127.0.0.1:0");
    let (to, gid) = (world.address(), world.client.facts().gid);
    let tcp = socket(to);
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap().unwrap();
    take_calls(&mut world);
    let own = core::mem::replace(&mut world.rendezvous.callers.lock().all[0].uid, 4_000_000);
    let mut crowd = Vec::new();
    for _ in 0..6 {
        crowd.extend((0..100).map(|_| caller(&world, 0)));
        take_calls(&mut world);
        assert!(calls(&world) <= MAX_CALLERS);
    }
    world.rendezvous.callers.lock().all[0].uid = own;
    rustix::net::connect(&tcp, &to).unwrap();
    let (_accepted, answer) = world.accept();
    let [one, two] = world.settle(&tcp.into(), call, answer.expect("its call is kept"));
    paired(one);
    paired(two);
}

/// One user calls at two listeners of a stack; another one has called at the first before.
//= SHM-007 test
#[test]
fn calls_are_bounded_for_all_listeners_together() {
    let callers = Callers::new(100);
    let mut worlds = ["127.0.0.1:0"; 2].map(|address| World::new_in(address, &callers));
    let (to, gid) = (worlds[0].address(), worlds[0].client.facts().gid);
    let tcp = socket(to);
    let call = Call::announce(&tcp, to, gid, PATIENT).unwrap().unwrap();
    take_calls(&mut worlds[0]);
    let own = core::mem::replace(&mut callers.lock().all[0].uid, 4_000_000);
    let mut crowd = Vec::new();
    for _ in 0..4 {
        for world in &mut worlds {
            crowd.extend((0..60).map(|_| caller(world, 0)));
            take_calls(world);
            assert!(callers.lock().all.len() <= 100);
        }
    }
    // Those of the crowd that are left called last, at either listener.
    let left = |caller: &Socket| matches!(caller.receive(), Received::Nothing);
    assert_eq!(crowd.iter().filter(|caller| left(caller)).count(), 99);
    assert!(crowd[crowd.len() - 99..].iter().all(left));
    callers.lock().all[0].uid = own;
    rustix::net::connect(&tcp, &to).unwrap();
    let (_accepted, answer) = worlds[0].accept();
    let [one, two] = worlds[0].settle(&tcp.into(), call, answer.expect("its call is kept"));
    paired(one);
    paired(two);
    // A rendezvous that is dropped takes its calls along.
    let [_, second] = worlds;
    drop(second);
    drop(crowd);
    assert!(!callers.sweep());
}

//= SHM-036 test
#[test]
fn who_dies_before_connecting_is_not_kept() {
    let mut world = World::new("127.0.0.1:0");
    let announce = |world: &World| {
        let tcp = socket(world.address());
        let gid = world.client.facts().gid;
        let call = Call::announce(&tcp, world.address(), gid, PATIENT).unwrap();
        call.expect("somebody to call")
    };
    // One has gone when the next connection is accepted, and one goes after that.
    drop(announce(&world));
    let lives = announce(&world);
    let _plain = TcpStream::connect(world.address()).unwrap();
    let (_, answer) = world.accept();
    assert!(answer.is_none());
    assert_eq!(calls(&world), 1);
    assert!(world.rendezvous.callers.sweep());
    drop(lives);
    assert!(!world.rendezvous.callers.sweep());
    assert_eq!(calls(&world), 0);
}

//= SHM-013 test
#[test]
fn later_connections_share_the_channel() {
    let mut world = World::new("127.0.0.1:0");
    world.pair();
    let channels =
        |world: &World| [&world.server, &world.client].map(|device| device.channels.iter().count());
    assert_eq!(channels(&world), [1, 1]);
    for _ in 0..50 {
        world.pair();
    }
    assert_eq!(channels(&world), [1, 1]);
}

//= SHM-003 test
#[test]
fn a_name_ends_with_its_holder() {
    let world = World::new("127.0.0.1:0");
    let World {
        listener,
        rendezvous,
        server,
        ..
    } = world;
    assert!(
        Rendezvous::open(&listener, server.facts().gid).is_err(),
        "held"
    );
    drop(rendezvous);
    let (_tcp, call) = connect(listener.local_addr().unwrap(), server.facts().gid, PATIENT);
    assert!(call.is_none());
    Rendezvous::open(&listener, server.facts().gid).unwrap();
}

/// A squatter holds the name and answers nothing, as a process of another user may do from before the listener
/// was made.
//= SHM-054 test
#[test]
fn a_name_that_was_taken_in_advance_keeps_no_listener_from_pairing() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let listener = listening(address);
        let name = name_of(sockopt::socket_cookie(&listener).unwrap());
        let squatter = Socket::unconnected().unwrap();
        rustix::net::bind(
            &squatter,
            &SocketAddrUnix::new_abstract_name(&name).unwrap(),
        )
        .unwrap();
        let (server, client) = (Device::open().unwrap(), Device::open().unwrap());
        let rendezvous = Rendezvous::open(&listener, server.facts().gid).unwrap();
        let mut world = World {
            listener,
            rendezvous,
            server,
            client,
        };
        let near = world.address().ip();
        let loopback: std::net::IpAddr = match near.is_ipv4() {
            true => std::net::Ipv4Addr::LOCALHOST.into(),
            false => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let to = SocketAddr::new(loopback, world.address().port());
        let surveyed = survey(to).unwrap().unwrap();
        assert_eq!((surveyed.all, surveyed.named), (1, 1), "{address}");
        let (tcp, call) = connect(to, world.client.facts().gid, PATIENT);
        let (_accepted, answer) = world.accept();
        let call = call.unwrap_or_else(|| panic!("{address}: not called"));
        let [one, two] = world.settle(&tcp, call, answer.expect("it has called"));
        paired(one);
        paired(two);
        // Names like that of a listener that has none are not looked for.
        let World { rendezvous, .. } = world;
        drop(rendezvous);
        drop(squatter);
    }
}

/// Both ends write what they came to, and read the same, whatever the order of
/// things: clients that call or not, servers that answer or not, and hurry.
//= SHM-001 test
#[test]
fn both_ends_always_agree() {
    let mut world = World::new("127.0.0.1:0");
    let address = world.address();
    let gid = world.client.facts().gid;
    let hasty = Patience {
        accept: SOON,
        grace: SOON / 20,
        go: SOON / 20,
    };
    let spoken = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for round in 0..60u64 {
                    let (mut tcp, call) = match (thread + round) % 3 {
                        0 => (TcpStream::connect(address).unwrap(), None),
                        _ => connect(address, gid, if round % 2 == 0 { PATIENT } else { hasty }),
                    };
                    let outcome = call.map(|call| call.finish(&tcp, |_| false).unwrap());
                    say_and_hear(&mut tcp, outcome.is_some_and(|at| !is_plain(&at)));
                }
            });
        }
        for round in 0..240u64 {
            let mut accepted = world.listener.accept().unwrap().0;
            let patience = if round % 3 == 0 { hasty } else { PATIENT };
            let answer = world.rendezvous.answer(&accepted, |_| false, &patience);
            let spoken = &spoken;
            scope.spawn(move || {
                let outcome = answer.map(|answer| answer.finish().unwrap());
                let smc = outcome.is_some_and(|at| !is_plain(&at));
                spoken.fetch_add(smc.into(), std::sync::atomic::Ordering::Relaxed);
                say_and_hear(&mut accepted, smc);
            });
        }
    });
    let spoken = spoken.into_inner();
    assert!(spoken > 0 && spoken <= 160, "{spoken} of 240 connections");
}

fn say_and_hear(tcp: &mut TcpStream, smc: bool) {
    tcp.write_all(&[u8::from(smc)]).unwrap();
    let mut octet = [0];
    tcp.read_exact(&mut octet).unwrap();
    assert_eq!(
        octet,
        [u8::from(smc)],
        "the other end came to something else"
    );
}

#[test]
fn the_descriptors_of_both_sides_are_pollable() {
    let mut world = World::new("127.0.0.1:0");
    let (_tcp, call) = world.connect(PATIENT);
    assert_eq!(call.as_ref().unwrap().sockets().len(), 1);
    let (_accepted, answer) = world.accept();
    assert_eq!(answer.as_ref().unwrap().sockets().len(), 1);
    let client = call.as_ref().unwrap().sockets()[0];
    let polled = &mut [rustix::event::PollFd::new(
        &client,
        rustix::event::PollFlags::IN,
    )];
    assert_eq!(
        rustix::event::poll(polled, Some(&Default::default())).unwrap(),
        1
    );
    let _ = world.server.as_fd();
}

//= SHM-006 test
#[test]
fn a_process_speaks_for_its_own_sockets() {
    use super::{belongs, unknown_user};
    assert!(belongs(1000, 1000) && belongs(0, 1000) && belongs(0, 0));
    assert!(!belongs(1000, 1001) && !belongs(1000, 0));
    assert!(
        !belongs(unknown_user(), unknown_user()),
        "two strangers look the same"
    );
}

#[test]
fn a_survey_tells_who_listens_and_calls_nobody() {
    let plain = listening("127.0.0.1:0");
    let address = plain.local_addr().unwrap();
    let told = |all, named| {
        Some(Listeners {
            all,
            named,
            foreign: None,
        })
    };
    assert_eq!(survey(address).unwrap(), told(1, 0));
    let mut world = World::new("127.0.0.1:0");
    assert_eq!(survey(world.address()).unwrap(), told(1, 1));
    // Another member of the group that has no name.
    let member = listening(&world.address().to_string());
    assert_eq!(survey(world.address()).unwrap(), told(2, 1));
    drop(member);
    let (accepted, _call) = world.connect(PATIENT);
    let _ = world.accept();
    // Nobody but the client has called.
    assert!(world.rendezvous.callers.is_empty());
    drop((accepted, plain));
    assert_eq!(survey(address).unwrap(), told(0, 0));
    for elsewhere in [
        "192.0.2.77:80",
        "0.0.0.0:80",
        "224.0.0.1:80",
        "[fe80::1]:80",
    ] {
        assert_eq!(
            survey(elsewhere.parse().unwrap()).unwrap(),
            None,
            "{elsewhere}"
        );
    }
}

/// The channels of both sides, and the client's bounds, decide about another one.
//= SHM-010 test
//= SHM-013 test
//= SHM-042 test
#[test]
fn a_channel_is_made_unless_both_have_one_already_or_there_may_be_none() {
    let listener = listening("127.0.0.1:0");
    let to = listener.local_addr().unwrap();
    let name = name_of(sockopt::socket_cookie(&listener).unwrap());
    let server = Socket::unconnected().unwrap();
    rustix::net::bind(&server, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
    rustix::net::listen(&server, 8).unwrap();
    let gid = Gid128 { gid: 1, ext: 2 };
    for case in 0..8 {
        let [theirs, ours, may_greet] = [1, 2, 4].map(|bit| case & bit != 0);
        let (tcp, call) = connect(to, gid, PATIENT);
        let mut call = call.unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let caller = Socket::new(rustix::net::accept_with(&server, Socket::FLAGS).unwrap());
        assert!(matches!(
            caller.receive(),
            Received::Message(Message::Announce { .. }, None)
        ));
        let mine = Message::Mine {
            cookie: sockopt::socket_cookie(&accepted).unwrap(),
            gid,
            joined: theirs,
        };
        caller.send(mine, None).unwrap();
        let reach = |_: &Peer| Reach {
            joined: ours,
            may_greet,
        };
        let _ = call.poll(&tcp, reach, Instant::now()).unwrap();
        let Received::Message(Message::Go { fresh }, None) = caller.receive() else {
            panic!("{theirs} {ours} {may_greet}");
        };
        assert_eq!(
            fresh,
            may_greet && !(theirs && ours),
            "{theirs} {ours} {may_greet}"
        );
    }
}
