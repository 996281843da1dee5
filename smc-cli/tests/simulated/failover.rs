//! `smcx demo` with several RNICs and links that die on the way.

use crate::common;

use std::fs;

use common::{Outcome, records, scratch, smcx};
use serde_json::Value;

fn demo(arguments: &[&str]) -> Outcome {
    smcx([&["demo"], arguments].concat())
}

fn json(arguments: &[&str]) -> (u8, Value) {
    let outcome = demo(&[&["--json"], arguments].concat());
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stderr);
    (
        outcome.status,
        serde_json::from_str(&outcome.stdout).unwrap(),
    )
}

/// Searches for words in this order.
fn expect(text: &str, words: &[&str]) {
    let mut rest = text;
    for words in words {
        let found = rest.find(words);
        let found = found.unwrap_or_else(|| panic!("{words} is missing in\n{rest}"));
        rest = &rest[found + words.len()..];
    }
}

fn texts<'a>(links: &'a Value, field: &str) -> Vec<&'a str> {
    let links = links.as_array().unwrap().iter();
    links.map(|link| link[field].as_str().unwrap()).collect()
}

#[test]
fn every_octet_arrives_though_links_die() {
    for seed in 1..=6 {
        let seed = seed.to_string();
        for rnics in ["2", "3", "8"] {
            for length in ["0", "1", "70k", "3m"] {
                let arguments = ["--bytes", length, "--seed", &seed, "--rnics", rnics];
                let trouble = ["--kill-link", "30,60", "--revive", "45"];
                let (status, record) = json(&[&arguments[..], &trouble].concat());
                assert_eq!(status, 0, "{seed} {rnics} {length} {record}");
                assert_eq!(record["sha256_ok"], true);
                assert_eq!(record["error"], Value::Null);
                assert_eq!(record["failovers"], 4, "{record}");
                let states = texts(&record["links"], "state");
                let died = states.iter().filter(|state| **state == "died").count();
                assert_eq!(died, 2, "{record}");
            }
        }
    }
}

#[test]
fn links_of_version_2_die_and_come_back_as_well() {
    for (rnics, length) in [("1", "70k"), ("2", "3m"), ("3", "3m")] {
        let arguments = ["--bytes", length, "--rnics", rnics, "--smc-version", "2"];
        let trouble: &[_] = match rnics {
            "1" => &[],
            _ => &["--kill-link", "30,60", "--revive", "45"],
        };
        let (status, record) = json(&[&arguments[..], trouble].concat());
        assert_eq!(status, 0, "{rnics} {length} {record}");
        assert_eq!(record["sha256_ok"], true);
        assert_eq!(record["smc_version"], "2");
        let moved = if rnics == "1" { 0 } else { 4 };
        assert_eq!(record["failovers"], moved, "{record}");
    }
    let outcome = demo(&["--bytes", "70k", "--rnics", "2", "--smc-version", "2"]);
    expect(
        &outcome.stdout,
        &[
            "over SMC-Rv2",
            "CLC Proposal: SMC-Rv2, GID 10.0.0.1, 1 EID",
            "LLC CONFIRM LINK request",
            "LLC ADD LINK request: link 2, GID 10.0.0.12, QP",
            // The keys of RMBs may be cut off.
            "MTU 4096, 1 RMB",
            "LLC ADD LINK reply: link 2",
            "LLC CONFIRM LINK request: link 2",
        ],
    );
}

#[test]
fn the_ladder_shows_the_failover() {
    let arguments = ["--bytes", "4m", "--rnics", "2", "--kill-link", "30,60"];
    let outcome = demo(&[&arguments[..], &["--revive", "45"]].concat());
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let text = outcome.stdout.as_str();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    expect(
        text,
        &[
            "2 RNICs in each host; a link dies at 30%, 60%; ports come back at 45%",
            "virtual ms link client 10.0.0.1",
            "  1 │◀─ LLC CONFIRM LINK request: link 1",
            "  1 │◀─ LLC ADD LINK request: link 2, GID 10.0.0.12",
            "  1 ├── LLC ADD LINK reply: link 2, GID 10.0.0.11",
            "  1 │◀─ LLC ADD LINK CONTINUATION request: link 2, 1 RMB key",
            "  1 ├── LLC ADD LINK CONTINUATION reply: link 2, 1 RMB key",
            "  2 │◀─ LLC CONFIRM LINK request: link 2",
            "  2 ├── LLC CONFIRM LINK reply: link 2",
            "  2 ├┄┄ ✓ link 2 is up: RNIC 2 of the client, RNIC 2 of the server",
            "  1 ├── RDMA WRITE 65,536 bytes",
            "  1 ├┄┄ ✗ link 1 dies: the port of the ",
            "LLC DELETE LINK request: link 1, 0x00010000 (lost path)",
            "connection moves from link 1 to link 2",
            ", failover",
            "├┄┄ ✓ all ports are up again",
            "LLC ADD LINK request: link 4",
            "├┄┄ ✓ link 4 is up: RNIC 1 of the client, RNIC 1 of the server",
            "  2 ├┄┄ ✗ link 2 dies: its queue pair at the ",
            "connection moves from link 2 to link 4",
            ", failover",
            "LLC DELETE LINK request: all links",
            "✓",
            "2 of the client, 2 of the server",
            "│ 1    ┆ RNIC 1 ┆ RNIC 1 ┆",
            "died, ",
            ": port down",
            "│ 2    ┆ RNIC 2 ┆ RNIC 2 ┆",
            ": queue pair failed",
            "│ 4    ┆ RNIC 1 ┆ RNIC 1 ┆",
            "active",
        ],
    );
    // Nothing of this is there with one RNIC and without trouble.
    let plain = demo(&["--bytes", "4m"]).stdout;
    assert!(!plain.contains("┄") && !plain.contains("Failovers") && !plain.contains("RNIC 1"));
}

