//! Peers that break the rules: after pairing, and at the pairing socket. Applications get
//! their peer's bytes, the end, or an error, and never CLC.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::peer::{Door, Peer, decline, of_another_process, with_another_dmb};
use crate::common::{Random, listener, octets, stack};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use smc_proto::event::CloseReason;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::DiagnosisCode;
use smc_sockets::{Carrier, SmcListener, SmcStream};

/// The engine waits this long for a CLC message, and as long again for anything that
/// might still come.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a paired client sends instead of a Proposal.
fn no_proposals() -> Vec<(&'static str, Vec<u8>)> {
    let mut proposal = {
        let (listener, address) = listener();
        let octets = Peer::connect(address).propose();
        drop(listener);
        octets
    };
    let cut = proposal[..proposal.len() / 2].to_vec();
    let mut wrong_end = proposal.clone();
    *wrong_end.last_mut().unwrap() ^= 1;
    // Longer than any message.
    proposal[5..7].copy_from_slice(&u16::MAX.to_be_bytes());
    let mut random = Random::new(1);
    let noise = (0..5000).map(|_| random.next() as u8).collect();
    vec![
        ("nothing but the end", Vec::new()),
        ("noise", noise),
        ("half a Proposal", cut),
        ("a Proposal with a wrong end", wrong_end),
        ("a Proposal without end", proposal),
        ("a Decline", decline()),
        ("an eye catcher only", b"\xe2\xd4\xc3\xc4".to_vec()),
    ]
}

#[test]
fn a_connection_decided_when_nothing_accepts_any_more_is_aborted() {
    let (listener, address) = listener();
    let mut client = Peer::connect(address);
    let proposal = client.propose();
    client.send(&proposal);
    let accept = client.receive();
    client.handle(&accept);
    let confirm = client.next();
    drop(listener);
    client.send(&confirm);
    assert_eq!(client.end(), CloseReason::PeerAbort);
}

#[test]
fn a_client_that_sends_no_proposal_is_an_error_or_tcp() {
    for (what, sent) in no_proposals() {
        let (listener, address) = listener();
        listener.set_nonblocking(true).unwrap();
        let mut client = Peer::connect(address);
        client.send(&sent);
        // The connection may have been reset already.
        let _ = client.tcp.shutdown(Shutdown::Write);
        let begin = Instant::now();
        // A connection that was reset may never be accepted.
        loop {
            match listener.accept() {
                Ok((mut stream, _)) => {
                    assert!(matches!(stream.carrier(), Carrier::Tcp(_)), "{what}");
                    let mut read = Vec::new();
                    let outcome = stream.read_to_end(&mut read);
                    assert!(outcome.is_err() || read.is_empty(), "{what}: {read:x?}");
                    break;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            client.tcp.set_nonblocking(true).unwrap();
            match client.tcp.read(&mut [0; 1000]) {
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                _ => sleep(Duration::from_millis(1)),
            }
            assert!(begin.elapsed() < DEADLINE, "{what}");
        }
        serves_on(&listener, what);
    }
}

/// The listener serves the next client as any other.
fn serves_on(listener: &SmcListener, what: &str) {
    listener.set_nonblocking(false).unwrap();
    let address = listener.local_addr().unwrap();
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"plain").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 5]).expect(what);
}

#[test]
fn a_client_that_is_silent_is_given_up() {
    let (listener, address) = listener();
    let begin = Instant::now();
    let silent = Peer::connect(address);
    // No other client waits because of the silent one.
    serves_on(&listener, "meanwhile");
    assert!(begin.elapsed() < Duration::from_secs(5));
    let mut tcp = &silent.tcp;
    // A Decline, or a reset.
    let _ = tcp.read(&mut [0; 1000]);
    assert!(begin.elapsed() < DEADLINE);
}

