//! Clients that take their time over what carries their connections: they are bounded in
//! number, keep no other out, and lose no byte.
//!
//! Each test is a process of its own: the bound follows from its limit of descriptors.

use crate::common::alone::alone;
use crate::common::clc;
use crate::common::peer;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::peer::Peer;
use crate::common::rnics::rnics;
use crate::common::{many_descriptors, settings, settles, silent, stack};
use rustix::event::{PollFd, PollFlags};
use smc_proto::wire::clc::{ClcKind, ClcMessage};
use smc_sockets::{Cause, Limit, Policy, Settings, SmcListener, SmcStream, Stack};
use smc_transport_verbs::soft::Fabric;

/// Less than the engine waits for a CLC message.
const SOON: Duration = Duration::from_secs(5);
/// Longer than a newcomer waits for the oldest of its own source.
const YOUNG: Duration = Duration::from_millis(150);

/// Whether this process runs nothing but the test, with so many descriptors ([`alone`]).
fn alone_with<Test: Fn()>(descriptors: u64, test: &Test) -> bool {
    if !alone(test) {
        return false;
    }
    let which = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(which);
    limit.current = Some(descriptors);
    rustix::process::setrlimit(which, limit).unwrap();
    true
}

/// A stack whose bound of undecided connections was set by [`alone_with`], in a process that may have
/// more descriptors from now on.
fn bounded(settings: Settings) -> Stack {
    let stack = Stack::with(settings).unwrap();
    many_descriptors();
    stack
}

/// The first CLC message that has come, if one has.
fn message(mut tcp: &TcpStream) -> Option<ClcMessage> {
    tcp.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1000];
    match tcp.read(&mut bytes) {
        Ok(len) => Some(ClcMessage::parse(&bytes[..len]).unwrap().0),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            None
        }
    }
}

/// Accepts on a thread of its own; what was accepted.
fn accepted(listener: SmcListener) -> mpsc::Receiver<SmcStream> {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if give.send(stream.unwrap()).is_err() {
                return;
            }
        }
    });
    take
}

