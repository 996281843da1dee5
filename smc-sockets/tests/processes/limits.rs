//! Limits of the process: what does not fit is TCP, with its reason, and nothing worse. The
//! limited process is this test program once more, in the role of [`child`].

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use smc_sockets::{Carrier, Cause, Limit, Settings, SmcListener, SmcStream, Stack};

const ROLE: &str = "SMC_SOCKETS_LIMITS_ROLE";

/// Bytes that `ulimit -f 100` permits.
const FILE: u64 = 100 << 10;

/// The limited process; does nothing in the test run itself.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.as_str() {
        "from-the-beginning" => from_the_beginning(),
        "later" => later(),
        "small-buffers" => small_buffers(),
        _ => panic!("{role}"),
    }
    println!("\nlives");
    std::process::exit(0);
}

#[track_caller]
fn lives(role: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["limits::child", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env("SMC_POLICY", "");
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let lived = output.stdout.ends_with(b"\nlives\n");
    assert!(lived && output.status.success(), "{output:?}");
}

fn limit_files() {
    let limit = Rlimit {
        current: Some(FILE),
        maximum: None,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

/// A listener, and a stack that can connect to it: a stack does not pair with itself.
fn ends(settings: &Settings) -> (SmcListener, Stack) {
    let [server, client] = [(); 2].map(|()| Stack::with(settings.clone()).unwrap());
    (
        SmcListener::bind_on(&server, "127.0.0.1:0").unwrap(),
        client,
    )
}

/// What carries a new connection, at the client and at the server; bytes cross it.
fn carriers(listener: &SmcListener, client: &Stack) -> [Carrier; 2] {
    let to = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept().unwrap().0);
        let mut near = SmcStream::connect_on(client, to).unwrap();
        let mut far = accepted.join().unwrap();
        near.write_all(b"over whatever").unwrap();
        let mut bytes = [0; 13];
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"over whatever");
        [*near.carrier(), *far.carrier()]
    })
}

#[track_caller]
fn cause(carrier: &Carrier) -> Cause {
    match carrier {
        Carrier::Tcp(why) => why.cause(),
        _ => panic!("{carrier}"),
    }
}

fn from_the_beginning() {
    limit_files();
    let (listener, client) = ends(&Settings::default());
    let why = client.shared_memory().unwrap_err();
    assert_eq!(why.cause(), Cause::Limit(Limit::FileSize(FILE)));
    let carriers = carriers(&listener, &client);
    for carrier in &carriers {
        assert_eq!(cause(carrier), Cause::Limit(Limit::FileSize(FILE)));
        assert!(carrier.to_string().contains("RLIMIT_FSIZE"), "{carrier}");
    }
}

fn later() {
    let (listener, client) = ends(&Settings::default());
    assert_eq!(client.shared_memory().map_err(|why| why.sentence()), Ok(()));
    for carrier in carriers(&listener, &client) {
        assert!(carrier.is_smc(), "{carrier}");
    }
    limit_files();
    // Longer than a tick of the coarse clock, for which a stack keeps the limit it has asked for.
    std::thread::sleep(Duration::from_millis(50));
    let [near, _] = carriers(&listener, &client);
    assert_eq!(cause(&near), Cause::Limit(Limit::FileSize(FILE)));
}

fn small_buffers() {
    limit_files();
    let mut settings = Settings::default();
    settings.buffer = Some(64 << 10);
    let (listener, client) = ends(&settings);
    for carrier in carriers(&listener, &client) {
        assert!(carrier.is_smc(), "{carrier}");
    }
}

//= SHM-050 test
#[test]
fn a_process_with_small_files_is_on_tcp_and_lives() {
    lives("from-the-beginning");
}

//= SHM-050 test
#[test]
fn a_limit_of_files_that_comes_later_concerns_later_connections() {
    lives("later");
}

//= SHM-050 test
#[test]
fn buffers_that_fit_a_limit_of_files_are_shared() {
    lives("small-buffers");
}
