//! Listeners that many clients call, that are dropped while a clone is open, or that are broken: no
//! other client waits, and no thread uses processor time for nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::alone::alone;
use crate::common::{listener, silent, stack};
use rustix::net::{AddressFamily, SocketType};
use smc_sockets::{PairingTimeouts, Settings, SmcListener, SmcStream, Stack};
use smc_transport_ism::device::Gid128;
use smc_transport_ism::shared::pairing::Call;

/// Most connections that may be undecided at a time.
const MANY: usize = 128;
/// Less than the engine waits for a CLC message.
const SOON: Duration = Duration::from_secs(4);

/// Accepts on a thread; the texts that clients have sent by the end of their streams.
fn accepts(listener: SmcListener) -> mpsc::Receiver<String> {
    let (sender, texts) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut text = String::new();
            if stream.unwrap().read_to_string(&mut text).is_ok() && sender.send(text).is_err() {
                return;
            }
        }
    });
    texts
}

#[test]
fn who_was_in_the_way_of_others_and_goes_leaves_it_free() {
    let (listener, address) = listener();
    let texts = accepts(listener);
    let crowd: Vec<_> = (0..MANY).map(|_| silent(address)).collect();
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"plain").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop((crowd, plain));
    assert_eq!(texts.recv_timeout(SOON).as_deref(), Ok("plain"));
}

/// The client gets an answer to its call, and does not continue.
#[test]
fn a_client_that_calls_and_does_not_go_on_is_accepted_as_plain_tcp() {
    let mut settings = Settings::default();
    settings.pairing_timeouts.go = Duration::from_millis(100);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&Stack::with(settings).unwrap(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = accepts(listener);
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let gid = Gid128 { gid: 1, ext: 2 };
    let call = Call::announce(&socket, address, gid, PairingTimeouts::default()).unwrap();
    assert!(call.is_some(), "there is a name to call");
    rustix::net::connect(&socket, &address).unwrap();
    let mut client = TcpStream::from(socket);
    client.write_all(b"bytes").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(accepted.recv_timeout(SOON).as_deref(), Ok("bytes"));
}

#[test]
fn timeouts_may_be_infinite() {
    let mut settings = Settings::default();
    settings.pairing_timeouts = PairingTimeouts {
        accept: Duration::MAX,
        grace: Duration::MAX,
        go: Duration::MAX,
    };
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&Stack::with(settings.clone()).unwrap(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let texts = accepts(listener);
    let stack = Stack::with(settings).unwrap();
    let mut stream = SmcStream::connect_on(&stack, address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    stream.write_all(b"patient").unwrap();
    drop(stream);
    assert_eq!(texts.recv_timeout(SOON).as_deref(), Ok("patient"));
}

/// Asserts that this process uses no processor time.
fn is_idle() {
    let spent = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    std::thread::sleep(Duration::from_millis(100));
    let before = spent();
    std::thread::sleep(Duration::from_millis(500));
    let spent = spent() - before;
    assert!(spent < Duration::from_millis(25), "{spent:?}");
}

// A forked child has such a listener, and so has a program that keeps a clone.
#[test]
fn a_listener_with_another_owner_is_left_to_that_owner() {
    if !alone(&a_listener_with_another_owner_is_left_to_that_owner) {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = tcp.try_clone().unwrap();
    let stack = stack();
    drop(SmcListener::on(&stack, tcp).unwrap());
    let _client = TcpStream::connect(theirs.local_addr().unwrap()).unwrap();
    is_idle();
    theirs.set_nonblocking(false).unwrap();
    theirs.accept().unwrap();
}

#[test]
fn a_listener_that_is_broken_says_so_and_takes_no_time() {
    if !alone(&a_listener_that_is_broken_says_so_and_takes_no_time) {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = tcp.try_clone().unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    rustix::net::shutdown(&theirs, rustix::net::Shutdown::Both).unwrap();
    for _ in 0..3 {
        let error = listener.accept().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        is_idle();
    }
}