#[test]
fn a_server_that_does_not_answer_right_is_an_error_or_tcp() {
    type Break = fn(&mut Peer);
    let wrong: [(&str, Break); 5] = [
        ("the end", |_| {}),
        ("noise", |server| server.send(&octets(3000))),
        ("half an Accept", |server| {
            let accept = accept(server);
            server.send(&accept[..accept.len() / 2]);
        }),
        ("its client's Proposal", |server| {
            let mut proposal = [0; smc_proto::wire::clc::MAX_LENGTH];
            let len = server.receive().emit(&mut proposal).unwrap();
            server.send(&proposal[..len]);
        }),
        ("a message without end", |server| {
            let mut accept = accept(server);
            accept[5..7].copy_from_slice(&u16::MAX.to_be_bytes());
            server.send(&accept);
        }),
    ];
    for (what, answer) in wrong {
        let door = Door::open();
        let address = door.address();
        scope(|scope| {
            let serving = scope.spawn(move || {
                let mut server = door.accept();
                answer(&mut server);
                let _ = server.tcp.shutdown(Shutdown::Write);
                // Until the client has ended.
                let mut sent = Vec::new();
                let _ = server.tcp.read_to_end(&mut sent);
            });
            let begin = Instant::now();
            match SmcStream::connect_on(&stack(), address) {
                Ok(mut stream) => {
                    assert!(!stream.carrier().is_smc(), "{what}");
                    let mut read = Vec::new();
                    let outcome = stream.read_to_end(&mut read);
                    assert!(outcome.is_err() || read.is_empty(), "{what}: {read:x?}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{what}"),
            }
            assert!(begin.elapsed() < DEADLINE, "{what}");
            serving.join().unwrap();
        });
    }
}

/// A right answer to the client's Proposal.
fn accept(server: &mut Peer) -> Vec<u8> {
    let proposal = server.receive();
    server.listen();
    server.handle(&proposal);
    server.next()
}

#[test]
fn a_client_that_loses_patience_is_served_over_tcp() {
    let (listener, address) = listener();
    let mut client = Peer::connect(address);
    let proposal = client.propose();
    // The client does not wait for the Accept, which may be in flight.
    client.send(&[proposal, decline(), b"octets".to_vec()].concat());
    client.tcp.shutdown(Shutdown::Write).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    assert!(!stream.carrier().is_smc());
    let mut read = String::new();
    stream.read_to_string(&mut read).unwrap();
    assert_eq!(read, "octets");
    stream.write_all(b"answer").unwrap();
    drop(stream);
    assert!(client.rest().ends_with(b"answer"));
}

/// A client of this server is on TCP, with what the server says behind its last CLC
/// message.
fn meets_over_tcp(mut server: impl FnMut(&mut Peer) + Send) {
    let door = Door::open();
    let address = door.address();
    scope(|scope| {
        scope.spawn(move || {
            let mut peer = door.accept();
            server(&mut peer);
            peer.tcp.shutdown(Shutdown::Write).unwrap();
            assert_eq!(peer.rest(), b"answer");
        });
        let mut stream = SmcStream::connect_on(&stack(), address).unwrap();
        assert!(!stream.carrier().is_smc());
        let mut read = String::new();
        stream.read_to_string(&mut read).unwrap();
        assert_eq!(read, "octets");
        stream.write_all(b"answer").unwrap();
    });
}

#[test]
fn a_server_that_loses_patience_is_met_over_tcp() {
    meets_over_tcp(|server| {
        let accept = accept(server);
        server.send(&[accept, decline(), b"octets".to_vec()].concat());
    });
}

/// Number of times that this thread has blocked.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn who_waits_for_the_rest_of_a_message_sleeps() {
    let door = Door::open();
    let address = door.address();
    scope(|scope| {
        scope.spawn(move || {
            let mut server = door.accept();
            server.receive();
            let decline = decline();
            server.send(&decline[..4]);
            std::thread::sleep(Duration::from_secs(1));
            server.send(&[&decline[4..], b"octets"].concat());
            server.tcp.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.rest(), b"answer");
        });
        let stack = stack();
        let before = sleeps();
        let mut stream = SmcStream::connect_on(&stack, address).unwrap();
        // Each time it woke it would have found nothing new.
        assert!(sleeps() - before < 100, "{}", sleeps() - before);
        let mut read = String::new();
        stream.read_to_string(&mut read).unwrap();
        assert_eq!(read, "octets");
        stream.write_all(b"answer").unwrap();
    });
}

