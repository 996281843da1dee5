//! Each example as two processes, whose octets go through shared memory.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;

const CARRIER: &str = "carried by SMC-D v2.1";

/// A server in a process of its own, until the test ends.
struct Server {
    process: Child,
    address: String,
    said: Option<JoinHandle<String>>,
}

impl Server {
    fn of(program: &str) -> Self {
        let mut process = Command::new(program)
            .args(["serve", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let mut stderr = process.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        Self {
            process,
            address,
            said: Some(said),
        }
    }

    /// Ends it: what it said on the error stream, a line for each connection.
    fn end(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let said = self.said.take().unwrap().join().unwrap();
        said.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// What a client printed, whose octets did not go over TCP.
fn asked(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    assert_eq!(String::from_utf8(output.stderr).unwrap().trim(), CARRIER);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_echo_on_std() {
    let program = env!("CARGO_BIN_EXE_echo");
    let server = Server::of(program);
    for _ in 0..3 {
        let answer = asked(program, &["ask", &server.address, "there", "and", "back"]);
        assert_eq!(answer, "there and back\n");
    }
    assert_eq!(server.end(), [CARRIER; 3]);
}

#[test]
fn an_echo_on_epoll() {
    let server = Server::of(env!("CARGO_BIN_EXE_epoll"));
    let client = env!("CARGO_BIN_EXE_echo");
    for _ in 0..3 {
        let answer = asked(client, &["ask", &server.address, "there", "and", "back"]);
        assert_eq!(answer, "there and back\n");
    }
    // A client that knows nothing of SMC, and more than a buffer has room for.
    let mut tcp = TcpStream::connect(&server.address).unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
    let mut received = vec![0; sent.len()];
    std::thread::scope(|scope| {
        let mut writer = tcp.try_clone().unwrap();
        let sent = &sent;
        scope.spawn(move || writer.write_all(sent).unwrap());
        tcp.read_exact(&mut received).unwrap();
    });
    assert!(received == sent);
    let lines = server.end();
    assert_eq!(lines[..3], [CARRIER; 3]);
    assert!(lines[3].starts_with("carried by TCP"), "{lines:?}");
}

#[test]
fn http_on_hyper() {
    let program = env!("CARGO_BIN_EXE_http");
    let server = Server::of(program);
    let at = &server.address;
    let few = asked(program, &["get", at, "/numbers/3"]);
    assert_eq!(few, "200 OK\n0\n1\n2\n");
    // More than a buffer has room for.
    let many = asked(program, &["get", at, "/numbers/200000"]);
    let numbers: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    assert!(many == format!("200 OK\n{numbers}"));
    let posted = asked(program, &["post", at, "/upper", "some", "words"]);
    assert_eq!(posted, "200 OK\nSOME WORDS");
    assert_eq!(asked(program, &["get", at, "/nothing"]), "404 Not Found\n");
    assert_eq!(server.end(), [CARRIER; 4]);
}

/// Somebody in a chat.
struct Person {
    process: Child,
    says: Option<ChildStdin>,
    hears: BufReader<ChildStdout>,
}

impl Person {
    fn who_joins(program: &str, address: &str) -> Self {
        let mut process = Command::new(program)
            .args(["join", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = process.stdin.take();
        let hears = BufReader::new(process.stdout.take().unwrap());
        let mut person = Self {
            process,
            says,
            hears,
        };
        assert_eq!(person.hears(), "welcome\n");
        person
    }

    fn says(&mut self, line: &str) {
        writeln!(self.says.as_ref().unwrap(), "{line}").unwrap();
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.hears.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_chat_on_tokio() {
    let program = env!("CARGO_BIN_EXE_chat");
    let server = Server::of(program);
    let mut one = Person::who_joins(program, &server.address);
    let mut two = Person::who_joins(program, &server.address);
    let mut three = Person::who_joins(program, &server.address);
    for line in ["hello", "", "how are you?"] {
        one.says(line);
        assert_eq!(two.hears(), format!("{line}\n"));
        assert_eq!(three.hears(), format!("{line}\n"));
    }
    two.says("well");
    assert_eq!(one.hears(), "well\n");
    assert_eq!(three.hears(), "well\n");
    assert_eq!(server.end(), [CARRIER; 3]);
}