#[test]
fn as_many_links_as_rnics() {
    for rnics in 1..=8_u64 {
        let rnics_text = rnics.to_string();
        let (status, record) = json(&["--bytes", "32m", "--rnics", &rnics_text]);
        assert_eq!((status, &record["failovers"]), (0, &0.into()));
        let links = record["links"].as_array().unwrap();
        assert_eq!(links.len() as u64, rnics, "{record}");
        for (place, link) in (1..).zip(links) {
            assert_eq!(link["number"], place);
            assert_eq!(
                (&link["client_rnic"], &link["server_rnic"]),
                (&place.into(), &place.into())
            );
            let last = 10 * (place - 1) + 1;
            assert_eq!(link["client_gid"], format!("10.0.0.{last}"));
            assert_eq!(link["server_gid"], format!("10.0.0.{}", last + 1));
            assert_eq!(
                (&link["state"], &link["asymmetric"]),
                (&"active".into(), &false.into())
            );
            assert!(link["up_at"].as_f64().unwrap() > 0.0);
            assert_eq!(link["died_at"], Value::Null);
        }
    }
}

#[test]
fn json_reports_how_links_died() {
    let arguments = ["--bytes", "4m", "--rnics", "4", "--kill-link", "20,40,60"];
    let (status, record) = json(&[&arguments[..], &["--revive", "50"]].concat());
    assert_eq!((status, &record["failovers"]), (0, &6.into()), "{record}");
    let links = record["links"].as_array().unwrap();
    let mut dead: Vec<_> = links
        .iter()
        .filter(|link| link["state"] == "died")
        .collect();
    let died_at = |link: &Value| link["died_at"].as_f64().unwrap();
    dead.sort_by(|one, other| died_at(one).total_cmp(&died_at(other)));
    let causes: Vec<_> = dead
        .iter()
        .map(|link| link["died_of"].as_str().unwrap())
        .collect();
    // In turn, and a port first if ports are to come back.
    for (cause, kind) in causes
        .iter()
        .zip(["port down", "queue pair failed", "port down"])
    {
        let (end, how) = cause.split_once(": ").unwrap();
        assert!(
            ["client", "server"].contains(&end) && how == kind,
            "{causes:?}"
        );
    }
    assert_eq!(causes.len(), 3);
    assert!(
        links.iter().any(|link| link["number"].as_u64() > Some(4)),
        "{record}"
    );
    assert!(died_at(dead[0]) > 0.005);
}

#[test]
fn without_a_link_the_transfer_ends() {
    let last = "smcx: the transfer ended with ";
    for arguments in [
        &["--rnics", "1", "--kill-link", "50"][..],
        &["--rnics", "1", "--kill-link", "50", "--seed", "3"],
        &["--rnics", "1", "--kill-link", "10,20", "--revive", "15"],
        &["--rnics", "2", "--kill-link", "10,20,30,40,50,60,70,80,90"],
    ] {
        let outcome = demo(&[&["--bytes", "2m"], arguments].concat());
        assert_eq!(outcome.status, 1, "{arguments:?}");
        assert!(outcome.stderr.starts_with(last), "{}", outcome.stderr);
        let reason = " of 2 MiB back: no link to the peer is left\n";
        assert!(outcome.stderr.ends_with(reason), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1);
        expect(
            &outcome.stdout,
            &[
                "├┄┄ ✗ link 1 dies",
                "connection ends: no link to the peer is left",
                "connection ends: ",
                "✗ not everything came back",
            ],
        );
        let quiet = demo(&[&["--bytes", "2m", "--quiet"], arguments].concat());
        assert_eq!((quiet.status, quiet.stdout.as_str()), (1, ""));
        let (status, record) = json(&[&["--bytes", "2m"], arguments].concat());
        assert_eq!((status, &record["sha256_ok"]), (1, &false.into()));
        let error = record["error"].as_str().unwrap();
        assert!(error.ends_with("no link to the peer is left"), "{error}");
        assert!(record["back"].as_u64() < Some(2 << 20));
    }
}