#[test]
fn a_server_that_offers_memory_it_does_not_have_is_met_over_tcp() {
    meets_over_tcp(|server| {
        let accept = with_another_dmb(&accept(server));
        server.send(&accept);
        assert!(matches!(server.receive(), ClcMessage::Decline(_)));
        server.send(b"octets");
    });
}

/// A server that was paired as one process, and names another one's GID in its Accept.
//= SHM-055 test
#[test]
fn a_server_that_names_another_process_than_was_paired_is_met_over_tcp() {
    meets_over_tcp(|server| {
        let accept = of_another_process(&accept(server));
        server.send(&accept);
        let ClcMessage::Decline(decline) = server.receive() else {
            panic!("no Decline");
        };
        assert_eq!(decline.diagnosis, DiagnosisCode::NO_SMCD_DEVICE);
        server.send(b"octets");
    });
}

/// Ends a connection with a reset.
fn reset(tcp: &TcpStream) {
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(tcp, linger).unwrap();
    // What is left of it is closed with the peer.
}

/// Half a Decline, which may cross the client's, and then nothing more.
fn half_a_decline(resets: bool) -> (std::io::Result<usize>, Vec<u8>) {
    let door = Door::open();
    let address = door.address();
    scope(|scope| {
        let serving = scope.spawn(move || {
            let mut server = door.accept();
            let accept = with_another_dmb(&accept(&mut server));
            server.send(&accept);
            assert!(matches!(server.receive(), ClcMessage::Decline(_)));
            server.send(&decline()[..20]);
            // The client has them, and waits for the rest.
            sleep(Duration::from_millis(50));
            if resets {
                reset(&server.tcp);
            }
        });
        let mut stream = SmcStream::connect_on(&stack(), address).unwrap();
        assert!(!stream.carrier().is_smc());
        // A read of no bytes does not wait for any.
        assert_eq!(stream.read(&mut []).unwrap(), 0);
        let mut read = Vec::new();
        let outcome = stream.read_to_end(&mut read);
        serving.join().unwrap();
        (outcome, read)
    })
}

#[test]
fn half_a_decline_and_a_reset_are_no_octets_of_the_application() {
    //= CLC-064 test
    let (outcome, read) = half_a_decline(true);
    assert_eq!(read, b"", "{outcome:?}");
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // With an end in order, they are what the peer wrote.
    let (outcome, read) = half_a_decline(false);
    assert_eq!((outcome.unwrap(), &read[..]), (20, &decline()[..20]));
}

#[test]
fn a_client_that_confirms_with_memory_it_does_not_have_is_reset() {
    let (listener, address) = listener();
    let mut client = Peer::connect(address);
    let proposal = client.propose();
    client.send(&proposal);
    let accept = client.receive();
    client.handle(&accept);
    // A client that has confirmed SMC-D uses it: it cannot return to TCP.
    let confirm = with_another_dmb(&client.next());
    client.send(&confirm);
    let error = client.tcp.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    serves_on(&listener, "the next one");
}

/// A client that has paired and confirmed, and the server's stream.
fn confirmed(listener: &SmcListener) -> (Peer, SmcStream) {
    let mut client = Peer::connect(listener.local_addr().unwrap());
    let proposal = client.propose();
    client.send(&proposal);
    let accept = client.receive();
    client.handle(&accept);
    let confirm = client.next();
    client.send(&confirm);
    let (stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    (client, stream)
}

/// The outcome of a call whose peer takes its memory back, and how soon.
fn outcome_of(mut stream: SmcStream, of: fn(&mut SmcStream) -> std::io::Result<usize>) {
    let (sender, outcomes) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(of(&mut stream).map_err(|error| error.kind())));
    let outcome = outcomes.recv_timeout(Duration::from_secs(1));
    assert_eq!(outcome, Ok(Err(ErrorKind::ConnectionReset)));
}

#[test]
fn a_peer_that_takes_its_memory_back_is_an_error() {
    let (listener, _) = listener();
    let (mut client, stream) = confirmed(&listener);
    client.withdraw();
    outcome_of(stream, |stream| {
        // Until it is known.
        loop {
            stream.write_all(b"octets")?;
            sleep(Duration::from_millis(10));
        }
    });
    serves_on(&listener, "the next one");
}