//= SHM-062 test
/// Silent clients beyond the bound make room: they are declined, the oldest first, and the
/// application has them as TCP.
#[test]
fn a_crowd_of_silent_clients_is_bounded_and_keeps_no_other_out() {
    const MOST: usize = 100;
    const MORE: usize = 30;
    if !alone_with(
        4 * MOST as u64,
        &a_crowd_of_silent_clients_is_bounded_and_keeps_no_other_out,
    ) {
        return;
    }
    let server = bounded(settings());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = accepted(listener);
    let mut crowd: Vec<_> = (0..MOST).map(|_| silent(address)).collect();
    std::thread::sleep(YOUNG);
    crowd.extend((0..MORE).map(|_| silent(address)));
    // Exactly those that are evicted are accepted.
    let cause = Cause::Limit(Limit::Undecided(MOST));
    let evicted: Vec<_> = (0..MORE)
        .map(|_| taken.recv_timeout(SOON).expect("one that made room"))
        .collect();
    for stream in &evicted {
        assert_eq!(stream.carrier().why_tcp().unwrap().cause(), cause);
    }
    assert!(taken.try_recv().is_err(), "one too many");
    for (at, tcp) in crowd.iter().enumerate() {
        let kind = message(tcp).map(|message| message.kind());
        let expected = (at < MORE).then_some(ClcKind::Decline);
        assert_eq!(kind, expected, "{at}");
    }
    std::thread::sleep(YOUNG);
    // One that is quick is served at once, and over shared memory.
    let begin = Instant::now();
    let mut stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    stream.write_all(b"quick").unwrap();
    let mut other = taken.recv_timeout(SOON).unwrap();
    // The one that had to go for it comes first.
    if !other.carrier().is_smc() {
        other = taken.recv_timeout(SOON).unwrap();
    }
    other.read_exact(&mut [0; 5]).unwrap();
    // And so is one that knows nothing of SMC.
    TcpStream::connect(address)
        .unwrap()
        .write_all(b"plain")
        .unwrap();
    let mut plain = taken.recv_timeout(SOON).unwrap();
    plain.read_exact(&mut [0; 5]).unwrap();
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

//= SHM-062 test
/// A client that was declined before it had proposed continues over TCP.
#[test]
fn a_client_that_made_room_keeps_every_byte() {
    const MOST: usize = 64;
    if !alone_with(4 * MOST as u64, &a_client_that_made_room_keeps_every_byte) {
        return;
    }
    let server = bounded(settings());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = accepted(listener);
    // With its Proposal at once, in two parts, and one that declines by itself.
    let mut slow: Vec<_> = (0..3).map(|_| Peer::connect(address)).collect();
    let proposals: Vec<_> = slow.iter_mut().map(Peer::propose).collect();
    slow[1].send(&proposals[1][..20]);
    std::thread::sleep(YOUNG);
    let crowd: Vec<_> = (0..MOST).map(|_| silent(address)).collect();
    for (at, (peer, proposal)) in slow.iter_mut().zip(&proposals).enumerate() {
        let mut stream = taken.recv_timeout(SOON).expect("it made room");
        assert_eq!(peer.receive().kind(), ClcKind::Decline);
        // The server's first bytes are the application's, too.
        stream.write_all(b"greeting").unwrap();
        let rest = match at {
            0 => proposal.clone(),
            1 => proposal[20..].to_vec(),
            _ => peer::decline(),
        };
        stream.set_nonblocking(true).unwrap();
        peer.send(&rest[..rest.len() - 1]);
        std::thread::sleep(Duration::from_millis(20));
        let error = stream.read(&mut [0; 100]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{at}");
        peer.send(&rest[rest.len() - 1..]);
        peer.send(b"octets");
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut read = [0; 100];
        let len = stream.read(&mut read).unwrap();
        assert_eq!(&read[..len], b"octets", "{at}");
        peer.send(b"more");
        peer.tcp.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        assert_eq!(stream.peek(&mut read).unwrap(), 4);
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"more");
        drop(stream);
        assert_eq!(peer.rest(), b"greeting");
    }
    drop(crowd);
}

//= SHM-064 test
/// A client that was declined before it had proposed, to which the application writes and whose
/// stream it drops before the Proposal comes.
#[test]
fn a_client_whose_stream_is_dropped_before_its_proposal_is_not_reset() {
    const MOST: usize = 64;
    if !alone_with(
        4 * MOST as u64,
        &a_client_whose_stream_is_dropped_before_its_proposal_is_not_reset,
    ) {
        return;
    }
    let server = bounded(settings());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = accepted(listener);
    // With its Proposal at once, in two parts, and one that declines by itself.
    let mut slow: Vec<_> = (0..3).map(|_| Peer::connect(address)).collect();
    let proposals: Vec<_> = slow.iter_mut().map(Peer::propose).collect();
    slow[1].send(&proposals[1][..20]);
    std::thread::sleep(YOUNG);
    let crowd: Vec<_> = (0..MOST).map(|_| silent(address)).collect();
    for (at, (peer, proposal)) in slow.iter_mut().zip(&proposals).enumerate() {
        let mut stream = taken.recv_timeout(SOON).expect("it made room");
        stream.write_all(b"goodbye").unwrap();
        drop(stream);
        assert_eq!(peer.receive().kind(), ClcKind::Decline);
        match at {
            0 => peer.send(proposal),
            1 => peer.send(&proposal[20..]),
            _ => peer.send(&peer::decline()),
        }
        // A reset would be an error.
        assert_eq!(peer.rest(), b"goodbye", "{at}");
        // Bytes that arrive after the close are answered by a reset, as over TCP.
        if at == 0 {
            peer.send(b"late");
            let is_reset = || {
                rustix::net::sockopt::socket_error(&peer.tcp)
                    .unwrap()
                    .is_err()
            };
            assert!(settles(SOON, is_reset));
        }
    }
    drop(crowd);
}

//= SHM-064 test
/// A program that accepts by itself has closed the connection before its client proposed, and then
/// accepts so many that this one makes room.
#[test]
fn a_client_whose_connection_was_closed_and_makes_room_is_not_reset() {
    const MOST: usize = 64;
    if !alone_with(
        4 * MOST as u64,
        &a_client_whose_connection_was_closed_and_makes_room_is_not_reset,
    ) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut assuming = settings();
    let policy = format!(
        "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{}] }}]",
        address.port()
    );
    assuming.policy = Policy::parse(&policy).unwrap();
    let server = bounded(assuming);
    let accepts = || {
        let client = TcpStream::connect(address).unwrap();
        let accepting = server.accepted(listener.accept().unwrap().0).unwrap();
        let error = accepting.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        (client, accepting)
    };
    let (mut client, closed) = accepts();
    drop(closed);
    std::thread::sleep(YOUNG);
    let crowd: Vec<_> = (0..MOST).map(|_| accepts()).collect();
    client.set_read_timeout(Some(SOON)).unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    clc::is_decline(&received);
    client.write_all(&clc::proposal()).unwrap();
    // A reset would come at once.
    std::thread::sleep(YOUNG);
    let error = rustix::net::sockopt::socket_error(&client).unwrap();
    assert_eq!(error, Ok(()));
    drop(crowd);
}

/// Many clients at once, none of them slow.
#[test]
fn a_crowd_of_honest_clients_is_smc_to_the_last() {
    const CROWD: usize = 200;
    if !alone_with(4096, &a_crowd_of_honest_clients_is_smc_to_the_last) {
        return;
    }
    let server = bounded(settings());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = accepted(listener);
    let client = stack();
    let connecting: Vec<_> = (0..CROWD)
        .map(|_| SmcStream::begin_connect(&client, address).unwrap())
        .collect();
    let mut streams = Vec::new();
    for connecting in &connecting {
        let stream = loop {
            match connecting.finish() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(connecting, PollFlags::IN)];
                    rustix::event::poll(&mut polled, None).unwrap();
                }
                outcome => break outcome.unwrap(),
            }
        };
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        streams.push(stream);
    }
    for _ in 0..CROWD {
        let stream = taken.recv_timeout(SOON).unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    }
}

