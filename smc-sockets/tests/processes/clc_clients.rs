//! Clients that speak CLC over TCP, of programs that accept by themselves and have no room for SMC, or
//! are processes without a stack: the application gets TCP, and none of the messages of CLC.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::children::fork;
use crate::common::clc::{decline, is_decline, proposal};
use crate::common::rnics::rnics;
use crate::common::{settings, stack};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smc_sockets::{Cause, Policy, Settings, SmcListener, SmcStream, Stack};
use smc_transport_verbs::soft::Fabric;

const LONG: Duration = Duration::from_secs(20);
/// Less than [`LONG`] by far.
const SHORT: Duration = Duration::from_millis(20);

/// Settings by which clients of this host are taken to speak CLC over TCP at a port.
pub(crate) fn assuming_at(port: u16) -> Settings {
    let mut settings = settings();
    let policy = format!("assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]");
    settings.policy = Policy::parse(&policy).unwrap();
    settings
}

/// A stack that takes clients of this host to speak CLC over TCP at a port.
pub(crate) fn assuming(port: u16) -> Stack {
    Stack::with(assuming_at(port)).unwrap()
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection whose client has sent these bytes, which have come.
fn sent(listener: &TcpListener, bytes: &[u8]) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(bytes).unwrap();
    let (tcp, _) = listener.accept().unwrap();
    tcp.set_read_timeout(Some(LONG)).unwrap();
    let mut come = vec![0; bytes.len()];
    let end = Instant::now() + LONG;
    while !bytes.is_empty() && tcp.peek(&mut come).unwrap() < bytes.len() {
        assert!(Instant::now() < end);
    }
    (client, tcp)
}

/// What was sent to a client so far is a Decline.
#[track_caller]
fn is_declined(mut client: &TcpStream) {
    let mut bytes = [0; 1000];
    let len = client.read(&mut bytes).unwrap();
    is_decline(&bytes[..len]);
}

/// The application reads this and no more, and is answered.
#[track_caller]
fn reads(mut server: impl Read + Write, client: &mut TcpStream, text: &[u8]) {
    client.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert_eq!(received, text);
    server.write_all(b"answer").unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
}

