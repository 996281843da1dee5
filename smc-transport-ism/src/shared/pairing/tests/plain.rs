//! Plain TCP: neither end waits, and no byte is withheld.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{PATIENT, SOON, World, connect, is_plain, listening, socket};
use crate::device::IsmDevice;
use crate::shared::Device;
use crate::shared::pairing::{Call, PairingTimeouts};

//= SHM-004 test
//= SHM-002 test
#[test]
fn a_plain_client_is_answered_at_once() {
    let mut world = World::new("127.0.0.1:0");
    let mut client = TcpStream::connect(world.address()).unwrap();
    let before = Instant::now();
    let (mut accepted, answer) = world.accept();
    assert!(answer.is_none());
    // Also while another client has called and not connected yet.
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
    let mut bytes = [0; 5];
    accepted.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
}

//= SHM-002 test
//= SHM-005 test
#[test]
fn a_plain_server_is_not_called() {
    let listener = listening("127.0.0.1:0");
    let gid = Device::open().unwrap().facts().gid;
    let (_tcp, call) = connect(listener.local_addr().unwrap(), gid, PATIENT);
    assert!(call.is_none());
    // Nor is one on another host, whichever process listens to the same port here.
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

//= SHM-004 test
//= CASE-B08 test
#[test]
fn a_connection_that_stands_already_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let to = world.address();
    let tcp = TcpStream::connect(to).unwrap();
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none(), "no client has called before");
    // A call that comes late names a connection that was handed out already.
    let gid = world.client.facts().gid;
    let quick = PairingTimeouts {
        grace: SOON,
        ..PATIENT
    };
    let call = Call::announce(&tcp, to, gid, quick).unwrap();
    let outcome = call.unwrap().finish(&tcp, |_| false).unwrap();
    assert!(is_plain(&outcome));
    // And a client that connects next is not taken for it.
    let plain = TcpStream::connect(to).unwrap();
    let (_accepted, answer) = world.accept();
    assert!(answer.is_none());
    drop(plain);
}
