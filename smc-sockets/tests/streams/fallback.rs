//! Peers that know nothing of SMC: they see TCP, and nothing else.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use crate::common::{listener, octets, stack};
use smc_sockets::{SmcListener, SmcStream};

const PLAIN: &str = "TCP: 0x03010000 (peer does not speak SMC)";

#[test]
fn a_plain_server_sees_nothing_but_the_applications_octets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = SmcStream::connect_on(&stack(), listener.local_addr().unwrap()).unwrap();
    assert!(client.carrier().to_string().starts_with(PLAIN));
    let (mut server, _) = listener.accept().unwrap();
    let sent = octets(100_000);
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == sent);
    server.write_all(b"bye").unwrap();
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "bye");
}

#[test]
fn a_plain_client_sees_nothing_but_the_applications_octets() {
    let (listener, address) = listener();
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, from) = listener.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    assert!(server.carrier().to_string().starts_with(PLAIN));
    // The server speaks first: nothing withholds it.
    server.write_all(b"220 ready\n").unwrap();
    let mut text = [0; 10];
    client.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"220 ready\n");
    // Octets that begin like CLC are the application's.
    let sent = [b"\xe2\xd4\xc3\xd9\x01\x00".as_slice(), &octets(5000)].concat();
    client.write_all(&sent).unwrap();
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == sent);
}

/// Both ends in one process, the simplest use of all.
#[test]
fn a_stack_that_meets_itself_uses_shared_memory() {
    for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        meets_itself(at);
    }
}

fn meets_itself(at: &str) {
    let stack = stack();
    let listener = SmcListener::on(&stack, TcpListener::bind(at).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = SmcStream::connect_on(&stack, address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        assert!(end.carrier().is_smc(), "{at}: {}", end.carrier());
    }
    let sent = octets(50_000);
    client.write_all(&sent).unwrap();
    let mut received = vec![0; sent.len()];
    server.read_exact(&mut received).unwrap();
    assert!(received == sent);
    server.write_all(b"and back").unwrap();
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "and back");
}

#[test]
fn connecting_where_nothing_listens_is_an_error() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let error = SmcStream::connect_on(&stack(), address.unwrap()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
