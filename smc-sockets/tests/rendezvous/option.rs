//! Streams and listeners that ask by SMC's TCP option, in networks of their own; and
//! servers that repeat the option without knowing it.
//!
//! Without the rights for BPF the tests say so and are skipped.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::network::{Wire, with_option};
use crate::common::children::fork;
use crate::common::clc::proposal;
use crate::common::octets;
use crate::common::rnics::{rnics, rnics_of_version_1};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use smc_sockets::tcp_option::TcpOption;
use smc_sockets::{Cause, Connecting, Policy, Settings, SmcListener, SmcStream, Stack};
use smc_transport_verbs::soft::Fabric;

/// A stack with an RNIC in software that does not use shared memory.
fn stack(fabric: &Fabric, host: u8, policy: &str) -> Stack {
    let mut settings = Settings::default();
    settings.policy = Policy::parse(policy).unwrap();
    Stack::with_rnics(settings, rnics(fabric, host, 1).alone()).unwrap()
}

fn cause(stream: &SmcStream) -> Cause {
    let why = stream.carrier().why_tcp();
    why.unwrap_or_else(|| panic!("{}", stream.carrier()))
        .cause()
}

fn crosses(mut from: &SmcStream, mut to: &SmcStream) {
    let sent = octets(20_000);
    from.write_all(&sent).unwrap();
    let mut received = vec![0; sent.len()];
    to.read_exact(&mut received).unwrap();
    assert!(received == sent);
}

