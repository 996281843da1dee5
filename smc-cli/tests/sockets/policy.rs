//! `smcx policy check`.
#![cfg(target_os = "linux")]

use std::path::Path;

use crate::common::{scratch, smcx};
use serde_json::Value;

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
