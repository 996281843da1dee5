//! Processes that claim sockets which are not theirs.

use std::net::TcpStream;

use rustix::net::{SocketAddrUnix, sockopt};

use super::{PATIENT, World, caller, connect, is_plain, listening, paired, socket, take_calls};
use crate::device::{Gid128, IsmDevice};
use crate::shared::message::Message;
use crate::shared::pairing::{Call, name_of};
use crate::shared::socket::{Received, Socket};

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
            "it was not asked to go on"
        );
        let _ = listener.accept();
    }
    // Not even the right one, before the connection is accepted.
    let (tcp, call) = connect(to, gid, PATIENT);
    let caller = Socket::new(rustix::net::accept_with(&liar, Socket::FLAGS).unwrap());
    let kernel = super::super::kernel::Kernel::open().unwrap();
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

//= SHM-006 test
#[test]
fn a_process_speaks_for_its_own_sockets() {
    use super::super::{belongs, unknown_user};
    assert!(belongs(1000, 1000) && belongs(0, 1000) && belongs(0, 0));
    assert!(!belongs(1000, 1001) && !belongs(1000, 0));
    assert!(
        !belongs(unknown_user(), unknown_user()),
        "two strangers look the same"
    );
}
