//! One program for each thing that broke a library of this kind before: it has to see the same
//! over TCP, and over SMC with the library preloaded.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Where Cargo puts the library beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libsmc_preload.so");
    assert!(beside.exists(), "{} is missing", beside.display());
    beside
}

/// The program of the scenarios, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let sources = sources.read_dir().unwrap().map(|at| at.unwrap().path());
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scenarios");
        let compiler = Command::new("cc")
            .args(["-O1", "-Wall", "-pthread", "-o"])
            .arg(&program)
            .args(sources.filter(|at| at.extension().is_some_and(|is| is == "c")))
            .output()
            .expect("a C compiler");
        let errors = String::from_utf8_lossy(&compiler.stderr).into_owned();
        assert!(compiler.status.success(), "{errors}");
        program
    })
}

fn run(scenario: &str, with: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(program());
    command.arg(scenario).stdin(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("SMC_POLICY");
    with(&mut command);
    command.output().unwrap()
}

/// Runs a scenario with the library: how many connections of each side were SMC.
fn preloaded(scenario: &str) -> [usize; 2] {
    let preloaded = run(scenario, |command| {
        command.env("LD_PRELOAD", library()).env("SMC_DEBUG", "1");
    });
    let lines = String::from_utf8_lossy(&preloaded.stderr).into_owned();
    assert!(preloaded.status.success(), "{}\n{lines}", preloaded.status);
    ["connected: SMC-D", "accepted: SMC-D"].map(|line| lines.matches(line).count())
}

/// Runs a scenario over TCP, and then over SMC. It has to succeed each time; on a busy machine a
/// connection may stay on TCP, and it is run again.
fn same(scenario: &str) {
    let plain = run(scenario, |_| {});
    assert!(plain.status.success(), "over TCP: {plain:?}");
    let over_smc = |_: &usize| preloaded(scenario).iter().all(|count| *count > 0);
    assert!((0..10).any(|at| over_smc(&at)), "no connection was SMC");
}

macro_rules! scenarios {
    ($($name:ident: $scenario:literal;)*) => {
        $(
            #[test]
            fn $name() {
                same($scenario);
            }
        )*
    };
}

scenarios! {
    a_megabyte_comes_back_as_it_was: "echo";
    a_second_connect_returns_how_the_first_went: "second-connect";
    a_set_reports_a_connection_that_was_registered_before_it_connected: "epoll-before-connect";
    a_set_reports_by_level_by_edge_and_once: "epoll-kinds";
    a_set_in_a_set_and_one_that_is_polled_are_ready_when_their_connections_are: "nested";
    a_connection_ends_with_its_last_duplicate: "dup";
    a_file_is_sent: "sendfile";
    a_child_serves_what_its_parent_has_accepted: "fork";
    several_processes_accept_from_one_listener: "workers";
    a_half_closed_connection_goes_on_in_the_other_direction: "half-close";
    poll_select_and_epoll_wait_for_connections_and_others: "mixed";
    a_thread_reads_while_another_writes: "threads";
    threads_that_wait_at_a_set_are_woken_for_connections_that_it_gets: "shared-set";
    flags_and_options_are_those_of_tcp: "flags";
    a_signal_ends_a_wait: "signal";
    a_connection_that_is_refused_is_refused: "refused";
    libc_streams_read_and_write: "stdio";
    what_is_printed_to_a_descriptor_arrives: "printed";
    of_a_process_that_is_killed_the_peer_gets_the_end: "killed";
    calls_by_number_reach_the_library: "number";
    a_connection_is_not_passed_to_another_process: "passed";
    a_child_that_closes_its_copy_leaves_the_connection_alone: "inherited";
}

/// A program that knows nothing of the library has the connection from its parent.
#[test]
fn a_connection_that_another_program_gets_is_tcp() {
    let plain = run("exec", |_| {});
    assert!(plain.status.success(), "over TCP: {plain:?}");
    assert_eq!(preloaded("exec"), [0, 0]);
}

/// The first bytes of each message of CLC, and the kind of a Decline.
const EYE_CATCHER: [u8; 4] = [0xe2, 0xd4, 0xc3, 0xd9];
const DECLINE: u8 = 4;

const ECONNRESET: i32 = libc::ECONNRESET;

/// A Proposal of version 1, for an RNIC whose addresses are all zero.
fn proposal() -> Vec<u8> {
    const LEN: u8 = 52;
    let header = [&EYE_CATCHER[..], &[1, 0, LEN, 0x10]].concat();
    let body = vec![0; usize::from(LEN) - header.len() - EYE_CATCHER.len()];
    [header, body, EYE_CATCHER.to_vec()].concat()
}

/// A server with the library that takes its clients to speak CLC over TCP, as those on other hosts do.
struct Server {
    process: Child,
    address: SocketAddr,
    policy: PathBuf,
}

impl Server {
    fn start(scenario: &str) -> Self {
        // The number is free for a moment.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port();
        let policy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("assumes-{port}.toml"));
        let text = format!("assume-smc = [{{ peers = [\"127.0.0.1\"], ports = [{port}] }}]\n");
        std::fs::write(&policy, text).unwrap();
        let mut process = Command::new(program())
            .args([scenario, &port.to_string()])
            .env("LD_PRELOAD", library())
            .env("SMC_POLICY", &policy)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut listens = [0; 8];
        let output = process.stdout.as_mut().unwrap();
        output.read_exact(&mut listens).unwrap();
        assert_eq!(&listens, b"listens\n");
        Self {
            process,
            address,
            policy,
        }
    }

    /// Has the server accept the connection.
    fn accept(&mut self) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        client
    }

    /// What the server has written, once it has ended.
    fn output(mut self) -> String {
        drop(self.process.stdin.take());
        let output = self.process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let _ = std::fs::remove_file(&self.policy);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Reads a Decline.
fn is_declined(mut client: &TcpStream) {
    let mut header = [0; 8];
    client.read_exact(&mut header).unwrap();
    assert_eq!((&header[..4], header[4]), (&EYE_CATCHER[..], DECLINE));
    let len = usize::from(u16::from_be_bytes([header[5], header[6]]));
    client.read_exact(&mut vec![0; len - 8]).unwrap();
}

/// The program that echoes has read this.
fn is_echoed(mut client: &TcpStream, expected: &[u8]) {
    client.shutdown(Shutdown::Write).unwrap();
    let mut echoed = Vec::new();
    client.read_to_end(&mut echoed).unwrap();
    assert_eq!(echoed, expected);
}

/// The Proposal of a client is not the program's.
#[test]
fn without_room_for_smc_a_client_is_declined() {
    for scenario in ["few", "none-left"] {
        let mut server = Server::start(scenario);
        let mut client = server.connect();
        client.write_all(&proposal()).unwrap();
        client.write_all(b"octets").unwrap();
        server.accept();
        is_declined(&client);
        is_echoed(&client, b"octets");
        assert_eq!(server.output(), "errno 0\n", "{scenario}");
    }
}

/// The Proposal may come when nothing is there any more to drop it.
#[test]
fn without_room_for_smc_a_client_that_proposes_late_is_reset() {
    for scenario in ["few", "none-left"] {
        let mut server = Server::start(scenario);
        let client = server.connect();
        server.accept();
        is_declined(&client);
        let error = (&client).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{scenario}");
        let output = server.output();
        assert_eq!(output, format!("errno {ECONNRESET}\n"), "{scenario}");
    }
}

/// A program that knows nothing of the library gets the connection.
#[test]
fn a_client_of_a_program_that_is_executed_is_declined() {
    let mut server = Server::start("executes");
    let mut client = server.connect();
    server.accept();
    is_declined(&client);
    // Less than the call waits for it.
    std::thread::sleep(Duration::from_millis(10));
    client.write_all(&proposal()).unwrap();
    client.write_all(b"octets").unwrap();
    is_echoed(&client, b"octets");
    server.output();
}

/// The program is executed by a child that has the memory of its parent, which is one of the
/// program's, or of the C library's. The Proposal has come before.
#[test]
fn a_client_of_a_program_that_a_child_of_vfork_executes_is_declined() {
    for scenario in ["vforks", "spawns", "system"] {
        let mut server = Server::start(scenario);
        let mut client = server.connect();
        client.write_all(&proposal()).unwrap();
        client.write_all(b"octets").unwrap();
        server.accept();
        is_declined(&client);
        is_echoed(&client, b"octets");
        assert_eq!(server.output(), "", "{scenario}");
    }
}

/// A server whose child of vfork was killed while it waited for the client's first message, and that
/// client.
fn after_killed_child(scenario: &str) -> (Server, TcpStream) {
    for _ in 0..10 {
        let mut server = Server::start(scenario);
        let client = server.connect();
        server.accept();
        let mut outcome = [0; 7];
        let output = server.process.stdout.as_mut().unwrap();
        output.read_exact(&mut outcome).unwrap();
        if &outcome == b"killed\n" {
            return (server, client);
        }
        // On a busy machine, the child has waited long enough.
        assert_eq!(&outcome, b"it ran\n");
        drop(client);
        server.output();
    }
    panic!("no child was killed while it waited");
}

/// The child has nothing locked meanwhile that its parent needs when it goes on with the connection.
#[test]
fn a_child_of_vfork_that_is_killed_while_it_waits_for_a_client_leaves_the_connection() {
    let (server, mut client) = after_killed_child("vfork-killed");
    client.write_all(&proposal()).unwrap();
    is_declined(&client);
    client.write_all(b"octets").unwrap();
    is_echoed(&client, b"octets");
    assert_eq!(server.output(), "errno 0\n");
}

/// Nor does it keep the connection open.
#[test]
fn a_child_of_vfork_that_is_killed_while_it_waits_for_a_client_keeps_nothing_open() {
    let (server, mut client) = after_killed_child("vfork-killed-unused");
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.output(), "");
}

/// The policy takes the process itself to speak SMC over TCP, which it does not where it is at both
/// ends: each of them has to know.
#[test]
fn a_process_that_connects_to_itself_has_tcp_at_both_ends() {
    let mut server = Server::start("own");
    server.accept();
    assert_eq!(server.output(), "");
}