#[test]
fn a_seed_decides_what_dies() {
    let folder = scratch("failover-seed");
    let run = |name: &str, seed: &str| {
        let capture = folder.join(name);
        let arguments = ["--bytes", "1m", "--rnics", "3", "--kill-link", "30,60"];
        let more = ["--seed", seed, "--pcap", capture.to_str().unwrap()];
        let (status, record) = json(&[&arguments[..], &more].concat());
        assert_eq!(status, 0);
        (fs::read(capture).unwrap(), record["links"].clone())
    };
    assert_eq!(run("first", "7"), run("second", "7"));
    let outcomes: Vec<_> = (1..9)
        .map(|seed| texts_or_null(&run("other", &seed.to_string()).1))
        .collect();
    assert!(
        outcomes.iter().any(|outcome| *outcome != outcomes[0]),
        "{outcomes:?}"
    );
}

fn texts_or_null(links: &Value) -> Vec<Value> {
    let links = links.as_array().unwrap().iter();
    links.map(|link| link["died_of"].clone()).collect()
}

#[test]
fn decode_finds_the_failover_in_the_capture() {
    let capture = scratch("failover-decode").join("demo.pcapng");
    let arguments = ["--bytes", "2m", "--rnics", "2", "--kill-link", "50"];
    let more = ["--revive", "70", "--pcap", capture.to_str().unwrap()];
    let (status, record) = json(&[&arguments[..], &more].concat());
    assert_eq!(status, 0);
    let found = records(&capture);
    for (name, accepted) in record["messages"].as_object().unwrap() {
        let others = record["not_accepted_messages"][name].as_u64().unwrap();
        let seen = found
            .iter()
            .filter(|record| record["type"] == *name)
            .count() as u64;
        assert_eq!(seen, accepted.as_u64().unwrap() + others, "{name}");
    }
    let validations = found
        .iter()
        .filter(|record| record["type"] == "Cdc" && record["failover_validation"] == true);
    assert_eq!(record["failovers"], validations.count());
}

#[test]
fn bad_arguments_get_one_clear_sentence() {
    for (wrong, sentence) in [
        (&["--rnics", "0"][..], "a host of the demo has 1 to 8 RNICs"),
        (&["--rnics", "9"], "a host of the demo has 1 to 8 RNICs"),
        (&["--rnics", "two"], "a host of the demo has 1 to 8 RNICs"),
        (&["--kill-link", "0"], "a percentage from 1 to 99 is wanted"),
        (
            &["--kill-link", "100"],
            "a percentage from 1 to 99 is wanted",
        ),
        (
            &["--kill-link", "30,"],
            "a percentage from 1 to 99 is wanted",
        ),
        (
            &["--kill-link", "+3"],
            "a percentage from 1 to 99 is wanted",
        ),
        (
            &["--kill-link", "60,30"],
            "each percentage must be greater than the one before",
        ),
        (
            &["--kill-link", "30,30"],
            "each percentage must be greater than the one before",
        ),
        (
            &["--kill-link", "30", "--revive", "x"],
            "a percentage from 1 to 99 is wanted",
        ),
        (&["--revive", "50"], "--kill-link <PCT[,PCT...]>"),
        (
            &["--kill-link", "30", "--revive", "30"],
            "--revive 30 comes too early: nothing is dead before 30 percent",
        ),
    ] {
        let outcome = demo(wrong);
        assert_eq!(
            (outcome.status, outcome.stdout.as_str()),
            (2, ""),
            "{wrong:?}"
        );
        assert!(outcome.stderr.contains(sentence), "{}", outcome.stderr);
    }
    // What has no length has no percentages.
    let outcome = demo(&["--file", "/dev/null", "--kill-link", "50"]);
    assert_eq!(outcome.status, 1);
    let sentence =
        "smcx: /dev/null: its length is unknown, so no percentage of it is known either\n";
    assert_eq!(outcome.stderr, sentence);
    let help = demo(&["--help"]).stdout;
    expect(
        &help,
        &[
            "--rnics",
            "--kill-link",
            "--revive",
            "Examples:",
            "--kill-link 30,60",
        ],
    );
}
