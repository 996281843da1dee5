//! What the driver does with events in an order that no client brings about at will.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use smc_proto::wire::clc::{ClcKind, ClcMessage};
use smc_proto::wire::types::{DiagnosisCode, PeerId};

use super::newcomers::Stage;
use super::promises::clc_timeout;
use super::{Draining, Driver};
use crate::carrier::{Cause, Limit};
use crate::discovery::OptionNotSent;
use crate::listening::{Destination, Listening};
use crate::opening;
use crate::shard::Shard;
use crate::socket::Socket;
use crate::stack::Settings;
use crate::undecided::Undecided;

const LONG: Duration = Duration::from_secs(20);
const CAUSE: Cause = Cause::Limit(Limit::Undecided(1));

/// A driver that takes no events in by itself, its listener, and where that listens.
fn driver() -> (Driver, Arc<Listening>, SocketAddr) {
    let without_rnics = Err(std::io::ErrorKind::Unsupported.into());
    let shard = Shard::new(Settings::default(), without_rnics).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let option_sent = Err(OptionNotSent::NoDevice);
    let listening =
        Arc::new(Listening::new(tcp, None, (option_sent, false), &shard.callers).unwrap());
    shard.enlist(&listening).unwrap();
    (Driver::new(&shard), listening, address)
}

/// A client that has promised CLC and sent nothing yet, as this driver sees it.
fn promising(
    driver: &mut Driver,
    listening: &Arc<Listening>,
    declines: Option<Cause>,
) -> TcpStream {
    let client = TcpStream::connect(listening.tcp().local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    assert!(is_readable(listening.tcp()));
    let (tcp, address) = listening.tcp().accept().unwrap();
    let to: Weak<dyn Destination> = Arc::downgrade(listening) as _;
    driver.arrive(&to, tcp.into(), address, Stage::Promised(declines));
    client
}

/// A whole CLC message, as a client may send it first.
fn message() -> Vec<u8> {
    opening::decline(PeerId::default(), DiagnosisCode::MEMORY).unwrap()
}

/// Whether something can be read before long.
fn is_readable(fd: impl std::os::fd::AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    let long = crate::shard::timespec(LONG);
    rustix::event::poll(&mut polled, Some(&long)).unwrap() > 0
}

/// The socket that the application would accept next.
fn accepted(driver: &Driver, listening: &Listening) -> Option<Arc<Socket>> {
    let next = listening.next(&driver.shard)?;
    Some(next.unwrap().0)
}

#[test]
fn the_application_is_woken_by_each_byte_behind_a_message_that_came_in_parts() {
    let (mut driver, listening, _) = driver();
    let mut client = promising(&mut driver, &listening, None);
    let message = message();
    client.write_all(&message[..20]).unwrap();
    // The driver waits for all of it from now on, and is late to find that it is there.
    let key = 1;
    let promise = driver.promises.remove(key).unwrap();
    assert!(is_readable(&promise.tcp));
    driver.promise(key, promise);
    client.write_all(&message[20..]).unwrap();
    driver.evict(1);
    let socket = accepted(&driver, &listening).expect("declined");
    client.write_all(b"x").unwrap();
    assert!(is_readable(&socket.tcp));
    let mut bytes = [0; 10];
    assert_eq!((&*socket.tcp).read(&mut bytes).unwrap(), 1);
}

#[test]
fn a_message_that_the_driver_notices_late_is_no_silence() {
    let (mut driver, listening, _) = driver();
    let mut honest = promising(&mut driver, &listening, Some(CAUSE));
    let mut silent = promising(&mut driver, &listening, Some(CAUSE));
    honest.write_all(&message()).unwrap();
    driver.promises_due(Instant::now() + clc_timeout());
    let socket = accepted(&driver, &listening).expect("declined");
    assert_eq!(
        socket.tcp.peer_addr().unwrap(),
        honest.local_addr().unwrap()
    );
    let mut bytes = [0; 100];
    let len = honest.read(&mut bytes).unwrap();
    let (message, _) = ClcMessage::parse(&bytes[..len]).unwrap();
    assert_eq!(message.kind(), ClcKind::Decline);
    let error = silent.read(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(accepted(&driver, &listening).is_none());
}

#[test]
fn a_connection_that_waits_to_be_counted_keeps_no_port_taken() {
    let (mut driver, listening, address) = driver();
    *driver.shard.undecided() = Undecided::new(1);
    let _first = promising(&mut driver, &listening, None);
    let mut second = promising(&mut driver, &listening, None);
    assert_eq!(driver.held.len(), 1);
    driver.shard.delist(&listening);
    drop(listening);
    // For a moment, a child of another test may have a copy.
    let end = Instant::now() + LONG;
    while let Err(error) = TcpListener::bind(address) {
        assert!(Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The kernel has reset those that it had not handed over yet; so does the driver.
    assert!(driver.admit_held(Instant::now()).is_none());
    let outcome = second.read(&mut [0; 1]);
    assert!(matches!(outcome, Ok(0) | Err(_)), "{outcome:?}");
}

//= SHM-064 test
#[test]
fn connections_that_are_drained_are_bounded_and_given_up_in_time() {
    let (mut driver, listening, _) = driver();
    driver.draining = Draining::new(1);
    let clients = [(); 2].map(|()| promising(&mut driver, &listening, None));
    for number in [1, 2] {
        driver.evict(number);
        let socket = accepted(&driver, &listening).expect("declined");
        driver.shard.drain(&socket);
    }
    let now = Instant::now();
    assert!(driver.drain_dropped(now));
    // One of the same source does not push the first one out at once.
    driver.draining_due(now + clc_timeout() - Duration::from_millis(1));
    assert!(driver.draining.next().is_some());
    for (mut client, is_kept) in clients.into_iter().zip([true, false]) {
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        let (message, len) = ClcMessage::parse(&bytes).unwrap();
        assert_eq!((message.kind(), len), (ClcKind::Decline, bytes.len()));
        client.write_all(&self::message()).unwrap();
        let error = rustix::net::sockopt::socket_error(&client).unwrap();
        assert_eq!(error.is_ok(), is_kept, "{error:?}");
    }
    driver.draining_due(now + clc_timeout());
    assert!(driver.draining.next().is_none());
}