#[test]
fn a_reader_gets_the_reset_of_a_peer_that_takes_its_memory_back() {
    //= D-059 test
    let (listener, _) = listener();
    // The reader may have begun to wait, or not.
    for begins in [Duration::ZERO, Duration::from_millis(50)] {
        let (mut client, mut stream) = confirmed(&listener);
        let reads = std::thread::spawn(move || {
            sleep(begins);
            let outcome = stream.read(&mut [0; 100]);
            (outcome.map_err(|error| error.kind()), Instant::now())
        });
        sleep(Duration::from_millis(20));
        client.withdraw();
        let end = Instant::now() + begins + Duration::from_secs(1);
        let (outcome, at) = reads.join().unwrap();
        assert_eq!(outcome, Err(ErrorKind::ConnectionReset));
        assert!(at < end, "{:?} late", at - end);
    }
    serves_on(&listener, "the next one");
}

#[test]
fn a_flood_at_the_pairing_socket_delays_no_connection() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&tcp).unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let name = format!("smc-d.3.{cookie:016x}");
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let mut random = Random::new(3);
    let mut callers = Vec::new();
    for _ in 0..8 {
        // As many calls as the socket accepts, each with noise.
        for _ in 0..200 {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let caller = rustix::net::socket_with(family, kind, flags, None).unwrap();
            if rustix::net::connect(&caller, &name).is_err() {
                break;
            }
            let noise: Vec<u8> = (0..random.below(100))
                .map(|_| random.next() as u8)
                .collect();
            let _ = rustix::net::send(&caller, &noise, SendFlags::NOSIGNAL);
            callers.push(caller);
        }
        let begin = Instant::now();
        serves_on(&listener, "a plain client");
        scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut text = [0; 5];
                stream.read_exact(&mut text).unwrap();
                stream.write_all(&text).unwrap();
            });
            // SMC or not: the flood may keep its call out.
            let mut stream = SmcStream::connect_on(&common::stack(), address).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut text = [0; 5];
            stream.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"hello");
        });
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    assert!(callers.len() > 200);
}

/// A server's stream of a client that breaks the rules from now on.
fn established() -> (Peer, SmcStream) {
    let (listener, address) = listener();
    let mut client = Peer::connect(address);
    let proposal = client.propose();
    client.send(&proposal);
    let accept = client.receive();
    client.handle(&accept);
    let confirm = client.next();
    client.send(&confirm);
    let (stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc());
    (client, stream)
}

/// Bytes that the application does not read stay in the memory that it has for them.
#[test]
fn a_head_that_is_no_message_but_has_the_flag_of_an_abort_costs_no_memory() {
    let (mut client, stream) = established();
    let room = client.fill();
    let mut head = [0; 32];
    // The peer aborted the connection, if this were a message.
    head[23] = 0x20;
    let mut more = 0;
    for _ in 0..8 {
        // The other side has received what was written, and frees none of it.
        sleep(Duration::from_millis(20));
        client.signal(&head);
        sleep(Duration::from_millis(200));
        more += client.fill();
    }
    assert_eq!(more, 0, "bytes behind the {room} that there is room for");
    assert_eq!(stream.unread().unwrap(), Some(room));
}

#[test]
fn an_urgent_byte_and_what_came_before_it_are_there_behind_an_abort() {
    let (mut client, mut stream) = established();
    client.abort_behind_urgent(b"abc!");
    sleep(Duration::from_millis(100));
    let mut read = [0; 10];
    assert_eq!(stream.read(&mut read).unwrap(), 3);
    assert_eq!(&read[..3], b"abc");
    assert_eq!(stream.receive_urgent().unwrap(), b'!');
    let error = stream.read(&mut read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn what_a_peer_wrote_before_it_closed_and_took_its_memory_back_is_there() {
    let (mut client, mut stream) = established();
    client.write_all(b"last words");
    client.close();
    sleep(Duration::from_millis(50));
    client.withdraw();
    sleep(Duration::from_millis(100));
    let mut read = [0; 20];
    assert_eq!(stream.read(&mut read).unwrap(), 10);
    assert_eq!(&read[..10], b"last words");
    assert_eq!(stream.read(&mut read).unwrap(), 0);
}
