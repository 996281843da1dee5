//! Sockets of another machine are used as those of this one.
#![cfg(target_os = "linux")]

use std::io::{self, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use conformance::scripts::{self, AppAct, Outcome, RnicAct};
use smc_live::{Abilities, OurSockets, Remote, Sockets, serve, tried};

/// Scripts of both roles: bytes and urgent ones, both ends, a fallback, and an end without a cause.
const SCRIPTS: [&str; 6] = [
    "cdc/ping_pong",
    "cdc/urgent_received",
    "cdc/urgent_sent",
    "clc/accept_declined_by_peer_codes",
    "close/both_half_close",
    "close/peer_aborts_after_close",
];

const ABILITIES: Abilities = Abilities {
    rnic: |_| false,
    app: |act| *act != AppAct::Abort,
    takes: OurSockets::takes,
    rnics: 1,
    longest: Duration::from_secs(5),
};

/// Sockets that are served by a thread of their own.
fn remote(mut sockets: OurSockets) -> io::Result<Remote> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let calls = TcpStream::connect(listener.local_addr()?)?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    thread::spawn(move || {
        let mut answers = stream.try_clone().expect("a descriptor");
        serve(&mut sockets, &mut BufReader::new(stream), &mut answers)
    });
    Remote::new(&calls)
}

fn play(name: &str) -> Outcome {
    let path = scripts::folder().join(format!("{name}.smc"));
    let played = tried(name, &path, &ABILITIES, |script, patient| {
        let bench = OurSockets::live_by(script, remote)?;
        Ok(match patient {
            true => bench.with_pause(Duration::from_millis(300)),
            false => bench,
        })
    });
    played.replayed_by("cargo test -p smc-live --test remote".to_owned())
}

#[test]
fn scripts_are_played_on_sockets_of_another_machine() {
    for name in SCRIPTS {
        let outcome = play(name);
        if let Some(problem) = &outcome.problem {
            panic!("{name}\n{problem}");
        }
        assert_eq!(outcome.skipped, None, "{name}");
    }
}

#[test]
fn what_the_other_machine_cannot_do_is_reported_and_not_played() {
    let outcome = play("close/application_aborts");
    let why = outcome.skipped.expect("a reason");
    assert!(why.contains("such orders"), "{why}");
    let path = scripts::folder().join("cdc/ping_pong.smc");
    let script = scripts::script("cdc/ping_pong", &path).expect("a script");
    let mut answers = None;
    let bench = OurSockets::live_by(&script, |sockets| {
        let mut remote = remote(sockets)?;
        let act = RnicAct::Down(1);
        answers = Some((remote.rnic(&act, None), remote.write(1, b"x", false)));
        Ok(remote)
    });
    bench.expect("a bench");
    let (rnic, write) = answers.expect("answers");
    assert!(rnic.is_err());
    let write = write.expect_err("there is no connection");
    assert_eq!(write.to_string(), "the application has no stream");
}