#[track_caller]
fn is_reset(mut tcp: &TcpStream) {
    let error = tcp.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Without a descriptor and without a stream.
#[test]
fn a_client_that_is_let_go_is_declined_and_its_proposal_dropped() {
    let (listener, address) = listener();
    let server = assuming(address.port());
    let (proposal, decline) = (proposal(), decline());
    for (messages, text) in [
        (vec![&proposal], &b"octets"[..]),
        (vec![&proposal, &decline], b"octets"),
        (vec![&decline], b"octets"),
        (vec![&proposal], &proposal),
        // It knows nothing of CLC.
        (vec![], b"octets"),
    ] {
        let mut bytes: Vec<u8> = messages.into_iter().flatten().copied().collect();
        bytes.extend_from_slice(text);
        let (mut client, tcp) = sent(&listener, &bytes);
        server.let_go(&tcp, Duration::ZERO).unwrap();
        is_declined(&client);
        reads(tcp, &mut client, text);
    }
    // Nothing is behind the Proposal yet.
    let (mut client, tcp) = sent(&listener, &proposal);
    server.let_go(&tcp, Duration::ZERO).unwrap();
    is_declined(&client);
    client.write_all(b"octets").unwrap();
    reads(tcp, &mut client, b"octets");
    // It comes while it is waited for, in two parts.
    let (mut client, tcp) = sent(&listener, b"");
    let (first, second) = proposal.split_at(10);
    std::thread::scope(|scope| {
        let letting_go = scope.spawn(|| server.let_go(&tcp, LONG));
        is_declined(&client);
        for part in [first, second] {
            std::thread::sleep(SHORT);
            client.write_all(part).unwrap();
        }
        letting_go.join().unwrap().unwrap();
    });
    reads(tcp, &mut client, b"");
}

#[test]
fn a_client_that_is_let_go_and_proposes_too_late_is_reset() {
    let (listener, address) = listener();
    let server = assuming(address.port());
    let proposal = proposal();
    let mut endless = proposal.clone();
    endless[5..7].fill(0xff);
    for bytes in [&[], &proposal[..10], &endless] {
        let (mut client, tcp) = sent(&listener, bytes);
        let begin = Instant::now();
        let error = server.let_go(&tcp, SHORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(begin.elapsed() < LONG / 2);
        is_declined(&client);
        is_reset(&client);
        // It cannot send it any more.
        let _ = client.write_all(&proposal);
        assert!(!matches!((&tcp).read(&mut [0; 100]), Ok(1..)));
    }
}

/// The kernel has forgotten its address then: it may be one that speaks CLC.
#[test]
fn of_a_client_that_has_reset_no_clc_is_left() {
    let (listener, address) = listener();
    let (assuming, other) = (assuming(address.port()), stack());
    let (proposal, decline) = (proposal(), decline());
    for (server, bytes, is_dropped) in [
        (&assuming, &proposal[..], true),
        (&assuming, &proposal[..10], true),
        (&assuming, &decline, true),
        (&assuming, b"octets", false),
        (&assuming, b"", false),
        (&other, &proposal, false),
    ] {
        for is_let_go in [true, false] {
            let (client, mut tcp) = sent(&listener, bytes);
            let now = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&client, now).unwrap();
            drop(client);
            let end = Instant::now() + LONG;
            while tcp.peer_addr().is_ok() {
                assert!(Instant::now() < end);
            }
            if is_let_go {
                let done = server.let_go(&tcp, Duration::ZERO);
                let kind = done.map_err(|error| error.kind());
                assert_eq!(kind == Err(ErrorKind::ConnectionReset), is_dropped);
            } else {
                tcp = server.accepted(tcp).unwrap_err();
            }
            let mut received = vec![0; bytes.len() + 1];
            match tcp.read(&mut received) {
                Ok(len) => assert_eq!((&received[..len], is_dropped), (bytes, false)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                    assert!(is_dropped || bytes.is_empty(), "{bytes:?}");
                }
            }
        }
    }
}

/// The client's own Decline may follow, unless it has come.
#[test]
fn a_client_that_has_waited_too_long_is_reset() {
    let (listener, address) = listener();
    let server = assuming(address.port());
    let both = [proposal(), decline()].concat();
    let (waiting, tcp) = sent(&listener, &proposal());
    let (mut gone_on, other) = sent(&listener, &both);
    std::thread::sleep(Duration::from_millis(3200));
    let error = server.let_go(&tcp, SHORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    is_declined(&waiting);
    is_reset(&waiting);
    server.let_go(&other, SHORT).unwrap();
    is_declined(&gone_on);
    gone_on.write_all(b"octets").unwrap();
    reads(other, &mut gone_on, b"octets");
}

/// The client is not known to speak CLC, and sends what only looks like it.
#[test]
fn a_client_that_is_not_known_to_speak_clc_is_left_alone() {
    let (listener, _) = listener();
    let server = stack();
    let (mut client, tcp) = sent(&listener, &proposal());
    let begin = Instant::now();
    server.let_go(&tcp, LONG).unwrap();
    assert!(begin.elapsed() < LONG / 2);
    reads(tcp, &mut client, &proposal());
}

#[test]
fn a_connection_that_is_handed_out_has_no_clc_in_it() {
    let (listener, address) = listener();
    let server = assuming(address.port());
    let bytes = [&proposal()[..], b"octets"].concat();
    let (mut client, tcp) = sent(&listener, &bytes);
    let accepting = server.accepted(tcp).unwrap();
    let tcp = accepting.give_up(Duration::ZERO).unwrap();
    is_declined(&client);
    reads(tcp, &mut client, b"octets");
    let (client, tcp) = sent(&listener, b"");
    let accepting = server.accepted(tcp).unwrap();
    assert!(accepting.let_go(SHORT), "it is the program's");
    is_declined(&client);
    is_reset(&client);
}

#[test]
fn without_a_descriptor_left_a_client_is_answered() {
    if !alone(&without_a_descriptor_left_a_client_is_answered) {
        return;
    }
    let (listener, address) = listener();
    let server = assuming(address.port());
    let (mut client, tcp) = sent(&listener, b"");
    let accepting = server.accepted(tcp).unwrap();
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let can_be_polled = accepting.can_be_polled();
    client.write_all(&proposal()).unwrap();
    let stream = accepting.wait();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(!can_be_polled, "a descriptor was left");
    let stream = stream.unwrap();
    assert_eq!(cause(&stream), Cause::Negotiation);
    is_declined(&client);
    client.write_all(b"octets").unwrap();
    reads(stream, &mut client, b"octets");
}

fn cause(stream: &SmcStream) -> Cause {
    stream.carrier().why_tcp().unwrap().cause()
}

/// Has a child without a stack accept a connection, by itself or from a listener of its parent, and
/// serve it: the RNICs of a stack stay with the process that opened it.
fn in_a_child(by_itself: bool, serve: impl FnOnce(SmcStream), client: impl FnOnce(TcpStream)) {
    in_a_child_with((by_itself, false), serve, client);
}

/// Is [`in_a_child`], where the connection that the child accepts by itself may not block.
fn in_a_child_with(
    (by_itself, nonblocking): (bool, bool),
    serve: impl FnOnce(SmcStream),
    client: impl FnOnce(TcpStream),
) {
    let (tcp, address) = listener();
    let rnics = rnics(&Fabric::default(), 1, 1).alone();
    let server = Stack::with_rnics(assuming_at(address.port()), rnics).unwrap();
    let listener = SmcListener::on(&server, tcp.try_clone().unwrap()).unwrap();
    tcp.set_nonblocking(false).unwrap();
    let child = fork(|| {
        let stream = match by_itself {
            true => {
                let (tcp, _) = tcp.accept().unwrap();
                tcp.set_nonblocking(nonblocking).unwrap();
                let accepting = server.accepted(tcp).unwrap();
                let stream = accepting.wait().unwrap();
                let again = accepting.finish().unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Unsupported);
                stream
            }
            false => listener.accept().unwrap().0,
        };
        assert_eq!(cause(&stream), Cause::Inherited);
        serve(stream);
    });
    let mut connected = TcpStream::connect(address).unwrap();
    connected.set_read_timeout(Some(LONG)).unwrap();
    // The application's bytes may have come as well.
    let mut message = decline();
    connected.read_exact(&mut message).unwrap();
    is_decline(&message);
    client(connected);
    child.succeeds();
}

#[test]
fn a_child_without_a_stack_declines() {
    if !alone(&a_child_without_a_stack_declines) {
        return;
    }
    let bytes = [&proposal()[..], b"octets"].concat();
    let echo = |mut stream: SmcStream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        stream.write_all(&received).unwrap();
    };
    for by_itself in [true, false] {
        in_a_child(by_itself, echo, |mut client| {
            client.write_all(&bytes).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).unwrap();
            assert_eq!(received, b"octets", "by itself: {by_itself}");
        });
    }
}

