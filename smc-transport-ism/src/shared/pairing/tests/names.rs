//! Names of listeners, and the survey of them.

use std::net::SocketAddr;

use rustix::net::{SocketAddrUnix, sockopt};

use super::{PATIENT, World, connect, listening, paired};
use crate::device::IsmDevice;
use crate::shared::Device;
use crate::shared::pairing::{Listeners, Rendezvous, name_of, survey};
use crate::shared::socket::Socket;

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
        // Names like that of a listener that has none are not searched for.
        let World { rendezvous, .. } = world;
        drop(rendezvous);
        drop(squatter);
    }
}

#[test]
fn a_survey_lists_listeners_and_calls_none() {
    let plain = listening("127.0.0.1:0");
    let address = plain.local_addr().unwrap();
    let expected = |all, named| {
        Some(Listeners {
            all,
            named,
            foreign: None,
        })
    };
    assert_eq!(survey(address).unwrap(), expected(1, 0));
    let mut world = World::new("127.0.0.1:0");
    assert_eq!(survey(world.address()).unwrap(), expected(1, 1));
    let unspecified = SocketAddr::from(([0, 0, 0, 0], world.address().port()));
    assert_eq!(survey(unspecified).unwrap(), expected(1, 1));
    // Another member of the group that has no name.
    let member = listening(&world.address().to_string());
    assert_eq!(survey(world.address()).unwrap(), expected(2, 1));
    drop(member);
    let (accepted, _call) = world.connect(PATIENT);
    let _ = world.accept();
    // Only the client has called.
    assert!(world.rendezvous.callers.is_empty());
    drop((accepted, plain));
    assert_eq!(survey(address).unwrap(), expected(0, 0));
    for elsewhere in ["192.0.2.77:80", "224.0.0.1:80", "[fe80::1]:80"] {
        assert_eq!(
            survey(elsewhere.parse().unwrap()).unwrap(),
            None,
            "{elsewhere}"
        );
    }
}
