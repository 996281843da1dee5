//! A stack is dropped in a process that goes on, while its peer waits in a read, or before it has
//! connected: the peer gets the end within a second, and keeps no resource of the connection.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::alone;
use crate::common::{listener, possessions, settings, settles, stack};
use rustix::net::{AddressFamily, SocketType};
use smc_sockets::{PairingTimeouts, SmcListener, SmcStream, Stack};
use smc_transport_ism::device::Gid128;
use smc_transport_ism::shared::pairing::Call;

const SECOND: Duration = Duration::from_secs(1);

/// How the stack that is dropped leaves its connection.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Leaves {
    /// Everything read: an orderly end.
    Nothing,
    /// Bytes that will not be read: a reset.
    Unread,
    /// The half was closed before; bytes are left unread.
    Half,
}

/// One life of a stack beside that of the listener.
fn live_and_go(listener: &SmcListener, leaves: Leaves) {
    let going = stack();
    let address = listener.local_addr().unwrap();
    let mut near = SmcStream::connect_on(&going, address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    assert_eq!(far.carrier().to_string(), "SMC-D v2.1");
    near.write_all(b"here").unwrap();
    far.read_exact(&mut [0; 4]).unwrap();
    if leaves == Leaves::Half {
        near.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(far.read(&mut [0; 4]).unwrap(), 0);
    }
    if leaves != Leaves::Nothing {
        far.write_all(b"unread").unwrap();
    }
    let reader = std::thread::spawn(move || {
        // A side that has read the end of the stream gets a reset by writing.
        let outcome = match leaves {
            Leaves::Half => loop {
                if let Err(error) = far.write_all(&[1; 1000]) {
                    break Err(error);
                }
                std::thread::sleep(Duration::from_millis(1));
            },
            _ => far.read(&mut [0; 4]),
        };
        (outcome, Instant::now())
    });
    // The reader is asleep by now, most often.
    std::thread::sleep(Duration::from_millis(20));
    let gone = Instant::now();
    drop(near);
    assert!(going.end(SECOND), "{leaves:?}: the stack goes");
    let (outcome, at) = reader.join().unwrap();
    let late = at.saturating_duration_since(gone);
    assert!(late < SECOND, "{leaves:?}: notified after {late:?}");
    match leaves {
        Leaves::Nothing => assert_eq!(outcome.unwrap(), 0),
        // As over TCP: the reset came behind the end of the stream.
        Leaves::Half => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BrokenPipe),
        _ => assert_eq!(
            outcome.unwrap_err().kind(),
            ErrorKind::ConnectionReset,
            "{leaves:?}"
        ),
    }
}

/// A client announces a connection, and closes its call before the listener accepts it.
fn call_and_go(listener: &SmcListener) {
    let address = listener.local_addr().unwrap();
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket(family, kind, None).unwrap();
    let gid = Gid128 { gid: 5, ext: 5 };
    let call = Call::announce(&socket, address, gid, PairingTimeouts::default()).unwrap();
    let call = call.expect("a name to call");
    // The call is taken in with the next connection.
    let plain = TcpStream::connect(address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(!far.carrier().is_smc());
    drop((call, plain, far));
}

#[test]
fn a_stack_that_ends_leaves_nothing_and_no_peer_waiting() {
    if !alone(&a_stack_that_ends_leaves_nothing_and_no_peer_waiting) {
        return;
    }
    let (listener, _) = listener();
    let before = possessions();
    for _ in 0..3 {
        for leaves in [Leaves::Nothing, Leaves::Unread, Leaves::Half] {
            live_and_go(&listener, leaves);
            assert!(
                settles(SECOND, || possessions() == before),
                "{leaves:?}: {before:?}, now {:?}",
                possessions()
            );
        }
        //= SHM-036 test
        call_and_go(&listener);
        let settled = settles(SECOND, || possessions() == before);
        assert!(settled, "{before:?}, now {:?}", possessions());
    }
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// Room for connections costs memory when they come.
#[test]
fn a_stack_with_room_for_thousands_of_connections_begins_small() {
    if !alone(&a_stack_with_room_for_thousands_of_connections_begins_small) {
        return;
    }
    drop(stack());
    let before = resident();
    let mut settings = settings();
    settings.connections = 16_384;
    let stack = Stack::with(settings).unwrap();
    let took = resident().saturating_sub(before);
    assert!(took < 4 << 20, "{took} bytes");
    drop(stack);
}
