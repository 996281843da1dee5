//! `smcx perf --server` and `--client`, as processes, and what a server does with strangers.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A server, ended with this value.
struct Server {
    child: Child,
    port: String,
    lines: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn smcx(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
    command
        .args(arguments)
        .env("SMC_POLICY", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let all = [&["perf", "-s", "-B", "127.0.0.1", "-p", "0"], arguments].concat();
        let mut child = smcx(&all).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(':').next().unwrap().to_owned();
        assert_eq!(line, format!("Server listening on 127.0.0.1:{port}\n"));
        Self { child, port, lines }
    }

    fn client(&self, arguments: &[&str]) -> Output {
        let all = [&["perf", "-c", "127.0.0.1", "-p", &self.port], arguments].concat();
        smcx(&all).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.client(&[arguments, &["-J"]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A connection that says nothing by itself.
    fn stranger(&self) -> TcpStream {
        let stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }
}

/// What a control connection begins with.
const GREETING: [u8; 27] = {
    let mut greeting = [0; 27];
    let magic = b"smcxpf\0\x01";
    let mut at = 0;
    while at < magic.len() {
        greeting[at] = magic[at];
        at += 1;
    }
    greeting
};

fn message(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

const REQUEST: &str =
    r#"{"direction":"forward","streams":1,"length":1000,"limit":{"milliseconds":100}}"#;

/// What a server says until it ends the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A server that closes with bytes unread resets the connection.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn every_octet_is_counted_at_both_ends_in_each_direction() {
    let server = Server::start(&[]);
    for (direction, sums) in [
        (&[][..], &["sum_sent", "sum_received"][..]),
        (&["-R"], &["sum_sent", "sum_received"]),
        (
            &["--bidir"],
            &[
                "sum_sent",
                "sum_received",
                "sum_sent_bidir_reverse",
                "sum_received_bidir_reverse",
            ],
        ),
    ] {
        for transport in ["auto", "tcp"] {
            let arguments = [
                "-n",
                "5000001",
                "-P",
                "3",
                "-l",
                "7k",
                "--transport",
                transport,
            ];
            let test = server.json(&[&arguments, direction].concat());
            for sum in sums {
                assert_eq!(test["end"][sum]["bytes"], 5_000_001, "{direction:?} {test}");
            }
            let streams = test["end"]["streams"].as_array().unwrap();
            assert_eq!(streams.len(), if sums.len() == 4 { 6 } else { 3 });
            for stream in streams {
                assert_eq!(stream["sender"]["bytes"], stream["receiver"]["bytes"]);
                let is_tcp = stream["carrier"] == "TCP";
                // A machine with no time to spare may leave a connection on TCP.
                assert!(is_tcp || stream["carrier"] == "SMC-D v2.1", "{stream}");
                assert!(is_tcp || transport == "auto", "{stream}");
                let has_reason = stream["why_tcp"]["code"].is_string();
                assert_eq!(has_reason, is_tcp && transport == "auto", "{stream}");
            }
        }
    }
}

#[test]
fn a_test_by_time_has_a_line_for_each_interval_and_a_closing_table() {
    let server = Server::start(&[]);
    let output = server.client(&["-t", "0.65", "-i", "0.2", "-P", "2"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (intervals, closing) = text.split_once("\n- - ").unwrap();
    for name in ["[  1] ", "[  2] ", "[SUM] "] {
        let of = |part: &str| part.lines().filter(|line| line.starts_with(name)).count();
        // The streams are named once more, with what carries them.
        let named = usize::from(name != "[SUM] ");
        let lines = of(intervals) - named;
        assert!((3..=5).contains(&lines), "{name}: {lines}\n{text}");
        assert_eq!(of(closing), 2, "{text}");
    }
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("2 streams from the client to the server"),
        "{first}"
    );
    assert!(intervals.contains("sec "), "{text}");
}

#[test]
fn times_of_round_trips_have_rising_shares() {
    let server = Server::start(&[]);
    let arguments = [
        "--round-trip",
        "-t",
        "0.3",
        "-i",
        "0.1",
        "-l",
        "100",
        "-P",
        "2",
    ];
    let test = server.json(&arguments);
    let times = &test["end"]["round_trips"];
    let count = times["count"].as_u64().unwrap();
    assert!(count > 10, "{test}");
    let shares = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns"];
    let shares = shares.map(|share| times[share].as_u64().unwrap());
    assert!(shares.is_sorted() && shares[0] > 0, "{times}");
    assert_eq!(test["end"]["sum_sent"]["bytes"], count * 100);
    let intervals = test["intervals"].as_array().unwrap();
    let counted = |of: &Value| of["sum"]["round_trips"]["count"].as_u64().unwrap();
    assert!(intervals.iter().map(counted).sum::<u64>() <= count);
    assert!(intervals.len() >= 2, "{test}");
}

#[test]
fn a_server_serves_one_test_at_a_time_and_takes_no_longer_one_than_it_should() {
    let server = Server::start(&["--longest", "1"]);
    let output = server.client(&["-t", "1.1"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("tests take 1 s at most"), "{stderr}");
    // One that waits for its streams, which the server does for 5 s; a client that a busy machine makes
    // come later finds it free again.
    let first = (0..10).find_map(|_| {
        let mut first = server.stranger();
        first.write_all(&GREETING).unwrap();
        first.write_all(&message(REQUEST)).unwrap();
        let begin = Instant::now();
        let mut answer = [0; 4];
        first.read_exact(&mut answer).unwrap();
        let output = server.client(&["-t", "0.1"]);
        if output.status.success() {
            assert!(begin.elapsed() > Duration::from_secs(5));
            return None;
        }
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("busy with another test"), "{stderr}");
        Some(first)
    });
    // It stays, or the server would be free because it went.
    let _first = first.expect("a server that is busy");
    // Its streams do not come: the server is free again, and says why.
    let begin = Instant::now();
    loop {
        if server.client(&["-t", "0.1"]).status.success() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_the_server_goes_on() {
    let server = Server::start(&[]);
    let cut = GREETING[..20].to_vec();
    let of_another_test = {
        let mut greeting = GREETING.to_vec();
        greeting[8] = 1;
        greeting
    };
    let large = [&GREETING[..], &u32::MAX.to_be_bytes(), b"{}"].concat();
    let deep = [&GREETING[..], &message(&"[".repeat(200_000))].concat();
    for octets in [
        b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
        of_another_test,
        large,
        deep,
        cut,
    ] {
        let mut stream = server.stranger();
        // The server may have ended the connection before it has them all.
        let _ = stream.write_all(&octets);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert_eq!(rest(stream), "", "{octets:?}");
    }
    for request in [
        r#"{"direction":"forward","streams":65535,"length":1,"limit":{"milliseconds":1}}"#,
        r#"{"direction":"forward","streams":1,"length":4294967295,"limit":{"milliseconds":1}}"#,
        r#"{"direction":"forward","streams":1,"length":1,"limit":{"milliseconds":18446744073709551615}}"#,
        r#"{"direction":"round-trip","streams":1,"length":1,"limit":{"octets":1}}"#,
    ] {
        // Each alone, as there is one test at a time.
        let begin = Instant::now();
        loop {
            let mut stream = server.stranger();
            stream.write_all(&GREETING).unwrap();
            stream.write_all(&message(request)).unwrap();
            let said = rest(stream);
            if !said.contains("busy") {
                assert!(said.contains("refused"), "{request}: {said}");
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(30));
        }
    }
    let test = server.json(&["-n", "100k"]);
    assert_eq!(test["end"]["sum_received"]["bytes"], 102_400);
}

#[test]
fn a_client_that_is_killed_leaves_the_server_free() {
    let mut server = Server::start(&["-i", "0"]);
    for direction in ["-R", "--bidir"] {
        let arguments = [
            "perf",
            "-c",
            "127.0.0.1",
            "-p",
            &server.port,
            "-t",
            "600",
            direction,
        ];
        let mut client = smcx(&arguments).spawn().unwrap();
        // Until its streams are there.
        let mut line = String::new();
        while !line.contains("Interval") {
            line.clear();
            assert_ne!(server.lines.read_line(&mut line).unwrap(), 0);
        }
        client.kill().unwrap();
        client.wait().unwrap();
        let begin = Instant::now();
        while !server.client(&["-n", "1000"]).status.success() {
            assert!(begin.elapsed() < Duration::from_secs(30), "{direction}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_server_that_is_no_server_of_ours_is_no_reason_to_wait() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(b"220 mail.example ESMTP \x1b[2J\r\n")
            .unwrap();
        let _ = stream.read(&mut [0; 1000]);
    });
    let output = smcx(&["perf", "-c", "127.0.0.1", "-p", &port]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("too large") && !stderr.contains('\x1b'),
        "{stderr}"
    );
    serving.join().unwrap();
}

#[test]
fn a_one_off_server_ends_with_its_test() {
    let mut server = Server::start(&["--one-off"]);
    assert!(server.client(&["-n", "1000"]).status.success());
    assert!(server.child.wait().unwrap().success());
    let mut text = String::new();
    server.lines.read_to_string(&mut text).unwrap();
    assert!(text.contains("receiver"), "{text}");
}

#[test]
fn options_that_do_not_fit_each_other_are_wrong_usage() {
    for arguments in [
        &["-s", "-c", "a.example"][..],
        &["-s", "-t", "1"],
        &["-R"],
        &["-c", "a.example", "-R", "--bidir"],
        &["-c", "a.example", "-n", "1", "-t", "1"],
        &["-c", "a.example", "--round-trip", "-n", "1"],
        &["-c", "a.example", "-P", "129"],
        &["-c", "a.example", "-l", "2m"],
        &["-c", "a.example", "-i", "0.01"],
        &["-c", "a.example", "-p", "0"],
        &["-c", "a.example", "--one-off"],
    ] {
        let output = smcx(&[&["perf"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
}
