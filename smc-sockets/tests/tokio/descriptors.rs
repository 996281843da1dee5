//! What `ulimit -n 1024` leaves room for: each connection over SMC-D has one descriptor, that
//! of its TCP connection. The limited processes are this test program once more, in the roles
//! of [`process`].

use crate::common::alone::alone;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use smc_sockets::tokio::{SmcListener, SmcStream};
use smc_sockets::{EventLoop, PairingTimeouts, Settings, Stack};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ROLE: &str = "SMC_SOCKETS_DESCRIPTORS_ROLE";
const ADDRESS: &str = "SMC_SOCKETS_DESCRIPTORS_ADDRESS";
const DESCRIPTORS: u64 = 1024;
const CONNECTIONS: usize = 1000;
/// Standard input, output and error.
const STANDARD: usize = 3;

/// A limited process; does nothing in the test run itself.
#[test]
fn process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // What the test run has inherited is not this program's; one lists them.
    let inherited = std::fs::read_dir("/proc/self/fd").unwrap().count() - STANDARD - 1;
    let most = Some(DESCRIPTORS + inherited as u64);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        match role.as_str() {
            "server" => serve().await,
            "client" => connect().await,
            "full" => fill(),
            _ => panic!("{role}"),
        }
    });
    std::process::exit(0);
}

fn stack() -> Stack {
    const LONG: Duration = Duration::from_secs(30);
    let mut settings = Settings::default();
    settings.pairing_timeouts = PairingTimeouts {
        accept: LONG,
        grace: LONG,
        go: LONG,
    };
    Stack::with(settings).unwrap()
}

/// Accepts when the only descriptors to be had are those of the events and of the view.
fn fill() {
    let kept = || {
        let open = open();
        let is_kept = |kind: &&String| {
            ["memfd:smc-view", "memfd:smc-trace"]
                .iter()
                .any(|of| kind.contains(of))
        };
        open.keys()
            .filter(is_kept)
            .map(|kind| open[kind])
            .sum::<usize>()
    };
    let listener = smc_sockets::SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::net::TcpStream::connect(address).unwrap();
    assert_eq!(kept(), 2);
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    // Before it is decided what carries the connection, a further one would lack a descriptor.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let (server, from) = loop {
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(from, client.local_addr().unwrap());
    files.pop();
    // The listener may have polled for another connection meanwhile, which takes a descriptor
    // before the kernel knows that there is none.
    assert!(kept() < 2, "the events made room");
    println!("\naccepted {}", server.carrier().is_smc());
}

async fn serve() {
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").await.unwrap();
    println!("\naddress {}", listener.local_addr().unwrap());
    loop {
        let (mut stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                drop(listener);
                panic!("{error}; open are {:?}", open());
            }
        };
        tokio::spawn(async move {
            let mut byte = [0; 1];
            while stream.read_exact(&mut byte).await.is_ok() {
                stream.write_all(&byte).await.unwrap();
            }
        });
    }
}

/// The open descriptors of this process, by kind.
fn open() -> BTreeMap<String, usize> {
    let mut open = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let link = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        let kind = link
            .to_string_lossy()
            .replace(|at: char| at.is_ascii_digit(), "");
        *open.entry(kind).or_default() += 1;
    }
    open
}

async fn connect() {
    let address = std::env::var(ADDRESS).unwrap();
    let stack = stack();
    let mut streams = Vec::new();
    for number in 0..CONNECTIONS {
        let stream = SmcStream::connect_on(&stack, &address).await.unwrap();
        assert!(stream.carrier().is_smc(), "{number}: {}", stream.carrier());
        streams.push(stream);
    }
    // Each waits at the same time as all others.
    for round in 0..3 {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[number as u8 ^ round]).await.unwrap();
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            assert_eq!(stream.read_u8().await.unwrap(), number as u8 ^ round);
        }
    }
    println!("\n{} connections", streams.len());
    // The server ends a connection some time after its peer has: both need descriptors at that time.
    streams.truncate(CONNECTIONS / 2);
    let mut pending = 0;
    for _ in 0..100 {
        pending += usize::from(connects_without_descriptors(&stack, &address).await);
    }
    assert!(pending > 0, "no task had to wait");
}

/// A task that connects to a server that was met waits in memory; whether it had to wait.
async fn connects_without_descriptors(stack: &Stack, address: &str) -> bool {
    let before = open();
    let mut connecting = pin!(SmcStream::connect_on(stack, address));
    let mut first = None;
    let stream = std::future::poll_fn(|context| {
        let polled = connecting.as_mut().poll(context);
        first.get_or_insert_with(|| (open(), polled.is_pending()));
        polled
    });
    assert!(stream.await.unwrap().carrier().is_smc());
    let (meanwhile, is_pending) = first.unwrap();
    for kind in [
        "anon_inode:[eventpoll]",
        "anon_inode:[timerfd]",
        "anon_inode:[eventfd]",
    ] {
        assert_eq!(meanwhile.get(kind), before.get(kind), "{kind}");
    }
    is_pending
}

fn limited(role: &str, address: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["descriptors::process", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env(ADDRESS, address)
        .env("SMC_POLICY", "")
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// A stream and its loop know each other: neither is kept by that.
#[test]
fn a_loop_that_ends_leaves_no_descriptor() {
    if !alone(&a_loop_that_ends_leaves_no_descriptor) {
        return;
    }
    let (server, client) = (stack(), stack());
    let listener = smc_sockets::SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = smc_sockets::SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(far.carrier().is_smc(), "{}", far.carrier());
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..100 {
        let mut events = EventLoop::new(&server).unwrap();
        events.register(&far, 0).unwrap();
        events.drive(&mut Vec::new()).unwrap();
    }
    // The stacks' own threads may open a few.
    assert!(descriptors() < before + 50, "{}", descriptors());
    drop((far, near));
}

/// The program's connections come before the view of its process.
#[test]
fn a_process_without_descriptors_gives_its_view_up() {
    let output = limited("full", "").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("accepted false"),
        "{text}"
    );
}

#[test]
fn a_thousand_connections_of_tokio_fit_into_1024_descriptors() {
    let mut server = limited("server", "");
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.strip_prefix("address ")?.to_owned()));
    let client = limited("client", &address.expect("the server listens"));
    let output = client.wait_with_output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1000 connections"),
        "{text}"
    );
}
