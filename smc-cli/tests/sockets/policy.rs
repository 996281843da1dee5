//! `smcx policy check` and `smcx policy learn`.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use crate::common::{scratch, smcx};
use serde_json::Value;
use smc_proto::wire::types::DiagnosisCode;
use smc_sockets::policy::Rule;
use smc_sockets::{Policy, SmcListener, SmcStream, Stack};
use smcx::policy::learn::proposal;
use smcx::policy::learn::seen::{End, Observed, Outcome, Seen, Threshold};

fn check(text: &str, name: &str, options: &[&str]) -> crate::common::Outcome {
    let file = scratch(name).join("policy.toml");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let fixed = ["policy".to_owned(), "check".to_owned(), file];
    smcx(
        fixed
            .into_iter()
            .chain(options.iter().map(|&of| of.to_owned())),
    )
}

#[test]
fn every_key_of_the_documented_policy_has_a_meaning() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policy.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let outcome = check(&text, "policy-documented", &["--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["notes"], serde_json::json!([]), "{report}");
    let lines = report["lines"].as_array().unwrap();
    for (number, line) in text.lines().enumerate() {
        let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let of = |line: &&Value| line["line"] == number + 1;
        let found = lines.iter().find(of);
        let found = found.unwrap_or_else(|| panic!("line {}: {line}", number + 1));
        let name = found["key"].as_str().unwrap();
        assert!(name == key || name == format!("shun.{key}"), "{found}");
        assert!(found["meaning"].as_str().unwrap().len() > 3, "{found}");
    }
}

#[test]
fn each_entry_of_a_list_says_what_it_does_at_its_line() {
    let text = "permit = [\n  \"10.0.0.0/8\",\n  \"fd00::/8\",\n]\nlisten-ports = []\n";
    let outcome = check(text, "policy-entries", &[]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for expected in [
        "    2  permit: 10.0.0.0/8: peers of it may be spoken SMC with\n",
        "    3  permit: fd00::/8: peers",
        "    5  listen-ports: no listener accepts SMC\n",
    ] {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
}

#[test]
fn a_mistake_is_named_with_its_line_and_has_status_1() {
    let text = "enabled = true\npermit = [\"10.0.0.1/8\"]\n";
    let outcome = check(text, "policy-mistake", &[]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
    let expected = "policy.toml: line 2: permit[0]: \"10.0.0.1/8\" has bits behind its prefix";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    let outcome = check(text, "policy-mistake", &["--json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["valid"], false);
}

#[test]
fn what_is_no_file_of_bounded_size_has_status_2_and_is_not_waited_for() {
    for path in ["/dev/zero", "/", "/nonexistent/policy.toml"] {
        let outcome = smcx(["policy", "check", path]);
        assert_eq!(outcome.status, 2, "{path}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(path), "{}", outcome.stderr);
    }
    let fifo = scratch("policy-fifo").join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let outcome = smcx(["policy".as_ref(), "check".as_ref(), fifo.as_os_str()]);
    assert_eq!(outcome.status, 2, "{}", outcome.stdout);
    let large = "#".repeat((1 << 20) + 1);
    assert_eq!(check(&large, "policy-large", &[]).status, 2);
}

const THRESHOLD: Threshold = Threshold {
    bytes: 1000,
    calls: 10,
};

/// Connections, each another one: whether here is the server, port, peer, outcome.
fn learnt(all: &[(bool, u16, &str, Outcome)]) -> Option<String> {
    let mut observed = Observed::default();
    let seen = all.iter().zip(1..).map(|(at, serial)| {
        let (is_server, port, peer, outcome) = *at;
        Seen {
            key: (1, 1, 1, serial),
            end: End {
                is_server,
                port,
                peer: peer.parse().unwrap(),
            },
            outcome,
        }
    });
    observed.add(&seen.collect::<Vec<_>>());
    proposal::of(&observed.ends(THRESHOLD), THRESHOLD)
}

/// The policy of a proposal, with which `policy check` finds nothing wrong.
fn sound(text: &str, name: &str) -> Policy {
    let outcome = check(text, name, &["--json"]);
    assert_eq!(outcome.status, 0, "{}\n{text}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["notes"], serde_json::json!([]), "{report}\n{text}");
    Policy::parse(text).unwrap()
}

#[test]
fn ports_and_peers_are_proposed_for_which_smc_pays() {
    let (large, small): (Outcome, Outcome) = (Ok((1000, 1)), Ok((999, 9)));
    let text = learnt(&[
        (true, 7000, "10.0.0.1", large),
        (true, 7000, "10.0.0.2", small),
        (true, 7001, "10.0.0.1", Ok((0, 10))),
        (true, 8080, "10.0.0.3", small),
        (true, 8080, "10.0.0.3", small),
        (true, 8080, "10.0.0.4", large),
        (false, 5432, "fd00::5", large),
        (false, 22, "10.0.0.6", Err(DiagnosisCode::PEER_NO_SMC)),
        (false, 23, "10.0.0.7", Err(DiagnosisCode::NO_UEID)),
        // It works at times.
        (
            false,
            5432,
            "fd00::5",
            Err(DiagnosisCode::TIMEOUT_CONFIRM_LINK),
        ),
    ]);
    let text = text.unwrap();
    for line in [
        "listen-ports = [\"7000-7001\"]\n",
        "connect-ports = [5432]\n",
        "permit = [\"10.0.0.1\", \"fd00::5\"]\n",
        "exclude = [\"10.0.0.7\"]\n",
        "# Seen: 7 connections over SMC, 3 that were TCP. ",
        "# from here to port 23 of 10.0.0.7: 1 TCP (0x03030008 NO_UEID)\n",
        "# 10.0.0.3 to port 8080 here: 2 over SMC, 0 of them paid, 2.0 KiB\n",
    ] {
        assert!(text.contains(line), "{text}\nlacks {line}");
    }
    let policy = sound(&text, "policy-learnt");
    let peer: IpAddr = Ipv4Addr::new(10, 0, 0, 1).into();
    assert_eq!(policy.accepting(7001, peer), Ok(()));
    assert_eq!(policy.accepting(8080, peer), Err(Rule::ListenPort(8080)));
}

#[test]
fn what_was_not_seen_is_left_as_by_default() {
    assert_eq!(learnt(&[]), None);
    assert_eq!(learnt(&[(true, 1, "10.0.0.1", Ok((1, 1)))]), None);
    let no_smc = Err(DiagnosisCode::PEER_NO_SMC);
    assert_eq!(learnt(&[(false, 1, "10.0.0.1", no_smc)]), None);
    let text = learnt(&[(true, 80, "10.0.0.1", Ok((1000, 0)))]).unwrap();
    let policy = sound(&text, "policy-learnt-part");
    assert_eq!(policy.connect_ports, Policy::default().connect_ports);
    assert_eq!(policy.exclude, []);
    assert_ne!(policy.listen_ports, Policy::default().listen_ports);
}

/// However many there are, the proposal is one that counts.
#[test]
fn many_peers_are_a_subnet_and_too_many_none() {
    let of = |peers: &[String]| {
        let all: Vec<_> = peers
            .iter()
            .map(|peer| (true, 80, peer.as_str(), Ok((1000, 0))))
            .collect();
        learnt(&all).unwrap()
    };
    let peers: Vec<_> = (1..=8).map(|at| format!("10.0.0.{at}")).collect();
    assert!(of(&peers[..7]).contains("permit = [\"10.0.0.1\", \"10.0.0.2\", "));
    let text = of(&peers);
    assert!(text.contains("permit = [\"10.0.0.0/24\"]\n"), "{text}");
    sound(&text, "policy-learnt-subnet");
    let v6: Vec<_> = (1..=8).map(|at| format!("fd00:0:0:7::{at}")).collect();
    let text = of(&v6);
    assert!(text.contains("permit = [\"fd00:0:0:7::/64\"]\n"), "{text}");
    sound(&text, "policy-learnt-v6");
    let peers: Vec<_> = (0..2000)
        .map(|at| format!("10.{}.{}.1", at / 200, at % 200))
        .collect();
    let text = of(&peers);
    assert!(
        text.contains("# permit (peers): 2000 entries are too many"),
        "{text}"
    );
    assert!(
        text.contains("# and 1900 more\n") && text.len() < 20_000,
        "{text}"
    );
    sound(&text, "policy-learnt-many");
}

#[test]
fn a_policy_is_learnt_of_what_runs() {
    let nothing = smcx(["policy", "learn", "--user", "4294967294"]);
    assert_eq!((nothing.status, nothing.stdout.as_str()), (1, ""));
    assert!(
        nothing.stderr.contains("nothing to propose"),
        "{}",
        nothing.stderr
    );
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = SmcListener::on(&Stack::open().unwrap(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = std::thread::spawn(move || {
        let mut accepted = listener.accept().unwrap().0;
        accepted.read_exact(&mut vec![0; 100_000]).unwrap();
        (accepted, listener)
    });
    let mut near = SmcStream::connect_on(&Stack::open().unwrap(), address).unwrap();
    assert!(near.carrier().is_smc(), "{}", near.carrier());
    near.write_all(&[1; 100_000]).unwrap();
    let (far, listener) = accepting.join().unwrap();
    // One without SMC has nothing in the way of the others.
    let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
    let plain = TcpStream::connect(address).unwrap();
    let accepted = accepting.join().unwrap();
    let outcome = smcx(["policy", "learn", "--for", "1"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let policy = sound(&outcome.stdout, "policy-learnt-live");
    assert_eq!(policy.connecting(address), Ok(()), "{}", outcome.stdout);
    assert_eq!(policy.accepting(address.port(), address.ip()), Ok(()));
    let seen = format!(
        "# from here to port {} of 127.0.0.1: 1 over SMC, 1 of them",
        address.port()
    );
    assert!(outcome.stdout.contains(&seen), "{}", outcome.stdout);
    drop((near, far, plain, accepted));
}

/// A terminal shows how far it is, and nothing else does.
#[test]
fn learning_shows_progress_on_a_terminal() {
    for progress in [true, false] {
        let screen = smcx::Screen {
            progress,
            ..smcx::Screen::default()
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let arguments = [
            "smcx",
            "policy",
            "learn",
            "--for",
            "1",
            "--user",
            "4294967294",
        ];
        let arguments = arguments.map(std::ffi::OsString::from);
        assert_eq!(
            smcx::run_on(&screen, arguments, &mut stdout, &mut stderr),
            1
        );
        let said = String::from_utf8(stderr).unwrap();
        let shown = said.starts_with("\r0 of 1 s, 0 connections seen")
            && said.contains("\r1 of 1 s, 0 connections seen\nsmcx: nothing to propose");
        assert_eq!(shown, progress, "{said:?}");
        assert_eq!(said.contains('\r'), progress, "{said:?}");
    }
}
