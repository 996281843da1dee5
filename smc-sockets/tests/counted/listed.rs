//! Connections that are being made, in event loops.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::alone;
use crate::common::stack;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use smc_sockets::{Accepting, Connecting, EventLoop, SmcStream, Stack, Wait};

const LONG: Duration = Duration::from_secs(20);

fn socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
}

fn begin(stack: &Stack, to: SocketAddr) -> Connecting {
    SmcStream::begin_connect_listed(stack, socket(), to).unwrap()
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A program that waits for its event loop, and for descriptors where that is needed.
struct Program {
    events: EventLoop,
    end: Instant,
}

impl Program {
    fn new(stack: &Stack) -> Self {
        Self {
            events: EventLoop::new(stack).unwrap(),
            end: Instant::now() + LONG,
        }
    }

    /// Waits until something is listed under the token, or its descriptor is readable.
    fn wait(&mut self, token: usize, other: Option<PollFd<'_>>) {
        let mut ready = Vec::new();
        loop {
            assert!(Instant::now() < self.end, "it is not listed");
            self.events.drive(&mut ready).unwrap();
            if ready.drain(..).any(|at| at.token == token) {
                return;
            }
            if self.events.wait().unwrap() == Wait::Sleep {
                let mut polled = vec![PollFd::new(&self.events, PollFlags::IN)];
                polled.extend(other.clone());
                rustix::event::poll(&mut polled, Some(&second())).unwrap();
                if polled.get(1).is_some_and(|at| !at.revents().is_empty()) {
                    return;
                }
            }
        }
    }

    fn finish_connecting(&mut self, connecting: &Connecting) -> std::io::Result<SmcStream> {
        loop {
            match connecting.finish() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            let listed = self.events.register_connecting(connecting, 7).unwrap();
            let other = (!listed).then(|| PollFd::new(connecting, PollFlags::IN));
            self.wait(7, other);
        }
    }

    fn finish_accepting(&mut self, accepting: &Accepting) -> std::io::Result<SmcStream> {
        self.events.register_accepting(accepting, 9).unwrap();
        loop {
            match accepting.finish() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(9, None),
                outcome => return outcome,
            }
        }
    }
}

fn second() -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    }
}

fn listener(server: &Stack) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    server.announce_listener(&listener).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Both ends wait for memory only, and have no descriptor but that of TCP.
#[test]
fn a_loop_lists_what_it_connects_and_accepts() {
    if !alone(&a_loop_lists_what_it_connects_and_accepts) {
        return;
    }
    let (server, client) = (stack(), stack());
    let (listener, address) = listener(&server);
    let serving = std::thread::spawn(move || {
        let mut program = Program::new(&server);
        for round in 0..40 {
            let (tcp, _) = listener.accept().unwrap();
            let accepting = server.accepted(tcp).expect("the client pairs");
            let mut stream = program.finish_accepting(&accepting).unwrap();
            drop(accepting);
            assert!(stream.carrier().is_smc(), "{round}: {}", stream.carrier());
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
    });
    let mut program = Program::new(&client);
    let mut descriptors = Vec::new();
    for round in 0..40 {
        let before = open_descriptors();
        let connecting = begin(&client, address);
        descriptors.push(open_descriptors().saturating_sub(before));
        let mut stream = program.finish_connecting(&connecting).unwrap();
        drop(connecting);
        assert!(stream.carrier().is_smc(), "{round}: {}", stream.carrier());
        rustix::io::ioctl_fionbio(stream.tcp(), false).unwrap();
        stream.write_all(b"here").unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"here");
    }
    serving.join().unwrap();
    // The server opens and closes descriptors meanwhile.
    assert!(
        descriptors.iter().filter(|more| **more <= 2).count() >= 20,
        "{descriptors:?}"
    );
}

