//! Two processes: the other one is this test program once more.

use crate::common::peer;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{listener, octets, stack};
use smc_proto::wire::clc::ClcMessage;
use smc_sockets::SmcStream;

const ROLE: &str = "SMC_SOCKETS_ROLE";
const LEN: usize = 200_000;

/// The other process; does nothing in the test run itself.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (name, address) = role.split_once(' ').unwrap();
    match name {
        "serve" => return serve(),
        "mark" => return serve_mark(),
        _ => {}
    }
    let mut stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    match name {
        // Writes for ever.
        "flood" => while stream.write_all(&octets(10_000)).is_ok() {},
        // Writes, closes its half, and ends without closing the SMC connection.
        "leave" => {
            stream.write_all(&octets(LEN)).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
        // Writes, and closes with bytes that it does not read.
        "refuse" => {
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"refused").unwrap();
        }
        "echo" => {
            let mut chunk = vec![0; 30_000];
            while let Ok(len @ 1..) = stream.read(&mut chunk) {
                stream.write_all(&chunk[..len]).unwrap();
            }
        }
        _ => panic!("{role}"),
    }
}

/// Serves one connection, which must carry these bytes.
fn serve() {
    let (listener, address) = listener();
    println!("\n{address}");
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == octets(LEN));
}

fn spawn(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["two::child", "--exact"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A server in another process, the lines it prints, and a client that has proposed to it, with
/// its Accept.
fn server_in_child(
    role: &str,
) -> (
    Child,
    impl Iterator<Item = String> + use<>,
    peer::Peer,
    ClcMessage,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["two::child", "--exact", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find(|line| line.starts_with("127.")).unwrap();
    let mut client = peer::Peer::connect(address.parse().unwrap());
    let proposal = client.propose();
    client.send(&proposal);
    let accept = client.receive();
    (child, lines, client, accept)
}

#[test]
fn octets_go_through_another_process_and_back() {
    let (listener, address) = listener();
    let mut child = spawn(&format!("echo {address}"));
    let (stream, _) = listener.accept().unwrap();
    assert_eq!(stream.carrier().to_string(), "SMC-D v2.1");
    let sent = octets(4 << 20);
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        });
        (&stream).read_to_end(&mut received).unwrap();
    });
    assert!(received == sent);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_peer_that_is_killed_is_a_reset_at_once() {
    let (listener, address) = listener();
    let mut child = spawn(&format!("flood {address}"));
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc());
    let mut chunk = vec![0; 50_000];
    for _ in 0..100 {
        stream.read_exact(&mut chunk).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = Instant::now();
    let error = loop {
        match stream.read(&mut chunk) {
            Ok(len) => assert!(len > 0, "no end of the stream was said"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(begin.elapsed() < Duration::from_secs(5));
    // As with TCP, the error is reported once.
    assert_eq!(stream.read(&mut chunk).unwrap(), 0);
    let error = stream.write(b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn what_a_process_wrote_before_it_was_killed_is_read_to_its_end() {
    let (listener, address) = listener();
    let mut child = spawn(&format!("leave {address}"));
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc());
    assert!(!child.wait().unwrap().success());
    // Every other thread has long observed that the peer is gone.
    std::thread::sleep(Duration::from_millis(100));
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received == octets(LEN));
}

#[test]
fn what_a_peer_wrote_before_it_closed_with_unread_bytes_is_read_before_the_reset() {
    let (listener, address) = listener();
    let mut child = spawn(&format!("refuse {address}"));
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc());
    stream.write_all(b"a request").unwrap();
    assert!(child.wait().unwrap().success());
    // Every other thread has long observed that the connection is reset.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stream.unread().unwrap(), Some(7));
    let mut received = [0; 10];
    assert_eq!(stream.read(&mut received).unwrap(), 7);
    assert_eq!(&received[..7], b"refused");
    let error = stream.read(&mut received).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// The urgent byte and the end of the connection reach a stopped server together.
#[test]
fn the_urgent_octet_of_a_peer_that_is_gone_is_there() {
    let (mut child, mut lines, mut client, accept) = server_in_child("mark here");
    client.handle(&accept);
    let confirm = client.next();
    client.send(&confirm);
    lines.find(|line| line == "accepted").unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    client.write_urgent(b"abc!");
    drop(client);
    rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
    // The driver has seen to both before the program asks for anything.
    std::thread::sleep(Duration::from_millis(200));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Serves one connection; it is to bring `abc` and an urgent `!`.
fn serve_mark() {
    let (listener, address) = listener();
    println!("\n{address}");
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    println!("accepted");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(stream.receive_urgent().unwrap(), b'!');
    let mut octets = [0; 3];
    stream.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"abc");
}

#[test]
fn what_came_while_the_server_slept_is_read_to_its_end() {
    // The client ends before the server has read its Confirm.
    let (mut child, _lines, mut client, accept) = server_in_child("serve here");
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    // The client's memory is offered only now.
    client.handle(&accept);
    let confirm = client.next();
    client.send(&confirm);
    client.write_all(&octets(LEN));
    drop(client);
    rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it waits for ever");
            }
        }
    };
    assert!(status.success());
}