/// A child of the child that has declined drops what is left of the accepted connection, whose stream
/// it has.
//= SHM-061 test
#[test]
fn what_is_left_of_a_declined_connection_leaves_the_stream_alone() {
    if !alone(&what_is_left_of_a_declined_connection_leaves_the_stream_alone) {
        return;
    }
    let (tcp, address) = listener();
    let rnics = rnics(&Fabric::default(), 1, 1).alone();
    let server = Stack::with_rnics(assuming_at(address.port()), rnics).unwrap();
    tcp.set_nonblocking(false).unwrap();
    let child = fork(|| {
        let accepting = server.accepted(tcp.accept().unwrap().0).unwrap();
        let mut stream = accepting.wait().unwrap();
        let mut left = Some(accepting);
        let inner = fork(|| {
            drop(left.take());
            stream.write_all(b"octets").unwrap();
        });
        inner.succeeds();
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    let mut message = decline();
    client.read_exact(&mut message).unwrap();
    is_decline(&message);
    let mut received = [0; 6];
    client.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"octets");
    child.succeeds();
}

/// The client's Proposal has not come, or a part of it only, when the child reads.
#[test]
fn a_child_without_a_stack_does_not_wait_for_what_is_not_to_block() {
    if !alone(&a_child_without_a_stack_does_not_wait_for_what_is_not_to_block) {
        return;
    }
    let proposal = proposal();
    let (first, rest) = proposal.split_at(20);
    let at_once = |outcome: std::io::Result<usize>, begin: Instant| {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(begin.elapsed() < LONG / 2);
    };
    let serve = |mut stream: SmcStream| {
        let mut received = [0; 6];
        for greeting in [b"1", b"2"] {
            at_once(stream.read(&mut received), Instant::now());
            let slices = &mut [std::io::IoSliceMut::new(&mut received)];
            at_once(stream.read_vectored(slices), Instant::now());
            at_once(stream.peek(&mut received), Instant::now());
            stream.write_all(greeting).unwrap();
            // The client has sent a part.
            std::thread::sleep(10 * SHORT);
        }
        let end = Instant::now() + LONG;
        while let Err(error) = stream.read(&mut received) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(Instant::now() < end);
            std::thread::sleep(SHORT);
        }
        assert_eq!(&received, b"octets");
    };
    in_a_child_with((true, true), serve, |mut client| {
        for (greeting, part) in [(b"1", first), (b"2", rest)] {
            let mut received = [0];
            client.read_exact(&mut received).unwrap();
            assert_eq!(&received, greeting);
            client.write_all(part).unwrap();
        }
        client.write_all(b"octets").unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    });
}

//= SHM-064 test
/// TCP would answer its Proposal by a reset.
#[test]
fn a_client_that_a_child_without_a_stack_answers_unread_is_not_reset() {
    if !alone(&a_client_that_a_child_without_a_stack_answers_unread_is_not_reset) {
        return;
    }
    let proposal = proposal();
    let answer = |mut stream: SmcStream| stream.write_all(b"421 busy").unwrap();
    for by_itself in [true, false] {
        in_a_child(by_itself, answer, |mut client| {
            let mut received = [0; 8];
            client.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"421 busy");
            // The child has closed it by then, or waits.
            std::thread::sleep(10 * SHORT);
            client.write_all(&proposal).unwrap();
            assert_eq!(client.read(&mut received).unwrap(), 0);
            std::thread::sleep(SHORT);
            let error = rustix::net::sockopt::socket_error(&client).unwrap();
            assert_eq!(error, Ok(()), "by itself: {by_itself}");
        });
    }
    // What is not to wait does not.
    let answer_at_once = |mut stream: SmcStream| {
        stream.set_nonblocking(true).unwrap();
        stream.write_all(b"421 busy").unwrap();
        let begin = Instant::now();
        drop(stream);
        assert!(begin.elapsed() < Duration::from_millis(900));
    };
    in_a_child(true, answer_at_once, |mut client| {
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"421 busy");
    });
}
