//! Programs that accept from kernel listeners by themselves, in whichever process.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clc_clients::assuming;
use crate::common::alone::alone;
use crate::common::children::{Child, become_user, can_become_others, fork};
use crate::common::clc::decline;
use crate::common::{octets, stack};
use rustix::net::{AddressFamily, SocketType, sockopt};
use smc_sockets::{Accepting, SmcListener, SmcSocket, SmcStream, Stack};

const LONG: Duration = Duration::from_secs(60);

/// A kernel listener whose connections may be paired by the process that accepts them.
fn announced(server: &Stack) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    server.announce_listener(&listener).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// One of a group that listens at a port.
fn member(address: &str) -> TcpListener {
    let address: SocketAddr = address.parse().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    socket.into()
}

fn accept(server: &Stack, listener: &TcpListener) -> Accepting {
    let (tcp, _) = listener.accept().unwrap();
    server.accepted(tcp).expect("the client pairs")
}

/// Sends back what comes until it ends.
fn echo(mut stream: SmcStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = [0; 10_000];
    loop {
        match stream.read(&mut bytes).unwrap() {
            0 => return,
            len => stream.write_all(&bytes[..len]).unwrap(),
        }
    }
}

/// Accepts connections and serves each by [`echo`].
fn serve(server: &Stack, listener: &TcpListener, connections: usize) {
    for _ in 0..connections {
        let stream = accept(server, listener).wait().unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        echo(stream);
    }
}

/// Sends bytes to a server that echoes, and wants each of them once.
fn asks(mut stream: SmcStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    let sent = octets(5000);
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == sent);
}

/// Asks over SMC.
fn asks_by_smc(address: SocketAddr) {
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    asks(stream);
}

/// A client on a thread of its own.
fn client(address: SocketAddr) -> JoinHandle<()> {
    std::thread::spawn(move || asks_by_smc(address))
}

//= SHM-076 test
#[test]
fn a_program_that_accepts_by_itself_pairs() {
    if !alone(&a_program_that_accepts_by_itself_pairs) {
        return;
    }
    let server = stack();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        server.announce_listener(&listener).unwrap();
        let client = client(listener.local_addr().unwrap());
        serve(&server, &listener, 1);
        client.join().unwrap();
    }
}

/// The first client never answers.
#[test]
fn an_undecided_connection_keeps_no_other_waiting() {
    if !alone(&an_undecided_connection_keeps_no_other_waiting) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let silent = SmcStream::begin_connect(&stack(), address).unwrap();
    let first = accept(&server, &listener);
    assert_eq!(first.finish().unwrap_err().kind(), ErrorKind::WouldBlock);
    let clients = [(); 5].map(|()| client(address));
    serve(&server, &listener, 5);
    clients.into_iter().for_each(|at| at.join().unwrap());
    assert_eq!(first.finish().unwrap_err().kind(), ErrorKind::WouldBlock);
    // The client closes, which decides the connection.
    drop(silent);
    if let Ok(mut stream) = first.wait() {
        assert!(!stream.carrier().is_smc());
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
}

/// The program closes a connection that it cannot write to at once. Over TCP its client is connected,
/// and reads the end.
#[test]
fn what_is_closed_before_it_is_decided_connects_and_ends() {
    if !alone(&what_is_closed_before_it_is_decided_connects_and_ends) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    for round in 0..6 {
        // A client that has not met the server before is asked first.
        let client = stack();
        let connecting = SmcStream::begin_connect(&client, address).unwrap();
        let accepting = accept(&server, &listener);
        let begun = accepting.finish().map(|stream| stream.carrier().is_smc());
        assert_eq!(begun.unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(accepting);
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut stream = loop {
            match connecting.finish() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                outcome => break outcome.unwrap(),
            }
        };
        stream.set_read_timeout(Some(LONG)).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "round {round}");
    }
}

/// The thread of the stack decides, and drops the connection and with it the last handle of the stack.
#[test]
fn the_last_handle_of_a_stack_goes_with_a_connection_that_was_given_up() {
    if !alone(&the_last_handle_of_a_stack_goes_with_a_connection_that_was_given_up) {
        return;
    }
    for answers in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = assuming(address.port());
        let mut client = TcpStream::connect(address).unwrap();
        let accepting = accept(&server, &listener);
        let error = accepting.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(accepting);
        let end = std::thread::spawn(move || server.end(Duration::from_secs(10)));
        // The other thread has given the handle up.
        std::thread::sleep(Duration::from_millis(50));
        if answers {
            client.write_all(&decline()).unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        }
        drop(client);
        assert!(end.join().unwrap(), "answers: {answers}");
    }
}

//= SHM-015 test
//= SHM-076 test
#[test]
fn workers_pair_what_they_accept() {
    if !alone(&workers_pair_what_they_accept) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let workers = [(); 3].map(|()| fork(|| serve(&server, &listener, 4)));
    let clients = [(); 12].map(|()| client(address));
    clients.into_iter().for_each(|at| at.join().unwrap());
    workers.into_iter().for_each(Child::succeeds);
}

