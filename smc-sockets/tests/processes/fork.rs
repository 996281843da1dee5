//! Children made by `fork`: they connect and accept anew, and do no harm to what the parent
//! goes on with.

use crate::common;
use crate::common::alone::alone;
use crate::common::children;
use crate::common::peer;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clc_clients::assuming_at;
use crate::common::children::fork;
use crate::common::rnics::rnics;
use crate::common::{listener, octets, pair, settings, stack};
use rustix::event::{PollFd, PollFlags};
use smc_sockets::{Policy, SmcListener, SmcSocket, SmcStream, Stack};
use smc_transport_verbs::soft::Fabric;
use smc_view::{Connection, Found};

const ROLE: &str = "SMC_SOCKETS_FORK_ROLE";
const SOON: Duration = Duration::from_secs(10);

/// Bytes are sent in both directions.
#[track_caller]
fn works(near: &mut SmcStream, far: &mut SmcStream) {
    let sent = octets(5000);
    let mut received = vec![0; sent.len()];
    near.write_all(&sent).unwrap();
    far.read_exact(&mut received).unwrap();
    assert!(received == sent);
    far.write_all(&sent).unwrap();
    near.read_exact(&mut received).unwrap();
    assert!(received == sent);
}

/// Serves connections until they end, each by echoing.
fn echo(listener: &SmcListener, connections: usize) {
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 1000];
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            stream.write_all(&bytes[..len]).unwrap();
        }
    }
}

/// Serves connections by [`echo`] on a thread of its own, for which a test that fails does not
/// wait.
fn echoes(listener: SmcListener, connections: usize) -> JoinHandle<()> {
    std::thread::spawn(move || echo(&listener, connections))
}

/// What a server that echoes answers to a client.
fn asks(mut client: impl Read + Write) {
    client.write_all(b"there and back").unwrap();
    let mut answer = [0; 14];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"there and back");
}

#[test]
fn a_child_connects_anew_over_shared_memory() {
    if !alone(&a_child_connects_anew_over_shared_memory) {
        return;
    }
    let (listener, address) = listener();
    let opened = stack();
    // The parent's stacks are in use.
    let mut near = SmcStream::connect_on(&opened, address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let mut of_process = SmcStream::connect(address).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    let serving = echoes(listener, 6);
    fork(|| {
        for _ in 0..2 {
            let stream = SmcStream::connect(address).unwrap();
            assert!(stream.carrier().is_smc(), "{}", stream.carrier());
            // The child publishes its own connections, and none of the parent's.
            let view = Found::at(std::process::id()).unwrap().view;
            assert_eq!(view.process(), std::process::id());
            let published = view.read().connections;
            let of_child = |(at, _): &&(Connection, _)| Some(at.local) == stream.local_addr().ok();
            assert!(published.iter().any(|at| of_child(&at)), "{published:?}");
            assert!(published.iter().all(|(at, _)| at.peer == address));
            assert!(published.len() <= 2, "{published:?}");
            asks(stream);
            // With the settings of the parent's: it takes its time.
            let stream = SmcStream::connect_on(&opened, address).unwrap();
            assert!(stream.carrier().is_smc(), "{}", stream.carrier());
            asks(stream);
        }
        let socket = SmcSocket::new_v4_on(&opened).unwrap();
        asks(socket.connect(address).unwrap());
        // A grandchild, too.
        fork(|| asks(SmcStream::connect(address).unwrap())).succeeds();
    })
    .succeeds();
    serving.join().unwrap();
    assert!(near.carrier().is_smc());
    works(&mut near, &mut far);
    works(&mut of_process, &mut other);
}

#[test]
fn a_child_listens_anew_over_shared_memory() {
    if !alone(&a_child_listens_anew_over_shared_memory) {
        return;
    }
    let opened = stack();
    let (near, far) = pair();
    let (mut from, mut to) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = fork(|| {
        let listener = SmcListener::bind_on(&opened, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        from.write_all(&address.port().to_ne_bytes()).unwrap();
        echo(&listener, 1);
    });
    let mut port = [0; 2];
    to.read_exact(&mut port).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], u16::from_ne_bytes(port)));
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    asks(stream);
    child.succeeds();
    drop((near, far));
}

