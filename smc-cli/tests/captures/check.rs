//! `smcx check`: findings, notes, JSON, and the exit status.

use crate::common;

use std::fs;
use std::path::Path;

use common::{CAPTURES, smcx, vector};
use serde_json::Value;

/// A capture of kernels with some bytes of a frame changed.
fn changed(name: &str, needle: &[u8], octets: &[u8]) -> std::path::PathBuf {
    use std::io::Read as _;
    let mut capture = Vec::new();
    let file = fs::File::open(vector(CAPTURES[0])).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut capture)
        .unwrap();
    let place = capture
        .windows(needle.len())
        .position(|w| w == needle)
        .unwrap();
    capture[place..place + octets.len()].copy_from_slice(octets);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, capture).unwrap();
    path
}

/// The first CDC message of a side: type, length, number 1.
const FIRST_CDC: &[u8] = &[0xfe, 44, 0, 1];

#[test]
fn what_kernels_do_is_no_finding_but_may_be_a_note() {
    let output = smcx(["check", vector(CAPTURES[0]).to_str().unwrap()]);
    assert_eq!(output.status, 0, "{}{}", output.stdout, output.stderr);
    assert!(
        output.stdout.contains("140 CDC messages"),
        "{}",
        output.stdout
    );
    assert!(
        output.stdout.contains("0 findings, 0 notes"),
        "{}",
        output.stdout
    );
    let output = smcx(["check", vector(CAPTURES[1]).to_str().unwrap()]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(
        output.stdout.contains("note: frame 1352: CLOSE-029"),
        "{}",
        output.stdout
    );
    assert!(
        output.stdout.contains("0 findings, 2 notes"),
        "{}",
        output.stdout
    );
}

#[test]
fn a_finding_has_its_frame_and_requirement_and_fails_the_command() {
    let path = changed("check-sequence.pcap", FIRST_CDC, &[0xfe, 44, 0, 9]);
    let output = smcx(["check", path.to_str().unwrap()]);
    assert_eq!(output.status, 1);
    let finding = "CDC-006 (cdc-first): the first CDC message of the client has number 9";
    assert!(output.stdout.contains(finding), "{}", output.stdout);
    assert!(output.stderr.contains("finding"), "{}", output.stderr);

    let output = smcx(["check", "--json", path.to_str().unwrap()]);
    assert_eq!(output.status, 1);
    let lines: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["id"], "CDC-006");
    assert_eq!(lines[0]["rule"], "cdc-first");
    assert!(lines[0]["frame"].as_u64().unwrap() > 0);
    assert_eq!(lines[0]["known"], Value::Null);
    let summary = &lines.last().unwrap()["summary"];
    assert_eq!(
        summary["findings"].as_u64().unwrap(),
        lines.len() as u64 - 1
    );
    assert_eq!(summary["cdc"], 140);
}

#[test]
fn a_file_that_cannot_be_read_is_neither_good_nor_bad() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-none.pcap");
    fs::write(&path, b"no capture").unwrap();
    let output = smcx(["check", path.to_str().unwrap()]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("not a pcap"), "{}", output.stderr);
    assert_eq!(smcx(["check", "/nowhere/at/all"]).status, 2);
    assert_eq!(smcx(["check"]).status, 2);
}

#[test]
fn the_document_has_the_rules_that_there_are() {
    let output = smcx(["check", "--rules"]);
    assert_eq!(output.status, 0);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/checker.md");
    let document = fs::read_to_string(path).unwrap();
    assert!(
        document.contains(&output.stdout),
        "docs/checker.md is out of date: its tables are those of `smcx check --rules`"
    );
}
