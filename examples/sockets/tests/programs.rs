//! Each example as two processes, whose bytes go through shared memory.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;

const CARRIER: &str = "carried by SMC-D v2.1";
/// The beginning of the line of a connection whose peer did not answer in time.
const LATE: &str = "carried by TCP: 0x03010000 ";

/// Has conversations until all connections of one of them, whose lines it returns, were carried
/// by SMC-D: programs with the default settings do not wait long for a peer that a busy machine
/// runs late.
fn over_smc(conversation: impl Fn() -> Vec<String>) {
    for _ in 0..20 {
        let carriers = conversation();
        let is_either = |line: &String| line == CARRIER || line.starts_with(LATE);
        assert!(carriers.iter().all(is_either), "{carriers:?}");
        if carriers.iter().all(|line| line == CARRIER) {
            return;
        }
    }
    panic!("a connection of each conversation was carried by TCP");
}

/// A server in a process of its own, until the test ends.
struct Server {
    process: Child,
    address: String,
    stderr_lines: Option<JoinHandle<String>>,
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
        let stderr_lines = std::thread::spawn(move || {
            let mut stderr_lines = String::new();
            stderr.read_to_string(&mut stderr_lines).unwrap();
            stderr_lines
        });
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        Self {
            process,
            address,
            stderr_lines: Some(stderr_lines),
        }
    }

    /// Ends the program and returns the lines of its error stream, one for each connection.
    fn end(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let stderr_lines = self.stderr_lines.take().unwrap().join().unwrap();
        stderr_lines.lines().map(str::to_owned).collect()
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

/// What a client printed; its line about the carrier is added to `carriers`.
fn asked(program: &str, arguments: &[&str], carriers: &mut Vec<String>) -> String {
    let output = run(program, arguments);
    carriers.push(String::from_utf8(output.stderr).unwrap().trim().to_owned());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_echo_on_std() {
    let program = env!("CARGO_BIN_EXE_echo");
    over_smc(|| {
        let mut carriers = Vec::new();
        let server = Server::of(program);
        for _ in 0..3 {
            let words = ["ask", &server.address, "there", "and", "back"];
            assert_eq!(asked(program, &words, &mut carriers), "there and back\n");
        }
        let served = server.end();
        assert_eq!(served.len(), 3, "{served:?}");
        [carriers, served].concat()
    });
}

#[test]
fn an_echo_on_epoll() {
    let client = env!("CARGO_BIN_EXE_echo");
    over_smc(|| {
        let mut carriers = Vec::new();
        let server = Server::of(env!("CARGO_BIN_EXE_epoll"));
        for _ in 0..3 {
            let words = ["ask", &server.address, "there", "and", "back"];
            assert_eq!(asked(client, &words, &mut carriers), "there and back\n");
        }
        // A client that knows nothing of SMC, and more than a buffer has room for.
        let mut tcp = TcpStream::connect(&server.address).unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        let mut received = vec![0; sent.len()];
        let writing = std::thread::spawn({
            let (mut writer, sent) = (tcp.try_clone().unwrap(), sent.clone());
            move || writer.write_all(&sent).unwrap()
        });
        tcp.read_exact(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent);
        let mut served = server.end();
        assert_eq!(served.len(), 4, "{served:?}");
        let of_tcp = served.pop().unwrap();
        assert!(of_tcp.starts_with("carried by TCP"), "{of_tcp}");
        [carriers, served].concat()
    });
}

#[test]
fn http_on_hyper() {
    let program = env!("CARGO_BIN_EXE_http");
    over_smc(|| {
        let mut carriers = Vec::new();
        let server = Server::of(program);
        let at = &server.address;
        let mut ask = |words: &[&str]| asked(program, words, &mut carriers);
        let few = ask(&["get", at, "/numbers/3"]);
        assert_eq!(few, "200 OK\n0\n1\n2\n");
        // More than a buffer has room for.
        let many = ask(&["get", at, "/numbers/200000"]);
        let numbers: String = (0..200_000).map(|number| format!("{number}\n")).collect();
        assert!(many == format!("200 OK\n{numbers}"));
        let posted = ask(&["post", at, "/upper", "some", "words"]);
        assert_eq!(posted, "200 OK\nSOME WORDS");
        assert_eq!(ask(&["get", at, "/nothing"]), "404 Not Found\n");
        let served = server.end();
        assert_eq!(served.len(), 4, "{served:?}");
        [carriers, served].concat()
    });
}

/// A participant of a chat.
struct Person {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Person {
    fn who_joins(program: &str, address: &str) -> Self {
        let mut process = Command::new(program)
            .args(["join", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut person = Self {
            process,
            input,
            output,
        };
        assert_eq!(person.receive(), "welcome\n");
        person
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
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
    over_smc(|| {
        let server = Server::of(program);
        let mut one = Person::who_joins(program, &server.address);
        let mut two = Person::who_joins(program, &server.address);
        let mut three = Person::who_joins(program, &server.address);
        for line in ["hello", "", "how are you?"] {
            one.send(line);
            assert_eq!(two.receive(), format!("{line}\n"));
            assert_eq!(three.receive(), format!("{line}\n"));
        }
        two.send("well");
        assert_eq!(one.receive(), "well\n");
        assert_eq!(three.receive(), "well\n");
        let served = server.end();
        assert_eq!(served.len(), 3, "{served:?}");
        served
    });
}