//= SHM-015 test
#[test]
fn an_inherited_listener_works_in_children_and_then_in_the_parent() {
    if !alone(&an_inherited_listener_works_in_children_and_then_in_the_parent) {
        return;
    }
    let server = stack();
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for nonblocking in [false, true] {
        let serve = || {
            listener.set_nonblocking(nonblocking).unwrap();
            for _ in 0..10 {
                let (mut stream, from) = loop {
                    match listener.accept() {
                        Err(error) if nonblocking => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            let mut polled = [PollFd::new(&listener, PollFlags::IN)];
                            rustix::event::poll(&mut polled, None).unwrap();
                        }
                        accepted => break accepted.unwrap(),
                    }
                };
                assert!(from.ip().is_loopback());
                let mut question = [0; 14];
                stream.read_exact(&mut question).unwrap();
                stream.write_all(&question).unwrap();
            }
        };
        let children = [fork(serve), fork(serve)];
        for at in 0..20 {
            if at % 2 == 0 {
                asks(TcpStream::connect(address).unwrap());
            } else {
                let stream = SmcStream::connect_on(&stack(), address).unwrap();
                assert!(stream.carrier().is_smc(), "{}", stream.carrier());
                asks(stream);
            }
        }
        children.into_iter().for_each(children::Child::succeeds);
    }
    // The parent accepts when it wants to, over shared memory.
    let serving = echoes(listener, 1);
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    asks(stream);
    serving.join().unwrap();
}

#[test]
fn a_parent_that_accepts_keeps_its_connections() {
    if !alone(&a_parent_that_accepts_keeps_its_connections) {
        return;
    }
    let (listener, address) = listener();
    let mut first = SmcStream::connect_on(&stack(), address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    fork(|| {}).succeeds();
    // Taken in ahead, as before.
    let mut second = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(second.carrier().is_smc(), "{}", second.carrier());
    let (mut other, _) = listener.accept().unwrap();
    works(&mut first, &mut far);
    works(&mut second, &mut other);
}

/// The daemon of the next test; does nothing in the test run itself.
#[test]
fn daemon() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    println!("\n{}", listener.local_addr().unwrap());
    let _child = fork(|| echo(&listener, 3));
    // daemon(3) ends the parent like this, without cleaning up.
    // SAFETY: it ends the process.
    unsafe { libc::_exit(0) };
}

//= SHM-015 test
#[test]
fn a_server_that_becomes_a_daemon_serves() {
    if !alone(&a_server_that_becomes_a_daemon_serves) {
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["fork::daemon", "--exact", "--nocapture"])
        .env(ROLE, "daemon")
        .env("SMC_POLICY", "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find(|line| line.starts_with("127.")).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    assert!(parent.wait().unwrap().success());
    let begin = Instant::now();
    for _ in 0..2 {
        let stream = SmcStream::connect_on(&stack(), address).unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        asks(stream);
    }
    asks(TcpStream::connect(address).unwrap());
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

/// The Proposal of the attempt is sent, and not answered yet.
//= SHM-061 test
#[test]
fn an_attempt_that_a_child_drops_goes_on_in_the_parent() {
    if !alone(&an_attempt_that_a_child_drops_goes_on_in_the_parent) {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let mut assuming = settings();
    assuming.policy = Policy::parse(&format!(
        "assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{}] }}]",
        address.port()
    ))
    .unwrap();
    let fabric = Fabric::default();
    let opened = Stack::with_rnics(assuming, rnics(&fabric, 1, 1).alone()).unwrap();
    let mut connecting = Some(SmcStream::begin_connect(&opened, address).unwrap());
    let (mut far, _) = server.accept().unwrap();
    far.set_read_timeout(Some(SOON)).unwrap();
    let error = connecting.as_ref().unwrap().finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut proposal = [0; 1000];
    assert!(far.read(&mut proposal).unwrap() > 0);
    fork(|| drop(connecting.take())).succeeds();
    far.write_all(&[&peer::decline()[..], b"octets"].concat())
        .unwrap();
    let connecting = connecting.unwrap();
    let mut stream = loop {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
            }
            outcome => break outcome.unwrap(),
        }
    };
    let mut read = [0; 6];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"octets");
}

/// A child that drops what it has of a connection, and lives on.
struct Living(children::Child, UnixStream);

impl Living {
    fn drops<T>(held: &mut Option<T>) -> Self {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (dropped, mut is_dropped) = UnixStream::pair().unwrap();
        let mut here = Some(ours.try_clone().unwrap());
        let child = fork(|| {
            drop(held.take());
            // The parent's end.
            rustix::net::shutdown(&dropped, rustix::net::Shutdown::Write).unwrap();
            drop(here.take());
            let _ = theirs.read(&mut [0]);
        });
        drop(here);
        assert_eq!(is_dropped.read(&mut [0]).unwrap(), 0);
        Self(child, ours)
    }

