//! Two stacks in one process, which pair as two processes do, and bytes to send.
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each test target uses its part"
)]

pub(crate) mod alone;

pub(crate) mod children;

pub(crate) mod clc;

pub(crate) mod ends;

pub(crate) mod peer;

pub(crate) mod rnics;

pub(crate) mod scenarios;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};
use smc_sockets::{PairingTimeouts, Settings, SmcListener, SmcStream, Stack};
use smc_transport_ism::device::Gid128;
use smc_transport_ism::shared::pairing::{Call, Outcome};

/// A stack with long timeouts: tests run on busy machines.
pub(crate) fn stack() -> Stack {
    Stack::with(settings()).unwrap()
}

/// Settings of a stack with long timeouts.
pub(crate) fn settings() -> Settings {
    const LONG: Duration = Duration::from_secs(30);
    let mut settings = Settings::default();
    settings.pairing_timeouts = PairingTimeouts {
        accept: LONG,
        grace: LONG,
        go: LONG,
    };
    settings
}

/// A listener with a stack of its own.
pub(crate) fn listener() -> (SmcListener, SocketAddr) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A client that pairs, and sends nothing.
pub(crate) fn silent(to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let gid = Gid128 { gid: 1, ext: 2 };
    let call = Call::announce(&socket, to, gid, settings().pairing_timeouts).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let tcp = TcpStream::from(socket);
    let outcome = call.expect("a name").finish(&tcp, |_| true).unwrap();
    assert!(matches!(outcome, Outcome::Paired(_)));
    tcp
}

/// Both ends of an SMC connection.
pub(crate) fn pair() -> (SmcStream, SmcStream) {
    let (listener, address) = listener();
    let client = SmcStream::connect_on(&stack(), address).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        assert_eq!(end.carrier().to_string(), "SMC-D v2.1");
    }
    (client, server)
}

/// Bytes that look random, so that one at a wrong place differs.
pub(crate) fn octets(len: usize) -> Vec<u8> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    (0..len).map(|_| random.next() as u8).collect()
}

/// Numbers that look random, and are the same each time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Lets this process have as many descriptors as it may.
pub(crate) fn many_descriptors() {
    let which = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(which);
    limit.current = limit.maximum;
    rustix::process::setrlimit(which, limit).unwrap();
}

/// Open descriptors, mappings of DMBs and doorbells, and threads of this process.
pub(crate) fn possessions() -> (usize, usize, usize) {
    let count = |of: &str| std::fs::read_dir(of).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (
        count("/proc/self/fd"),
        maps.matches("smc-d").count(),
        count("/proc/self/task"),
    )
}

/// Whether it is so within a time.
pub(crate) fn settles(time: Duration, so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    so()
}
