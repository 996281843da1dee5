//! Events that a subscriber of the crate `tracing` gets.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use common::{listener, stack};
use smc_sockets::SmcStream;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Lines of all events: level, target, and each field.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line(format!("{} {}", metadata.level(), metadata.target()));
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Subscribes, once in the process.
fn subscribe() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| tracing::subscriber::set_global_default(Lines).unwrap());
}

/// The line that has all of these words, once there is one.
fn line_with(words: &[&str]) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let lines = LINES.lock().unwrap().clone();
        let mut found = lines
            .iter()
            .filter(|line| words.iter().all(|word| line.contains(word)));
        if let Some(line) = found.next() {
            return line.clone();
        }
        assert!(Instant::now() < end, "none with {words:?} in {lines:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn said_of(local: SocketAddr, peer: SocketAddr) -> String {
    let (local, peer) = (format!("local={local} "), format!("peer={peer} "));
    line_with(&["INFO smc_sockets ", &local, &peer])
}

#[test]
fn a_first_contact_is_seen_by_both_sides() {
    subscribe();
    let (listener, address) = listener();
    let client = SmcStream::connect_on(&stack(), address).unwrap();
    let (_server, from) = listener.accept().unwrap();
    assert!(client.carrier().is_smc());
    for (local, peer, role) in [(from, address, "client"), (address, from, "server")] {
        let line = said_of(local, peer);
        assert!(line.contains("connection over SMC"), "{line}");
        assert!(line.contains(&format!("role=\"{role}\"")), "{line}");
        assert!(line.contains("technology=SMC-D"), "{line}");
    }
    for words in [
        ["DEBUG", "clc:sent message=proposal", "subject=conn"],
        ["DEBUG", "clc:received message=confirm", "subject=conn"],
        [
            "DEBUG",
            "first_contact=yes",
            "kind=\"rendezvous:established\"",
        ],
        ["TRACE", "buffer:created", "subject=buffer"],
    ] {
        line_with(&["smc_sockets::engine", words[0], words[1], words[2]]);
    }
}

#[test]
fn a_fallback_is_seen_with_its_reason() {
    subscribe();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = SmcStream::connect_on(&stack(), address).unwrap();
    let line = said_of(client.local_addr().unwrap(), address);
    assert!(line.contains("connection over TCP"), "{line}");
    assert!(line.contains(&format!("code={}", 0x0301_0000)), "{line}");
    assert!(
        line.contains("reason=0x03010000 (peer does not speak SMC)"),
        "{line}"
    );
}