    fn ends(self) {
        self.1.shutdown(Shutdown::Both).unwrap();
        self.0.succeeds();
    }
}

/// The Proposal of the attempt is sent, and not answered yet: the engine has the connection, too.
//= SHM-061 test
#[test]
fn a_child_that_has_dropped_an_attempt_does_not_keep_the_end_from_the_server() {
    if !alone(&a_child_that_has_dropped_an_attempt_does_not_keep_the_end_from_the_server) {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let fabric = Fabric::default();
    let rnics = rnics(&fabric, 1, 1).alone();
    let opened = Stack::with_rnics(assuming_at(address.port()), rnics).unwrap();
    let mut connecting = Some(SmcStream::begin_connect(&opened, address).unwrap());
    let (mut far, _) = server.accept().unwrap();
    far.set_read_timeout(Some(SOON)).unwrap();
    let _ = connecting.as_ref().unwrap().finish();
    let mut proposal = [0; 1000];
    assert!(far.read(&mut proposal).unwrap() > 0);
    let child = Living::drops(&mut connecting);
    far.write_all(&peer::decline()).unwrap();
    let connecting = connecting.unwrap();
    let stream = loop {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
            }
            outcome => break outcome.unwrap(),
        }
    };
    assert!(!stream.carrier().is_smc());
    drop((stream, connecting));
    far.read_to_end(&mut Vec::new()).unwrap();
    child.ends();
}

/// The parent's driver waits for the client's Proposal.
//= SHM-061 test
#[test]
fn a_child_that_has_dropped_what_its_parent_accepts_does_not_keep_the_end_from_the_client() {
    if !alone(
        &a_child_that_has_dropped_what_its_parent_accepts_does_not_keep_the_end_from_the_client,
    ) {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let opened = Stack::with(assuming_at(address.port())).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let accepting = opened.accepted(server.accept().unwrap().0).unwrap();
    let error = accepting.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut accepting = Some(accepting);
    let child = Living::drops(&mut accepting);
    // A client that has given up.
    client.write_all(&peer::decline()).unwrap();
    let accepting = accepting.unwrap();
    let stream = accepting.wait().unwrap();
    assert!(!stream.carrier().is_smc());
    drop((stream, accepting));
    client.read_to_end(&mut Vec::new()).unwrap();
    child.ends();
}

//= SHM-061 test
#[test]
fn what_a_child_drops_stays_with_the_parent() {
    if !alone(&what_a_child_drops_stays_with_the_parent) {
        return;
    }
    let opened = stack();
    let (listener, address) = listener();
    let near = SmcStream::connect_on(&opened, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_linger(Some(Duration::ZERO)).unwrap();
    far.as_fd();
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    // A connection that is still being made: its server accepts later.
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = SmcStream::begin_connect(&opened, slow.local_addr().unwrap()).unwrap();
    held.push(Box::new(near.try_clone().unwrap()));
    held.push(Box::new(far.try_clone().unwrap()));
    let mut all = Some((near, far, listener, opened, connecting));
    fork(|| {
        held.clear();
        let (near, far, listener, opened, connecting) = all.take().unwrap();
        assert_eq!(
            connecting.finish().unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        drop((near, far, listener, connecting));
        assert!(opened.end(Duration::ZERO));
    })
    .succeeds();
    let (mut near, mut far, listener, opened, connecting) = all.take().unwrap();
    works(&mut near, &mut far);
    let stream = loop {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
                rustix::event::poll(&mut polled, None).unwrap();
            }
            outcome => break outcome.unwrap(),
        }
    };
    drop(stream);
    // The listener is still the driver's.
    let mut second = SmcStream::connect_on(&opened, address).unwrap();
    assert!(second.carrier().is_smc(), "{}", second.carrier());
    let (mut other, _) = listener.accept().unwrap();
    works(&mut second, &mut other);
}

#[test]
fn an_inherited_stream_is_an_error_to_use() {
    if !alone(&an_inherited_stream_is_an_error_to_use) {
        return;
    }
    let (near, mut far) = pair();
    let mut near = near;
    fork(|| {
        let unsupported = |outcome: std::io::Result<()>| {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("forked"), "{error}");
        };
        unsupported(near.write(b"x").map(drop));
        unsupported(near.write_vectored(&[]).map(drop));
        unsupported(near.read(&mut [0; 1]).map(drop));
        unsupported(near.read_vectored(&mut []).map(drop));
        unsupported(near.peek(&mut [0; 1]).map(drop));
        unsupported(near.shutdown(Shutdown::Both));
        unsupported(near.send_urgent(b"x").map(drop));
        unsupported(near.receive_urgent().map(drop));
        unsupported(near.at_mark().map(drop));
        unsupported(near.set_urgent_inline(true));
        unsupported(near.set_linger(None));
        unsupported(near.linger().map(drop));
        unsupported(near.set_nonblocking(true));
        unsupported(near.set_read_timeout(None));
        unsupported(near.set_write_timeout(None));
        unsupported(near.set_nodelay(true));
        unsupported(near.set_cork(true));
        unsupported(near.recv_buffer_size().map(drop));
        unsupported(near.send_buffer_size().map(drop));
        unsupported(near.take_error().map(drop));
        unsupported(near.try_as_fd().map(drop));
        // An event loop learns of the error at once.
        let mut polled = [PollFd::new(&near, PollFlags::IN | PollFlags::OUT)];
        rustix::event::poll(&mut polled, None).unwrap();
        assert_eq!(polled[0].revents(), PollFlags::IN | PollFlags::OUT);
        assert_eq!(near.as_raw_fd(), near.as_fd().as_raw_fd());
        // What needs no engine works.
        assert!(near.carrier().is_smc() && near.peer_addr().is_ok());
    })
    .succeeds();
    works(&mut near, &mut far);
}

