//! What the driver does for connections that no thread of the program waits for.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common::rnics::rnics;
use crate::common::{pair, settings, stack};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use smc_sockets::{Policy, SmcListener, SmcStream, Stack};
use smc_transport_verbs::soft::Fabric;

/// Less than the engine waits for a CLC message, or for the answer to an abort.
const SOON: Duration = Duration::from_secs(3);

/// A server that takes nothing and sends nothing: only the failure itself can end the attempt
/// early. The driver does not send the Proposal of an attempt that a thread waits for.
#[test]
fn a_clc_message_that_cannot_be_sent_ends_the_attempt_at_once() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let mut settings = settings();
    let port = address.port();
    settings.policy = Policy::parse(&format!(
        "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]"
    ))
    .unwrap();
    let fabric = Fabric::default();
    let stack = Stack::with_rnics(settings, rnics(&fabric, 1, 1).alone()).unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let own = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    let tcp = own.try_clone().unwrap();
    let connecting = SmcStream::begin_connect_awaited(&stack, own, address).unwrap();
    let (_accepted, _) = server.accept().unwrap();
    rustix::net::shutdown(&tcp, rustix::net::Shutdown::Write).unwrap();
    let begin = Instant::now();
    let error = loop {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
            }
            outcome => break outcome.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

/// What polls a stream learns of its end, however late it begins to.
#[test]
fn a_poller_made_after_the_end_gets_a_hang_up() {
    let (near, far) = pair();
    far.set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    let end = Instant::now() + SOON;
    let ready = loop {
        let error = (&near).write(b"x").map(drop);
        if error.is_err() {
            let mut polled = [PollFd::new(&near, PollFlags::IN | PollFlags::OUT)];
            rustix::event::poll(&mut polled, None).unwrap();
            break polled[0].revents();
        }
        assert!(Instant::now() < end, "it goes on");
    };
    let all = PollFlags::IN | PollFlags::OUT | PollFlags::HUP;
    assert_eq!(ready, all);
}

/// The peer resets a connection of a stack that was in use just now, and whose program does
/// nothing since: the driver answers.
#[test]
fn a_stack_that_falls_idle_is_seen_to_by_its_driver() {
    for _ in 0..5 {
        let server = stack();
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let client = stack();
        let mut near = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc());
        for _ in 0..100 {
            near.write_all(b"there").unwrap();
            far.read_exact(&mut [0; 5]).unwrap();
            far.write_all(b"and back").unwrap();
            near.read_exact(&mut [0; 8]).unwrap();
        }
        far.set_linger(Some(Duration::ZERO)).unwrap();
        drop((far, listener));
        // Without an answer it would wait five seconds for one.
        assert!(server.end(SOON), "no answer of the idle stack");
        drop((near, client));
    }
}
