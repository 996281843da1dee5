//! The policy in the documents says what it says it does.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use smc_sockets::Policy;

fn document(name: &str) -> String {
    let at = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    std::fs::read_to_string(at).unwrap()
}

#[test]
fn the_example_has_every_default() {
    let policy = Policy::parse(&document("policy.toml")).unwrap();
    assert_eq!(policy, Policy::default());
}

/// With the examples taken for values.
#[test]
fn what_the_example_leaves_out_can_be_said() {
    let mut text = String::new();
    for line in document("policy.toml").lines() {
        let said = line
            .strip_prefix("# ")
            .filter(|rest| rest.contains(" = ") || rest.starts_with("[["));
        let line = said.unwrap_or(line);
        // A list is empty, or it has entries.
        match line {
            "pnet = []" | "assume-smc = []" => continue,
            _ => {}
        }
        let key = line.split_once(" = ").map(|(key, _)| key);
        let line = match (key, line.split_once("# e.g. ")) {
            (Some(key), Some((_, value))) => format!("{key} = {value}"),
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    let policy = Policy::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(policy.max_memory, Some(256 << 20));
    assert_eq!(policy.pairing_grace, Some(Duration::from_millis(20)));
    assert_eq!((policy.permit.len(), policy.exclude.len()), (2, 2));
    assert_eq!(
        (policy.pnet.entries().len(), policy.assume_smc.len()),
        (2, 1)
    );
    assert_eq!(policy.ueids.len(), 1);
    assert!(policy.system_eid.is_some());
    assert!(policy.listening(6005).is_ok() && policy.listening(7000).is_err());
    assert!(policy.assumes("10.1.0.9".parse().unwrap(), 5000));
}

/// Every key is in the table of the document, and every key of the table exists.
#[test]
fn the_document_describes_every_key() {
    let document = document("policy.md");
    let keys = document.split("## Keys").nth(1).unwrap();
    let table = keys.split("\n\n").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .filter_map(|row| row.split('|').nth(1));
    let named: Vec<_> = rows
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|key| key.split('.').next().unwrap().to_owned())
        .collect();
    let error = Policy::parse("no-such-key = 1").unwrap_err().to_string();
    let known = error.split("expected one of ").nth(1).unwrap();
    let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
    assert!(known.len() > 10);
    for key in &known {
        assert!(named.iter().any(|of| of == key), "{key} is not described");
    }
    for key in named {
        assert!(known.contains(&key.as_str()), "{key} does not exist");
    }
}
