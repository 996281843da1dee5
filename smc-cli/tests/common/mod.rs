//! What the tests share: running `smcx`, and running tshark.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The captures of kernels that the repository holds.
pub(crate) const CAPTURES: [&str; 2] = [
    "linux612-v1-onelink.pcap.gz",
    "linux612-v1-twolinks.pcap.gz",
];

/// The captures of version 2 and of SMC-D.
pub(crate) const CAPTURES_V2: [&str; 4] = [
    "linux612-v2-onelink.pcap.gz",
    "linux612-v2-twolinks.pcap.gz",
    "linux612-v2-decline-ueid.pcap.gz",
    "linux612-smcd-v2-loopback.pcap.gz",
];

/// What a run of `smcx` left.
pub(crate) struct Outcome {
    pub(crate) status: u8,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `smcx` in this process.
pub(crate) fn smcx<S: Into<OsString>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let arguments = core::iter::once("smcx".into()).chain(arguments.into_iter().map(Into::into));
    let status = smcx::run(arguments, &mut stdout, &mut stderr);
    Outcome {
        status,
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// A capture of the repository.
pub(crate) fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../conformance/vectors")
        .join(name)
}

/// All items of a capture as JSON, repeated ones as well.
pub(crate) fn records(capture: &Path) -> Vec<Value> {
    let outcome = smcx([
        "decode".as_ref(),
        capture.as_os_str(),
        "--json".as_ref(),
        "--retransmissions".as_ref(),
    ]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let lines = outcome.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Whether tshark can be run. Without it a test is skipped, but not in CI.
pub(crate) fn have_tshark() -> bool {
    if Command::new("tshark").arg("--version").output().is_ok() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "tshark is missing: install the Debian or Ubuntu package \"tshark\" before the tests"
    );
    eprintln!("SKIPPED: tshark is not installed, nothing was compared with it");
    false
}

/// tshark, with the dissectors off that claim SMC's SENDs otherwise.
pub(crate) fn tshark(capture: &Path) -> Command {
    let mut command = Command::new("tshark");
    command.args(["--disable-protocol", "rpcordma"]);
    command.args(["--disable-heuristic", "eth_over_ib"]);
    command.arg("-r").arg(capture);
    command
}

/// The named fields of each frame that has any of them, as tshark sees them.
pub(crate) fn tshark_fields(
    capture: &Path,
    fields: &[&str],
) -> BTreeMap<u64, BTreeMap<String, Vec<String>>> {
    let mut command = tshark(capture);
    command.args(["-T", "fields", "-E", "separator=/t", "-E", "aggregator=;"]);
    command.args(["-e", "frame.number"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut frames = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut columns = line.split('\t');
        let number: u64 = columns.next().unwrap().parse().unwrap();
        let values: BTreeMap<String, Vec<String>> = fields
            .iter()
            .zip(columns)
            .filter(|(_, text)| !text.is_empty())
            .map(|(field, text)| {
                let values = text.split(';').map(normal).collect();
                ((*field).to_owned(), values)
            })
            .collect();
        if !values.is_empty() {
            frames.insert(number, values);
        }
    }
    frames
}

/// Numbers as decimals, however they were written; other text as it is.
pub(crate) fn normal(text: &str) -> String {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.map_or_else(|| text.to_owned(), |number| number.to_string())
}

/// A field of a record in the form of [`normal`].
pub(crate) fn field(record: &Value, name: &str) -> String {
    match &record[name] {
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::String(text) => normal(text),
        Value::Number(number) => number.to_string(),
        other => panic!("{name} is {other} in {record}"),
    }
}

/// An empty folder for one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