#[test]
fn a_stream_over_tcp_goes_on_in_the_child() {
    if !alone(&a_stream_over_tcp_goes_on_in_the_child) {
        return;
    }
    let mut tcp = common::settings();
    tcp.policy.enabled = false;
    let listener = SmcListener::bind_on(&Stack::with(tcp).unwrap(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut near = SmcStream::connect_on(&Stack::open().unwrap(), address).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    assert!(!near.carrier().is_smc());
    let child = fork(|| {
        far.set_read_timeout(Some(SOON)).unwrap();
        let mut question = [0; 14];
        far.read_exact(&mut question).unwrap();
        far.write_all(&question).unwrap();
    });
    asks(near.try_clone().unwrap());
    child.succeeds();
    works(&mut near, &mut far);
}

/// Ends the threads that watch the flag, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

//= SHM-061 test
/// Threads of the parent hold every lock at some of the forks.
#[test]
fn children_of_a_busy_parent_neither_hang_nor_disturb() {
    if !alone(&children_of_a_busy_parent_neither_hang_nor_disturb) {
        return;
    }
    let (listener, address) = listener();
    let client = stack();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..2 {
            let near = SmcStream::connect_on(&client, address).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            scope.spawn({
                let over = &over;
                move || {
                    let mut near = near;
                    while !over.load(Ordering::Relaxed) {
                        works(&mut near, &mut far);
                    }
                }
            });
        }
        let (near, far) = pair();
        let connects = scope.spawn(|| {
            let mut connections = 0;
            while !over.load(Ordering::Relaxed) {
                let mut stream = SmcStream::connect_on(&client, address).unwrap();
                let (mut other, _) = listener.accept().unwrap();
                works(&mut stream, &mut other);
                connections += 1;
            }
            connections
        });
        for _ in 0..100 {
            let mut held = Some((near.try_clone().unwrap(), far.try_clone().unwrap()));
            fork(|| {
                assert!(near.peek(&mut [0]).is_err());
                held = None;
                let own = Stack::with(settings()).unwrap();
                let _ = client.clone().end(Duration::ZERO);
                drop(own);
            })
            .succeeds();
        }
        over.store(true, Ordering::Relaxed);
        assert!(connects.join().unwrap() > 0);
    });
}

/// A child that used the only handle of a stack of the parent's can wait for the end of its
/// own connections.
#[test]
fn a_child_ends_what_it_has_opened_with_a_stack_of_the_parents() {
    if !alone(&a_child_ends_what_it_has_opened_with_a_stack_of_the_parents) {
        return;
    }
    let (listener, address) = listener();
    let opened = stack();
    let serving = echoes(listener, 1);
    fork(move || {
        asks(SmcStream::connect_on(&opened, address).unwrap());
        assert!(opened.end(SOON));
    })
    .succeeds();
    serving.join().unwrap();
}
