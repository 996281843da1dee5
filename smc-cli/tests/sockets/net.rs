//! `smcx listen`, `smcx connect` and `smcx perf`, as processes.
#![cfg(target_os = "linux")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::stats::Ended;

fn smcx(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(arguments)
        .env("SMC_POLICY", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A listener, its port, and the rest of what it says.
fn listen(arguments: &[&str]) -> (Child, String, BufReader<ChildStderr>) {
    let all = [&["listen", "127.0.0.1:0", "--verbose"], arguments].concat();
    let mut child = smcx(&all);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let line = line(&mut stderr);
    let port = line.rsplit(':').next().unwrap().to_owned();
    assert_eq!(line, format!("smcx: listening on 127.0.0.1:{port}"));
    (child, port, stderr)
}

fn line(of: &mut impl BufRead) -> String {
    let mut line = String::new();
    of.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn connect(port: &str, input: &[u8], arguments: &[&str]) -> (String, String, bool) {
    let mut child = smcx(&[&["connect", "127.0.0.1", port], arguments].concat());
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    (stdout, stderr, output.status.success())
}

/// A machine with no time to spare may leave a connection on TCP; the line says so.
fn is_carrier(line: &str) -> bool {
    line.contains(": SMC-D v2.1; ") || line.contains(": TCP: 0x03010000 ")
}

#[test]
fn two_processes_talk_and_say_what_carried_it() {
    let (mut listener, port, mut messages) = listen(&[]);
    listener.stdin.take().unwrap().write_all(b"answer").unwrap();
    let mut client = smcx(&["connect", "127.0.0.1", &port]);
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"question!").unwrap();
    // The end that ends the conversation first is not sent what comes later.
    let mut answer = [0; 6];
    let output = client.stdout.as_mut().unwrap();
    output.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    drop(input);
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    let end = "; 9 bytes sent, 6 received\n";
    assert!(is_carrier(&stderr) && stderr.ends_with(end), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let mut received = String::new();
    let mut stdout = listener.stdout.take().unwrap();
    stdout.read_to_string(&mut received).unwrap();
    assert_eq!(received, "question!");
    let line = line(&mut messages);
    assert!(line.ends_with("; 6 bytes sent, 9 received"), "{line}");
    assert!(listener.wait().unwrap().success());
}

/// A file through two processes, whose sums of all bytes agree. `SMCX_NET_MIB` says how
/// long it is, 64 by default.
#[test]
fn a_file_goes_through_unharmed() {
    let mib: usize = std::env::var("SMCX_NET_MIB").map_or(64, |text| text.parse().unwrap());
    // Its standard input is at its end: it has nothing to send, and receives.
    let (mut listener, port, mut messages) = listen(&[]);
    drop(listener.stdin.take());
    let mut client = smcx(&["connect", "127.0.0.1", &port]);
    let mut input = client.stdin.take().unwrap();
    let sending = std::thread::spawn(move || {
        let (mut state, mut sum) = (1u64, Sha256::new());
        let mut chunk = vec![0; 1 << 20];
        for _ in 0..mib {
            for word in chunk.as_chunks_mut::<8>().0 {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                *word = state.to_be_bytes();
            }
            sum.update(&chunk);
            input.write_all(&chunk).unwrap();
        }
        sum.finalize()
    });
    let (mut sum, mut received) = (Sha256::new(), 0);
    let (mut output, mut chunk) = (listener.stdout.take().unwrap(), vec![0; 1 << 20]);
    while let len @ 1.. = output.read(&mut chunk).unwrap() {
        sum.update(&chunk[..len]);
        received += len;
    }
    let sent = sending.join().unwrap();
    let all = mib << 20;
    assert_eq!(
        received,
        all,
        "{} {}",
        line(&mut messages),
        line(&mut messages)
    );
    assert!(sent == sum.finalize());
    assert!(client.wait().unwrap().success() && listener.wait().unwrap().success());
    let line = line(&mut messages);
    assert!(is_carrier(&line), "{line}");
}

#[test]
fn a_command_serves_one_connection_after_the_other() {
    let (mut listener, port, mut messages) = listen(&["--exec", "tr a-z A-Z", "--keep-open"]);
    for word in ["one", "two", "three"] {
        let (stdout, stderr, success) = connect(&port, word.as_bytes(), &[]);
        assert!(success && stdout == word.to_uppercase(), "{stdout}{stderr}");
        let line = line(&mut messages);
        assert!(is_carrier(&line), "{line}");
    }
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn a_client_with_nothing_to_say_receives_everything() {
    for transport in ["ism", "tcp"] {
        let (mut listener, port, mut messages) = listen(&["--transport", transport]);
        let mut client = smcx(&["connect", "127.0.0.1", &port, "--transport", transport]);
        drop(client.stdin.take());
        // The client's end is there before the first byte leaves.
        sleep(Duration::from_millis(200));
        let sent: Vec<u8> = (0..3_000_000u32).map(|at| (at / 7) as u8).collect();
        let mut input = listener.stdin.take().unwrap();
        let mut received = Vec::new();
        scope(|scope| {
            scope.spawn(|| {
                input.write_all(&sent).unwrap();
                drop(input);
            });
            let mut stdout = client.stdout.take().unwrap();
            stdout.read_to_end(&mut received).unwrap();
        });
        assert!(received == sent, "{} bytes", received.len());
        assert!(client.wait().unwrap().success());
        let line = line(&mut messages);
        assert!(
            line.ends_with("; 3,000,000 bytes sent, 0 received"),
            "{line}"
        );
        assert!(listener.wait().unwrap().success());
    }
}

#[test]
fn what_a_client_leaves_behind_is_cleared_away() {
    let (mut listener, port, mut messages) = listen(&["--exec", "cat", "--keep-open"]);
    for _ in 0..5 {
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        client.write_all(b"no one reads the answer").unwrap();
        // With bytes unread, the drop is a reset.
        assert_eq!(client.peek(&mut [0]).unwrap(), 1);
        let own = client.local_addr().unwrap();
        drop(client);
        // A connection that was reset has no other end any more, and is named all the same.
        for _ in 0..2 {
            let line = line(&mut messages);
            assert!(line.starts_with(&format!("smcx: {own}: ")), "{line}");
        }
    }
    let id = listener.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let all = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let all: Vec<_> = all.flatten().filter_map(|task| of(task).ok()).collect();
    assert!(children.is_ok(), "the kernel does not list children");
    assert!(all.iter().all(String::is_empty), "{all:?}");
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn a_plain_client_is_served_and_tcp_can_be_asked_for() {
    let (mut listener, port, mut messages) = listen(&["--exec", "cat", "--keep-open"]);
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    plain.write_all(b"plain").unwrap();
    plain.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    plain.read_to_string(&mut text).unwrap();
    assert_eq!(text, "plain");
    let line = line(&mut messages);
    let sentence = ": TCP: 0x03010000 (peer does not speak SMC). The other side offered no SMC";
    assert!(line.contains(sentence), "{line}");
    let (stdout, stderr, success) = connect(&port, b"asked for", &["--transport", "tcp"]);
    assert!(success && stdout == "asked for");
    assert!(stderr.contains(": TCP; 9 bytes sent"), "{stderr}");
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn commands_run_no_more_at_a_time_than_they_may() {
    let arguments = ["--exec", "cat", "--keep-open", "--at-once", "2"];
    let (mut listener, port, _messages) = listen(&arguments);
    let client = || TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let mut clients = [client(), client(), client()];
    let mut octet = [0];
    for client in &mut clients {
        client.write_all(b"x").unwrap();
    }
    let [first, second, third] = &mut clients;
    first.read_exact(&mut octet).unwrap();
    second.read_exact(&mut octet).unwrap();
    let short = Some(Duration::from_millis(300));
    third.set_read_timeout(short).unwrap();
    let error = third.read_exact(&mut octet).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    third.set_read_timeout(None).unwrap();
    first.shutdown(std::net::Shutdown::Write).unwrap();
    third.read_exact(&mut octet).unwrap();
    assert_eq!(octet, *b"x");
    listener.kill().unwrap();
    listener.wait().unwrap();
}

/// A terminal: its end for typing, and its end for the program.
fn terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let typed = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&typed).unwrap();
    unlockpt(&typed).unwrap();
    let name = ptsname(&typed, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let seen = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    (typed.into(), seen.into())
}

#[test]
fn what_is_typed_goes_to_the_connection_that_is_there() {
    let (mut typed, seen) = terminal();
    let mut listener = Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(["listen", "127.0.0.1:0", "--verbose", "--keep-open"])
        .stdin(seen)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(listener.stderr.take().unwrap());
    let port = line(&mut messages).rsplit(':').next().unwrap().to_owned();
    for round in 0..4 {
        let client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        // It is this one's turn when it says something.
        let mut reader = BufReader::new(&client);
        (&client).write_all(b"x").unwrap();
        let mut said = [0];
        listener
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        writeln!(typed, "line {round}").unwrap();
        assert_eq!(line(&mut reader), format!("line {round}"));
        drop(client);
        assert!(is_carrier(&line(&mut messages)));
    }
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn what_cannot_be_done_is_messages_in_one_line() {
    let (_, stderr, success) = connect("1", b"", &[]);
    assert!(!success);
    assert_eq!(stderr, "smcx: 127.0.0.1:1: connection refused\n");
    let child = smcx(&["connect", "localhost"]).wait_with_output().unwrap();
    assert_eq!(child.status.code(), Some(2));
    let stderr = String::from_utf8(child.stderr).unwrap();
    assert!(
        stderr.contains("to which port of \"localhost\"?"),
        "{stderr}"
    );
}

/// Kills a process that does not end by itself, so that its test fails and does not hang.
fn limit(child: &Child) {
    let id = rustix::process::Pid::from_child(child);
    std::thread::spawn(move || {
        sleep(Duration::from_secs(30));
        rustix::process::kill_process(id, rustix::process::Signal::KILL)
    });
}

/// What is wrong with the standard streams is not the connection's fault.
#[test]
fn standard_streams_that_fail_are_named() {
    let open = |name: &str| {
        std::fs::File::options()
            .write(name == "/dev/full")
            .read(true)
            .open(name)
    };
    for closed in [false, true] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
        command.args(["listen", "127.0.0.1:0", "--verbose", "--keep-open"]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        match closed {
            true => command.stdout(Stdio::piped()),
            false => command.stdout(open("/dev/full").unwrap()),
        };
        let mut listener = command.spawn().unwrap();
        limit(&listener);
        drop(listener.stdout.take());
        let mut messages = BufReader::new(listener.stderr.take().unwrap());
        let port = line(&mut messages).rsplit(':').next().unwrap().to_owned();
        // Whether the client still sees that depends on when.
        connect(&port, b"octets", &[]);
        assert!(is_carrier(&line(&mut messages)));
        // A pipe whose reader has gone is no problem; a full device is.
        let last = match closed {
            true => "",
            false => "smcx: cannot write the output: no space left on device",
        };
        assert_eq!(line(&mut messages), last);
        assert_eq!(listener.wait().unwrap().success(), closed);
    }
    let (mut listener, port, _messages) = listen(&["--exec", "cat"]);
    let client = Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(["connect", "127.0.0.1", &port])
        .stdin(open("/").unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    limit(&client);
    let output = client.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.ends_with("\nsmcx: standard input: is a directory\n"),
        "{stderr}"
    );
    listener.wait().unwrap();
}

#[test]
fn on_a_terminal_a_client_ends_with_its_peer() {
    let (_typed, seen) = terminal();
    let (mut listener, port, _messages) = listen(&["--exec", "echo octets"]);
    let client = Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(["connect", "127.0.0.1", &port])
        .stdin(seen)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    limit(&client);
    let output = client.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "it waits for what is typed: {output:?}"
    );
    assert_eq!(output.stdout, b"octets\n");
    listener.wait().unwrap();
}

/// A command that only waits seems to hang otherwise.
#[test]
fn a_server_whose_messages_go_to_a_terminal_names_its_address() {
    let here = "127.0.0.1:0";
    for (arguments, before) in [
        (&["listen", here][..], "smcx: listening on 127.0.0.1:"),
        (
            &["metrics", "--listen", here],
            "smcx: metrics: http://127.0.0.1:",
        ),
        (&["proxy", here, "127.0.0.1:1"], "smcx: proxy: 127.0.0.1:"),
    ] {
        let (messages, seen) = terminal();
        let server = Command::new(env!("CARGO_BIN_EXE_smcx"))
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(seen)
            .spawn();
        let _server = Ended(server.unwrap());
        let mut polled = [PollFd::new(&messages, PollFlags::IN)];
        let most = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut polled, Some(&most)), Ok(1), "{arguments:?}");
        let line = line(&mut BufReader::new(messages));
        assert!(line.starts_with(before), "{arguments:?}: {line:?}");
    }
}

#[test]
fn a_port_alone_is_one_of_both_families() {
    for transport in ["auto", "tcp"] {
        let arguments = ["listen", "0", "--verbose", "--keep-open", "--exec", "cat"];
        let mut listener = smcx(&[&arguments[..], &["--transport", transport]].concat());
        let mut messages = BufReader::new(listener.stderr.take().unwrap());
        let first = line(&mut messages);
        let at = first.strip_prefix("smcx: listening on [::]:").unwrap();
        let port = at.strip_suffix(" (IPv4 and IPv6)").unwrap();
        for (host, shown) in [("127.0.0.1", "127.0.0.1:"), ("::1", "[::1]:")] {
            let mut client = smcx(&["connect", host, port, "--transport", transport]);
            client.stdin.take().unwrap().write_all(b"octets").unwrap();
            let output = client.wait_with_output().unwrap();
            assert!(
                output.status.success() && output.stdout == b"octets",
                "{output:?}"
            );
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(
                stderr.starts_with(&format!("smcx: {shown}{port}: ")),
                "{stderr}"
            );
            let line = line(&mut messages);
            assert!(line.starts_with(&format!("smcx: {shown}")), "{line}");
        }
        listener.kill().unwrap();
        listener.wait().unwrap();
    }
}

#[test]
fn wrong_arguments_are_wrong_usage_and_have_status_2() {
    for arguments in [
        &["connect", "localhost:99999"][..],
        &["connect", "localhost", "99999"],
        &["connect", "localhost:0"],
        &["connect", "5000"],
        &["connect", "localhost:http"],
        &["connect", "::1"],
        &["listen", "99999"],
        &["listen", "localhost"],
        &["listen", "localhost:"],
        &["listen", "5000", "--at-once", "0"],
        &["why", "localhost:70000"],
        &["perf", "--seconds", "nan"],
        &["perf", "--seconds", "1e9"],
        &["perf", "--size", "99999999999999999999"],
    ] {
        let output = smcx(arguments).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}

/// Children of a process.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap();
    let all = tasks.flatten().filter_map(|task| {
        let children = std::fs::read_to_string(task.path().join("children")).ok()?;
        Some(
            children
                .split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect::<Vec<_>>(),
        )
    });
    all.flatten().collect()
}

/// Whether a process runs; one that only waits to be reaped does not.
fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap().starts_with('Z'))
}

#[test]
fn a_measurement_that_is_killed_leaves_no_server() {
    for transport in ["ism", "tcp"] {
        let mut parent = smcx(&["perf", "--transport", transport, "--seconds", "60"]);
        let server = loop {
            if let [server] = children(parent.id())[..] {
                break server;
            }
            assert_eq!(parent.try_wait().unwrap(), None, "it ended by itself");
            sleep(Duration::from_millis(10));
        };
        // In each phase: while the server starts, and while it is measured.
        sleep(Duration::from_millis(if transport == "ism" {
            0
        } else {
            500
        }));
        parent.kill().unwrap();
        parent.wait().unwrap();
        let begin = std::time::Instant::now();
        while runs(server) {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{server} is left"
            );
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn figures_are_measured_over_both() {
    let arguments = ["perf", "--seconds", "0.05", "--json"];
    let output = smcx(&arguments).wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(figures.len(), 2);
    assert_eq!(figures[1]["carrier"], "TCP");
    for figure in figures {
        for name in ["stream_octets_per_s", "round_trips", "connections_per_s"] {
            assert!(figure[name].as_f64().unwrap() > 0.0, "{name}");
        }
        let (p50, p99) = (&figure["round_trip_p50_ns"], &figure["round_trip_p99_ns"]);
        assert!(p50.as_u64() <= p99.as_u64());
    }
}