//= SHM-063 test
/// A listener whose clients are known to speak SMC by the policy, which are not paired: each
/// of them is waited for.
#[test]
fn silence_where_smc_is_assumed_resets_no_other() {
    const MOST: usize = 64;
    if !alone_with(
        4 * MOST as u64,
        &silence_where_smc_is_assumed_resets_no_other,
    ) {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let mut assuming = settings();
    assuming.policy = Policy::parse(&format!(
        "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{}] }}]",
        address.port()
    ))
    .unwrap();
    let fabric = Fabric::default();
    let server = Stack::with_rnics(assuming.clone(), rnics(&fabric, 2, 1).alone()).unwrap();
    many_descriptors();
    let listener = SmcListener::on(&server, tcp).unwrap();
    let taken = accepted(listener);
    let client = Stack::with_rnics(assuming, rnics(&fabric, 1, 1).alone()).unwrap();
    let mut crowd = Vec::new();
    for round in 0..10 {
        crowd.extend((0..MOST / 2).map(|_| TcpStream::connect(address).unwrap()));
        let mut stream = SmcStream::connect_on(&client, address).unwrap();
        stream.write_all(b"honest").unwrap();
        let mut other = loop {
            let other = taken.recv_timeout(SOON).unwrap();
            match other.carrier().why_tcp().map(smc_sockets::WhyTcp::cause) {
                Some(Cause::Limit(Limit::Undecided(MOST))) => {}
                None => break other,
                why => panic!("{round}: {why:?}"),
            }
        };
        other.read_exact(&mut [0; 6]).unwrap();
    }
    // A silent one is not kept for ever: it is declined, or reset when its time is up.
    for mut tcp in &crowd {
        tcp.set_read_timeout(Some(2 * SOON)).unwrap();
        match tcp.read(&mut [0; 100]) {
            Ok(len) => assert!(len > 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}