/// With a socket each, to which the kernel gives what it likes.
#[test]
fn workers_of_a_group_pair_what_they_accept() {
    if !alone(&workers_of_a_group_pair_what_they_accept) {
        return;
    }
    let server = stack();
    let first = member("127.0.0.1:0");
    let address = first.local_addr().unwrap();
    let listeners = [first, member(&address.to_string())];
    for listener in &listeners {
        server.announce_listener(listener).unwrap();
    }
    let (mut ends, mut over) = (Vec::new(), Vec::new());
    for listener in &listeners {
        let (near, far) = UnixStream::pair().unwrap();
        over.push(near);
        ends.push(fork(|| {
            listener.set_nonblocking(true).unwrap();
            far.set_nonblocking(true).unwrap();
            // Until the parent has seen all of its answers.
            while (&far).read(&mut [0]).is_err() {
                match listener.accept() {
                    Ok((tcp, _)) => echo(server.accepted(tcp).unwrap().wait().unwrap()),
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }));
    }
    (0..12).for_each(|_| asks_by_smc(address));
    over.iter().for_each(|mut end| end.write_all(b".").unwrap());
    ends.into_iter().for_each(Child::succeeds);
}

/// The listener is root's, the worker, the client and its opposite are of users of their own.
//= SHM-006 test
#[test]
fn a_worker_pairs_after_it_has_become_another_user() {
    if !can_become_others() {
        return;
    }
    if !alone(&a_worker_pairs_after_it_has_become_another_user) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let worker = fork(|| {
        become_user(2_123_001);
        serve(&server, &listener, 3);
    });
    asks_by_smc(address);
    for uid in [2_123_001, 2_123_002] {
        fork(|| {
            become_user(uid);
            asks_by_smc(address);
        })
        .succeeds();
    }
    worker.succeeds();
}

/// The accepted socket is root's: a process that has become another user since may not pair it.
//= SHM-006 test
#[test]
fn who_becomes_another_user_between_accepting_and_pairing_has_tcp() {
    if !can_become_others() {
        return;
    }
    if !alone(&who_becomes_another_user_between_accepting_and_pairing_has_tcp) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let worker = fork(|| {
        let accepted = accept(&server, &listener);
        become_user(2_123_001);
        let stream = accepted.wait().unwrap();
        assert!(!stream.carrier().is_smc());
        echo(stream);
    });
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(!stream.carrier().is_smc());
    asks(stream);
    worker.succeeds();
}

//= SHM-079 test
#[test]
fn a_child_pairs_what_its_parent_has_accepted() {
    if !alone(&a_child_pairs_what_its_parent_has_accepted) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    for _ in 0..3 {
        let client = client(address);
        let mut accepted = Some(accept(&server, &listener));
        let child = fork(|| {
            let stream = accepted.take().unwrap().wait().unwrap();
            assert!(stream.carrier().is_smc(), "{}", stream.carrier());
            echo(stream);
        });
        // A parent that forks for each connection closes its copy, too.
        drop(accepted);
        client.join().unwrap();
        child.succeeds();
    }
}

//= SHM-079 test
#[test]
fn what_one_process_has_begun_no_child_goes_on_with() {
    if !alone(&what_one_process_has_begun_no_child_goes_on_with) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let client = client(address);
    let mut accepted = Some(accept(&server, &listener));
    // Its descriptor is asked for.
    accepted.as_ref().unwrap().as_fd();
    fork(|| {
        let accepted = accepted.take().unwrap();
        let error = accepted.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    })
    .succeeds();
    echo(accepted.unwrap().wait().unwrap());
    client.join().unwrap();
}

/// inetd hands a connection to the program that it executes as the standard streams.
//= SHM-077 test
#[test]
fn a_program_that_is_executed_has_tcp() {
    if !alone(&a_program_that_is_executed_has_tcp) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let client = std::thread::spawn(move || {
        let stream = SmcStream::connect_on(&stack(), address).unwrap();
        assert!(!stream.carrier().is_smc());
        asks(stream);
    });
    let tcp = accept(&server, &listener).give_up(LONG).unwrap();
    let output = OwnedFd::from(tcp.try_clone().unwrap());
    let mut cat = Command::new("cat")
        .stdin(Stdio::from(OwnedFd::from(tcp)))
        .stdout(Stdio::from(output))
        .spawn()
        .unwrap();
    client.join().unwrap();
    assert!(cat.wait().unwrap().success());
}

//= SHM-002 test
#[test]
fn a_client_that_does_not_pair_has_tcp_at_once() {
    if !alone(&a_client_that_does_not_pair_has_tcp_at_once) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let mut client = TcpStream::connect(address).unwrap();
    let mut tcp = server.accepted(listener.accept().unwrap().0).unwrap_err();
    tcp.write_all(b"first").unwrap();
    let mut bytes = [0; 5];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"first");
}

/// An announcement that was taken back, and a server that never made one.
#[test]
fn a_listener_without_an_announcement_has_tcp() {
    if !alone(&a_listener_without_an_announcement_has_tcp) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    server.withdraw_listener(&listener).unwrap();
    // Nothing accepts it meanwhile.
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(!stream.carrier().is_smc());
    let tcp = server.accepted(listener.accept().unwrap().0).unwrap_err();
    let serving = std::thread::spawn(move || echo(tcp.into()));
    asks(stream);
    serving.join().unwrap();
}

/// The program that accepts begins only after the client has begun to wait.
//= SHM-077 test
#[test]
fn a_client_waits_as_long_as_whoever_accepted_may_call() {
    if !alone(&a_client_waits_as_long_as_whoever_accepted_may_call) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let client = client(address);
    let accepted = accept(&server, &listener);
    // Longer than the grace of a server that shows nothing would be.
    std::thread::sleep(Duration::from_millis(50));
    let stream = accepted.wait().unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    drop(accepted);
    echo(stream);
    client.join().unwrap();
}

/// A socket of the program's own is connected, and may be called at its name.
#[test]
fn a_socket_that_was_prepared_is_called_back() {
    if !alone(&a_socket_that_was_prepared_is_called_back) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let client = std::thread::spawn(move || {
        let socket = SmcSocket::new_v4_on(&stack()).unwrap();
        let stream = socket.connect(address).unwrap();
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        asks(stream);
    });
    serve(&server, &listener, 1);
    client.join().unwrap();
}

/// Ended by force with the connection accepted, begun or decided: its client notices the end,
/// and the next worker serves.
#[test]
fn a_worker_that_ends_by_sigkill_leaves_no_client_waiting() {
    if !alone(&a_worker_that_ends_by_sigkill_leaves_no_client_waiting) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    for stage in 0..3 {
        let worker = fork(|| {
            let accepted = accept(&server, &listener);
            let _stream = match stage {
                0 => None,
                1 => accepted.finish().ok(),
                _ => accepted.wait().ok(),
            };
            // SAFETY: it ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
        let stream = SmcStream::connect_on(&stack(), address);
        if let Ok(mut stream) = stream {
            stream.set_read_timeout(Some(LONG)).unwrap();
            match stream.read(&mut [0]) {
                Ok(0) => {}
                outcome => {
                    let kind = outcome.unwrap_err().kind();
                    assert_eq!(kind, ErrorKind::ConnectionReset, "stage {stage}");
                }
            }
        }
        worker.ends_by_sigkill();
        let worker = fork(|| serve(&server, &listener, 1));
        asks_by_smc(address);
        worker.succeeds();
    }
}

/// Ended by force while the server waits for its answer, or after that.
#[test]
fn a_client_that_ends_by_sigkill_leaves_no_server_waiting() {
    if !alone(&a_client_that_ends_by_sigkill_leaves_no_server_waiting) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    for is_decided in [false, true] {
        let client = fork(|| {
            let _client = match is_decided {
                true => SmcStream::connect_on(&stack(), address).map(drop),
                false => SmcStream::begin_connect(&stack(), address).map(std::mem::forget),
            };
            // SAFETY: it ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
        let (tcp, _) = listener.accept().unwrap();
        // The client may have ended already.
        if let Ok(accepted) = server.accepted(tcp)
            && let Ok(mut stream) = accepted.wait()
        {
            drop(accepted);
            stream.set_read_timeout(Some(LONG)).unwrap();
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        }
        client.ends_by_sigkill();
        let client = self::client(address);
        serve(&server, &listener, 1);
        client.join().unwrap();
    }
}

/// The library's own listener beside one of the kernel's: each kind of client, each kind of server.
#[test]
fn both_kinds_of_listeners_serve_one_client() {
    if !alone(&both_kinds_of_listeners_serve_one_client) {
        return;
    }
    let server = stack();
    let (listener, address) = announced(&server);
    let own = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let opened = stack();
    let to_own = own.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        for to in [address, to_own, address, to_own] {
            let stream = SmcStream::connect_on(&opened, to).unwrap();
            assert!(stream.carrier().is_smc(), "{}", stream.carrier());
            asks(stream);
        }
    });
    for _ in 0..2 {
        serve(&server, &listener, 1);
        echo(own.accept().unwrap().0);
    }
    client.join().unwrap();
}

/// On a runtime of the child's own.
//= SHM-015 test
#[cfg(feature = "tokio")]
#[test]
fn a_child_serves_an_inherited_listener_on_tokio() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    if !alone(&a_child_serves_an_inherited_listener_on_tokio) {
        return;
    }
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let child = fork(|| {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(async {
            let listener = listener.try_clone().unwrap();
            let listener = smc_sockets::tokio::SmcListener::from_std(listener).unwrap();
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
    });
    (0..3).for_each(|_| asks_by_smc(address));
    child.succeeds();
}