/// A thread that waits for the connection itself needs no descriptor but that of TCP either.
#[test]
fn a_thread_waits_in_memory_for_what_it_connects() {
    if !alone(&a_thread_waits_in_memory_for_what_it_connects) {
        return;
    }
    let (server, client) = (stack(), stack());
    let (listener, address) = listener(&server);
    let serving = std::thread::spawn(move || {
        for _ in 0..40 {
            let (tcp, _) = listener.accept().unwrap();
            let accepting = server.accepted(tcp).expect("the client pairs");
            let mut stream = accepting.wait().unwrap();
            drop(accepting);
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
    });
    let mut descriptors = Vec::new();
    for round in 0..40 {
        let before = open_descriptors();
        let connecting = SmcStream::begin_connect_awaited(&client, socket(), address).unwrap();
        let mut is_in_memory = true;
        let end = Instant::now() + LONG;
        let mut stream = loop {
            match connecting.finish() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => break outcome.unwrap(),
            }
            assert!(Instant::now() < end, "{round}: it is not decided");
            if !connecting.wait(LONG).unwrap() {
                is_in_memory = false;
                let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
                rustix::event::poll(&mut polled, Some(&second())).unwrap();
            }
        };
        if is_in_memory {
            descriptors.push(open_descriptors().saturating_sub(before));
        }
        drop(connecting);
        assert!(stream.carrier().is_smc(), "{round}: {}", stream.carrier());
        rustix::io::ioctl_fionbio(stream.tcp(), false).unwrap();
        stream.write_all(b"here").unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"here");
    }
    serving.join().unwrap();
    // The server opens and closes descriptors meanwhile, and its first answer is a call.
    assert!(
        descriptors.iter().filter(|more| **more <= 3).count() >= 20,
        "{descriptors:?}"
    );
}

/// A server that was met, and answers announcements no more.
#[test]
fn a_loop_goes_on_with_a_server_that_does_not_answer() {
    let (server, client) = (stack(), stack());
    let (listener, address) = listener(&server);
    let mut program = Program::new(&client);
    let mut listed = 0;
    for round in 0..10 {
        let connecting = begin(&client, address);
        listed += usize::from(program.events.register_connecting(&connecting, 7).unwrap());
        let (tcp, _) = listener.accept().unwrap();
        match round {
            0..4 => {
                let accepting = server.accepted(tcp).expect("the client pairs");
                let accepted = std::thread::spawn(move || accepting.wait().unwrap());
                let stream = program.finish_connecting(&connecting).unwrap();
                assert!(stream.carrier().is_smc());
                drop((stream, accepted.join().unwrap()));
            }
            _ => {
                // It is not paired, and not let go.
                let mut server_end = tcp;
                let mut stream = program.finish_connecting(&connecting).unwrap();
                assert!(!stream.carrier().is_smc());
                stream.write_all(b"plain").unwrap();
                let mut bytes = [0; 5];
                server_end.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"plain");
                return assert!(listed > 1, "nothing was listed");
            }
        }
    }
}

/// What is given up is not listed, and another connection under the same token is.
#[test]
fn a_connection_that_is_given_up_is_listed_no_more() {
    let (server, client) = (stack(), stack());
    let (listener, address) = listener(&server);
    let mut program = Program::new(&client);
    for round in 0..20 {
        let given_up = begin(&client, address);
        let _ = program.events.register_connecting(&given_up, 7).unwrap();
        if round % 2 == 0 {
            program.events.deregister_connecting(&given_up);
        }
        drop(given_up);
        drop(listener.accept());
        let connecting = begin(&client, address);
        let accepting = {
            let (tcp, _) = listener.accept().unwrap();
            server.accepted(tcp).expect("the client pairs")
        };
        let accepted = std::thread::spawn(move || accepting.wait().unwrap());
        let stream = program.finish_connecting(&connecting).unwrap();
        assert!(stream.carrier().is_smc(), "{round}: {}", stream.carrier());
        drop((stream, accepted.join().unwrap()));
        let mut ready = Vec::new();
        program.events.drive(&mut ready).unwrap();
    }
}

/// A server that was met, and listens no more: the error comes when the connection is finished.
#[test]
fn a_refusal_is_returned_once_by_the_call_that_finishes() {
    let (server, client) = (stack(), stack());
    let (listener, address) = listener(&server);
    let mut program = Program::new(&client);
    for _ in 0..3 {
        let connecting = begin(&client, address);
        let (tcp, _) = listener.accept().unwrap();
        let accepting = server.accepted(tcp).expect("the client pairs");
        let accepted = std::thread::spawn(move || accepting.wait().unwrap());
        let stream = program.finish_connecting(&connecting).unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        drop((stream, accepted.join().unwrap()));
    }
    drop(listener);
    let connecting = begin(&client, address);
    let error = program.finish_connecting(&connecting).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}