#[test]
fn ends_that_both_ask_speak_smc_r() {
    with_option(|_| {
        let fabric = Fabric::default();
        let (client, server) = (stack(&fabric, 1, ""), stack(&fabric, 2, ""));
        let listener = SmcListener::bind_on(&server, (Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        let wire = Wire::tap();
        let client = SmcStream::connect_on(&client, address).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            assert_eq!(end.carrier().to_string(), "SMC-R v2.1");
        }
        crosses(&client, &server);
        crosses(&server, &client);
        let seen = wire.seen(address.port());
        assert!(seen.syn && seen.syn_ack && !seen.later);
    });
}

/// Waits until a connection that is being made goes on.
fn polled(connecting: &Connecting) {
    let mut polled = [PollFd::new(connecting, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    assert_ne!(rustix::event::poll(&mut polled, Some(&limit)).unwrap(), 0);
}

/// The stream of a connection that is being made.
fn finished(connecting: &Connecting) -> SmcStream {
    loop {
        match connecting.finish() {
            Ok(stream) => return stream,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        polled(connecting);
    }
}

/// A kernel listener that asks before it listens, for connections that the program accepts by itself.
fn asking(server: &Stack) -> (TcpListener, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    server.announce_before_listen(&socket).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Connects from one stack, and accepts with another one as a program does that has the listener.
fn both(client: &Stack, server: &Stack, listener: &TcpListener) -> (SmcStream, SmcStream) {
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| SmcStream::connect_on(client, address).unwrap());
        let (tcp, _) = listener.accept().unwrap();
        let accepting = server.accepted(tcp).expect("the client speaks SMC");
        let server = accepting.wait().unwrap();
        (client.join().unwrap(), server)
    })
}

#[test]
fn what_a_program_accepts_by_itself_may_be_smc_r() {
    with_option(|_| {
        let fabric = Fabric::default();
        let (client, server) = (stack(&fabric, 1, ""), stack(&fabric, 2, ""));
        let (listener, address) = asking(&server);
        let (client, other) = both(&client, &server, &listener);
        for end in [&client, &other] {
            assert_eq!(end.carrier().to_string(), "SMC-R v2.1");
        }
        crosses(&client, &other);
        crosses(&other, &client);
        // Without the option it is the program's at once.
        let _plain = TcpStream::connect(address).unwrap();
        let (tcp, _) = listener.accept().unwrap();
        assert!(server.accepted(tcp).is_err());
    });
}

/// The program works, for example, or spins for one connection whose server waits for another one.
#[test]
fn handshakes_end_without_a_call_of_their_program() {
    // No more than the server's time for a Proposal.
    const LIMIT: Duration = Duration::from_secs(5);
    with_option(|_| {
        let fabric = Fabric::default();
        let (client, server) = (stack(&fabric, 1, ""), stack(&fabric, 2, ""));
        let listener = SmcListener::bind_on(&server, (Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = channel();
        std::thread::spawn(move || while sender.send(listener.accept()).is_ok() {});
        // For a program that polls a descriptor each, and for one with an event loop.
        let begin: [fn(&Stack, SocketAddr) -> Connecting; 2] = [
            |client, to| SmcStream::begin_connect(client, to).unwrap(),
            |client, to| {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let family = AddressFamily::INET;
                let own = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
                SmcStream::begin_connect_listed(client, own.unwrap(), to).unwrap()
            },
        ];
        // The first one makes a link group, for which the others wait.
        let connecting = begin.map(|begin| [(); 3].map(|()| begin(&client, address)));
        let connecting = connecting.as_flattened();
        let mut servers: Vec<_> = (0..connecting.len())
            .map(|at| {
                let next = accepted.recv_timeout(LIMIT);
                let next =
                    next.unwrap_or_else(|_| panic!("{at} of {} are decided", connecting.len()));
                next.unwrap()
            })
            .collect();
        for connecting in connecting {
            let client = finished(connecting);
            let own = client.local_addr().unwrap();
            let at = servers.iter().position(|(_, from)| *from == own);
            let (server, _) = servers.swap_remove(at.expect("the server has its other end"));
            for end in [&client, &server] {
                assert_eq!(end.carrier().to_string(), "SMC-R v2.1");
                end.set_nonblocking(false).unwrap();
                end.set_read_timeout(Some(LIMIT)).unwrap();
            }
            crosses(&client, &server);
            crosses(&server, &client);
        }
    });
}

/// A client that saw the option begins with a Proposal, which is not for the application.
#[test]
fn a_client_whose_server_permits_no_peer_is_declined() {
    with_option(|_| {
        let fabric = Fabric::default();
        let (client, server) = (stack(&fabric, 1, ""), stack(&fabric, 2, "permit = []"));
        let (listener, _) = asking(&server);
        let (client, server) = both(&client, &server, &listener);
        assert_eq!(cause(&client), Cause::Negotiation);
        assert!(!server.carrier().is_smc());
        crosses(&client, &server);
        crosses(&server, &client);
    });
}

/// A client that has sent the option, and speaks CLC by the hand of the test.
fn asks(option: &TcpOption, address: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    option.marks().opt_in(&socket).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    socket.into()
}

/// The program has no descriptor to accept with, or is a child without a stack of its own.
#[test]
fn without_a_stream_the_proposal_of_a_client_is_dropped() {
    with_option(|option| {
        let server = stack(&Fabric::default(), 2, "");
        let (listener, address) = asking(&server);
        let sent = [&proposal()[..], b"octets"].concat();
        let mut received = [0; 100];
        let mut client = asks(option, address);
        client.write_all(&sent).unwrap();
        let (mut tcp, _) = listener.accept().unwrap();
        server.let_go(&tcp, Duration::from_secs(20)).unwrap();
        let len = tcp.read(&mut received).unwrap();
        assert_eq!(&received[..len], b"octets");
        let mut client = asks(option, address);
        client.write_all(&sent).unwrap();
        fork(|| {
            let (tcp, _) = listener.accept().unwrap();
            let accepting = server.accepted(tcp).expect("the client speaks SMC");
            let mut stream = accepting.wait().unwrap();
            assert_eq!(cause(&stream), Cause::Inherited);
            let mut received = [0; 6];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"octets");
        })
        .succeeds();
    });
}

/// The connection was accepted after the reset. What has come can be read behind a reset.
#[test]
fn the_proposal_of_a_client_that_has_reset_the_connection_is_dropped() {
    with_option(|option| {
        let server = stack(&Fabric::default(), 2, "");
        let (listener, address) = asking(&server);
        for asks_first in [false, true] {
            let mut client = match asks_first {
                true => asks(option, address),
                false => TcpStream::connect(address).unwrap(),
            };
            client.write_all(&proposal()).unwrap();
            sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            let (tcp, _) = listener.accept().unwrap();
            let mut tcp = server.accepted(tcp).unwrap_err();
            let read = tcp.read(&mut [0; 100]);
            // Without the option it is of the application.
            assert_eq!(matches!(read, Ok(1..)), !asks_first, "{read:?}");
        }
    });
}

/// The listener of a parent has asked by the marks of the parent.
#[test]
fn a_child_knows_which_clients_speak_smc() {
    with_option(|_| {
        let always = || {
            let mut settings = Settings::default();
            let policy = "tcp-option = \"always\"\ntransports = [\"verbs\"]";
            settings.policy = Policy::parse(policy).unwrap();
            Stack::with(settings).unwrap()
        };
        let (client, server) = (always(), always());
        let (listener, address) = asking(&server);
        let child = fork(|| {
            let (tcp, _) = listener.accept().unwrap();
            let accepting = server.accepted(tcp).expect("the client speaks SMC");
            let mut stream = accepting.wait().unwrap();
            // There is no RNIC, so that it is declined.
            assert!(!stream.carrier().is_smc());
            let mut received = vec![0; 20_000];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let mut client = SmcStream::connect_on(&client, address).unwrap();
        let sent = octets(20_000);
        client.write_all(&sent).unwrap();
        let mut received = vec![0; sent.len()];
        client.read_exact(&mut received).unwrap();
        assert!(received == sent);
        child.succeeds();
    });
}

#[test]
fn who_is_not_answered_says_so() {
    with_option(|_| {
        let fabric = Fabric::default();
        let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = stack(&fabric, 1, "");
        let client = SmcStream::connect_on(&client, plain.local_addr().unwrap()).unwrap();
        assert_eq!(cause(&client), Cause::NoOption);
        // A client without the option, of a listener that would answer it.
        let server = stack(&fabric, 2, "");
        let listener = SmcListener::bind_on(&server, (Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut plain = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(cause(&server), Cause::NotOffered);
        plain.write_all(b"plain").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
    });
}

#[test]
fn a_listener_that_listens_already_cannot_ask() {
    with_option(|_| {
        let fabric = Fabric::default();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listener = SmcListener::on(&stack(&fabric, 2, ""), tcp).unwrap();
        let client = stack(&fabric, 1, "");
        let client = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(cause(&client), Cause::NoOption);
        crosses(&client, &server);
    });
}

/// A client that was asked for, and has nothing to offer, says so in CLC.
#[test]
fn with_always_the_peer_gets_the_reason_of_the_fallback() {
    with_option(|_| {
        let always = |more: &str| {
            let mut settings = Settings::default();
            let policy = format!("tcp-option = \"always\"\n{more}");
            settings.policy = Policy::parse(&policy).unwrap();
            Stack::with(settings).unwrap()
        };
        let server = always("transports = [\"verbs\"]");
        let listener = SmcListener::bind_on(&server, (Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let client = SmcStream::connect_on(&always(""), address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let codes = |stream: &SmcStream| stream.carrier().why_tcp().unwrap().smcss();
        assert_eq!(codes(&client), "0x03030002");
        assert_eq!(codes(&server), "0x05000000/0x03030002");
        crosses(&client, &server);
        crosses(&server, &client);
    });
}

/// A server that is asked all the same knows what it lacks, in whichever version it is asked.
#[test]
fn a_server_without_a_device_says_so_to_clients_of_either_version() {
    with_option(|_| {
        let mut settings = Settings::default();
        settings.policy = Policy::parse("tcp-option = \"always\"").unwrap();
        let server = Stack::with(settings).unwrap();
        let fabric = Fabric::default();
        let rnics = [rnics_of_version_1(&fabric, 1, 1), rnics(&fabric, 1, 1)];
        for (version, rnics) in (1..).zip(rnics) {
            let client = Stack::with_rnics(Settings::default(), rnics.alone()).unwrap();
            let listener = SmcListener::bind_on(&server, (Ipv4Addr::LOCALHOST, 0)).unwrap();
            let client = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let codes = |stream: &SmcStream| stream.carrier().why_tcp().unwrap().smcss();
            let of_client = "0x05000000/0x03030002";
            assert_eq!(codes(&client), of_client, "version {version}");
            assert_eq!(codes(&server), "0x03030002", "version {version}");
            crosses(&client, &server);
        }
    });
}

/// What a server does with the bytes of a connection.
type Answer = fn(TcpStream);

/// A listener of the kernel that sends the option back.
fn sending_back(option: &TcpOption) -> (TcpListener, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    option.marks().opt_in(&socket).unwrap();
    rustix::net::listen(&socket, 8).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that sends the option back and knows nothing of SMC: it does this with its
/// first connection, and echoes all others. The channel gets the first bytes of each.
fn echoing(option: &TcpOption, first: Answer) -> (SocketAddr, Receiver<Vec<u8>>) {
    let (listener, address) = sending_back(option);
    let (sender, firsts) = channel();
    std::thread::spawn(move || {
        let mut first = Some(first);
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut octets = [0; 4];
            let len = stream.read(&mut octets).unwrap_or(0);
            if sender.send(octets[..len].to_vec()).is_err() {
                return;
            }
            match first.take() {
                Some(first) => first(stream),
                None => {
                    let _ = stream.write_all(&octets[..len]);
                    let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
                }
            }
        }
    });
    (address, firsts)
}

/// The eye catcher of CLC messages.
const CLC: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xd9];

/// The client meets such a server over TCP within the call, and then does not ask it.
fn is_met_over_tcp_and_left_alone(first: Answer, at_most: Duration) {
    let option = TcpOption::attach().unwrap();
    let (address, firsts) = echoing(&option, first);
    let client = stack(&Fabric::default(), 1, "");
    let begin = Instant::now();
    let mut stream = SmcStream::connect_on(&client, address).unwrap();
    assert!(begin.elapsed() < at_most, "{:?}", begin.elapsed());
    assert_eq!(cause(&stream), Cause::Shunned);
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    assert_eq!(firsts.recv().unwrap(), CLC, "it was asked once");
    assert_eq!(firsts.recv().unwrap(), b"hell");
    drop(stream);
    // Now its very SYN says nothing.
    let wire = Wire::tap();
    let mut stream = SmcStream::connect_on(&client, address).unwrap();
    assert_eq!(cause(&stream), Cause::Shunned);
    stream.write_all(b"again").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(firsts.recv().unwrap(), b"agai");
    drop(stream);
    let seen = wire.seen(address.port());
    assert!(!seen.syn && !seen.syn_ack);
    // Another stack has no such entry.
    let other = stack(&Fabric::default(), 1, "shun = { servers = 0 }");
    let stream = SmcStream::connect_on(&other, address);
    assert_eq!(firsts.recv().unwrap(), CLC);
    drop(stream);
}

#[test]
fn a_server_that_answers_nonsense_is_left_alone() {
    with_option(|_| {
        is_met_over_tcp_and_left_alone(
            |mut stream| {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            },
            Duration::from_secs(5),
        );
    });
}

#[test]
fn a_server_that_hangs_up_is_left_alone() {
    with_option(|_| is_met_over_tcp_and_left_alone(drop, Duration::from_secs(5)));
}

#[test]
fn a_server_that_says_nothing_is_left_alone() {
    with_option(|_| {
        is_met_over_tcp_and_left_alone(
            |stream| {
                // The server takes the bytes for a part of a request, and waits for more.
                let keep = stream.try_clone().unwrap();
                std::thread::spawn(move || {
                    let _ = io::copy(&mut &keep, &mut io::sink());
                });
            },
            Duration::from_secs(15),
        );
    });
}

#[test]
fn a_server_that_echoes_is_left_alone() {
    with_option(|_| {
        is_met_over_tcp_and_left_alone(
            |mut stream| {
                let _ = stream.write_all(&CLC);
                let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
            },
            Duration::from_secs(15),
        );
    });
}

/// A server whose CLC messages are malformed is no server of another protocol.
#[test]
fn a_malformed_answer_is_an_error_and_no_reason_to_connect_again() {
    with_option(|_| {
        let option = TcpOption::attach().unwrap();
        let (address, firsts) = echoing(&option, |mut stream| {
            // An Accept of four octets.
            let _ = stream.write_all(&[0xe2, 0xd4, 0xc3, 0xd9, 2, 0, 4, 0x10]);
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let client = stack(&Fabric::default(), 1, "");
        let refused = SmcStream::connect_on(&client, address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionReset, "{refused}");
        assert_eq!(firsts.recv().unwrap(), CLC);
        assert!(firsts.try_recv().is_err(), "it was asked twice");
        // The server does not enter the list of those that lack SMC, either.
        let stream = SmcStream::connect_on(&client, address);
        assert_eq!(firsts.recv().unwrap(), CLC);
        drop(stream);
    });
}

/// A program that connects without waiting polls, and gets the second connection.
#[test]
fn who_connects_without_waiting_is_led_to_the_second_connection() {
    with_option(|_| {
        let option = TcpOption::attach().unwrap();
        let (address, _reports) = echoing(&option, drop);
        let client = stack(&Fabric::default(), 1, "");
        let connecting = SmcStream::begin_connect(&client, address).unwrap();
        assert_eq!(cause(&finished(&connecting)), Cause::Shunned);
    });
}

/// A server that sends the option back, knows nothing of SMC, and sends the first bytes. Its client
/// makes no call while TCP connects and these come.
#[test]
fn a_program_that_polls_late_gets_the_second_connection_to_a_server_that_speaks_first() {
    const BANNER: &[u8] = b"220 ready";
    with_option(|option| {
        let (listener, address) = sending_back(option);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(BANNER);
                std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
            }
        });
        for finishes_first in [false, true] {
            let client = stack(&Fabric::default(), 1, "");
            let connecting = SmcStream::begin_connect(&client, address).unwrap();
            // The descriptor is made, and polled only.
            let mut ready = [PollFd::new(&connecting, PollFlags::IN)];
            rustix::event::poll(&mut ready, Some(&Timespec::default())).unwrap();
            let early = finishes_first.then(|| connecting.finish().ok()).flatten();
            let mut stream = early.unwrap_or_else(|| {
                std::thread::sleep(Duration::from_millis(100));
                polled(&connecting);
                finished(&connecting)
            });
            assert_eq!(cause(&stream), Cause::Shunned);
            stream.set_nonblocking(false).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let mut banner = [0; BANNER.len()];
            stream.read_exact(&mut banner).unwrap();
            assert_eq!(banner, BANNER);
        }
    });
}
