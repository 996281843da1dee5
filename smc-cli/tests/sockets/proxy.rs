//! `smcx proxy`, as a process between clients and servers of TCP.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A proxy, ended with this value.
struct Proxy {
    child: Child,
    address: SocketAddr,
    stderr: BufReader<ChildStderr>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    fn start(target: SocketAddr, arguments: &[&str]) -> Self {
        let target = target.to_string();
        let mut child = Command::new(env!("CARGO_BIN_EXE_smcx"))
            .args(["proxy", "127.0.0.1:0", &target, "--json", "--verbose"])
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let address = words[2].parse().unwrap_or_else(|_| panic!("{line}"));
        Self {
            child,
            address,
            stderr,
        }
    }

    /// The next line about a connection.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Ends it; its status, its table, and the rest of what it said.
    fn end(mut self) -> (i32, Value, String) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let mut table = String::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut table).unwrap();
        let status = self.child.wait().unwrap();
        let table = serde_json::from_str(&table).unwrap_or_else(|_| panic!("{table}{said}"));
        (status.code().unwrap(), table, said)
    }
}

/// A server that answers everything, turned around, when its client has ended.
fn server(connections: usize) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                all.reverse();
                stream.write_all(&all).unwrap();
            });
        }
    });
    (address, serving)
}

/// Bytes that do not repeat soon.
fn octets(count: u32) -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(state.to_be_bytes()[0])
    };
    let mut state = 7;
    std::iter::from_fn(|| next(&mut state))
        .take(count as usize)
        .collect()
}

fn exchange(with: SocketAddr, all: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(with).unwrap();
    stream.write_all(all).unwrap();
    // The server answers only behind this: the end of one direction is passed on as that.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn tcp_goes_over_smc_between_two_proxies_with_every_octet_and_each_end() {
    let (address, serving) = server(3);
    let far = Proxy::start(address, &["--to", "tcp"]);
    let near = Proxy::start(far.address, &["--from", "tcp"]);
    let all = octets(3_000_001);
    let turned: Vec<u8> = all.iter().rev().copied().collect();
    let to = near.address;
    thread::scope(|scope| {
        let clients = [0, 1, 2].map(|_| scope.spawn(|| exchange(to, &all)));
        for client in clients {
            assert!(client.join().unwrap() == turned);
        }
    });
    serving.join().unwrap();
    let (status, near, said) = near.end();
    assert_eq!(status, 0, "{said}");
    assert_eq!(near["connections"], 3);
    assert_eq!(near["broken"], 0, "{said}");
    assert_eq!(near["octets_to_target"], 9_000_003);
    assert_eq!(near["octets_to_clients"], 9_000_003);
    assert_eq!(near["from"]["tcp"], 3);
    let (status, far, said) = far.end();
    assert_eq!(status, 0, "{said}");
    assert_eq!(far["to"]["tcp"], 3);
    // Both ends agree; a machine with no time to spare may leave connections on TCP.
    assert_eq!(near["to"], far["from"]);
    assert_eq!(
        said.matches("from SMC-D v2.1").count() as u64,
        far["from"]["smc_d"]
    );
}

#[test]
fn a_target_that_is_not_there_is_a_reset_and_the_proxy_goes_on() {
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nowhere.local_addr().unwrap();
    drop(nowhere);
    let mut proxy = Proxy::start(address, &[]);
    for _ in 0..2 {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(
            proxy
                .line()
                .contains("the target is not reached: connection refused")
        );
    }
    let (status, table, _) = proxy.end();
    assert_eq!((status, &table["target_not_reached"]), (0, &2.into()));
}

#[test]
fn a_connection_that_breaks_on_one_side_is_reset_on_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = Proxy::start(listener.local_addr().unwrap(), &[]);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    client.write_all(b"question").unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(proxy.line().contains("the target's side broke"));
    let (_, table, _) = proxy.end();
    assert_eq!(table["broken"], 1);
}

#[test]
fn a_server_that_does_not_read_stops_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = Proxy::start(listener.local_addr().unwrap(), &[]);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    client
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let chunk = vec![1; 1 << 16];
    let mut written = 0_u64;
    let stopped = loop {
        match client.write(&chunk) {
            Ok(len) => written += len as u64,
            Err(error) => break error.kind(),
        }
        // What the kernel's buffers of two connections may hold.
        assert!(written < 256 << 20);
    };
    assert_eq!(stopped, ErrorKind::WouldBlock);
    // It goes on when the server does.
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.len() as u64
    });
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reading.join().unwrap(), written);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert!(proxy.line().contains("0 back"));
    let (status, table, _) = proxy.end();
    assert_eq!((status, &table["octets_to_target"]), (0, &written.into()));
}

#[test]
fn further_connections_wait_until_there_is_a_place() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap(), &["--at-once", "1"]);
    let accept = |timeout: Duration| {
        let begin = Instant::now();
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(_) if begin.elapsed() > timeout => return None,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    };
    let first = TcpStream::connect(proxy.address).unwrap();
    let served = accept(Duration::from_secs(20)).unwrap();
    let second = TcpStream::connect(proxy.address).unwrap();
    assert!(accept(Duration::from_millis(300)).is_none());
    drop((first, served));
    let served = accept(Duration::from_secs(20)).unwrap();
    drop((second, served));
    let (status, table, said) = proxy.end();
    assert_eq!((status, &table["connections"]), (0, &2.into()), "{said}");
}

#[test]
fn connections_that_do_not_end_are_cut_off_with_the_proxy_or_when_they_are_idle() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let proxy = Proxy::start(target, &["--drain", "0"]);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    let (_served, _) = listener.accept().unwrap();
    let (status, table, said) = proxy.end();
    assert_eq!(status, 1, "{said}");
    assert_eq!(
        (&table["broken"], &table["connections"]),
        (&1.into(), &1.into())
    );
    assert!(said.contains("cut off"), "{said}");
    assert!(client.read(&mut [0]).is_err());

    let mut proxy = Proxy::start(target, &["--idle", "1"]);
    let mut client = TcpStream::connect(proxy.address).unwrap();
    let (_served, _) = listener.accept().unwrap();
    let begin = Instant::now();
    assert!(client.read(&mut [0]).is_err());
    assert!(begin.elapsed() > Duration::from_millis(700));
    assert!(proxy.line().contains("nothing came"));
}
