//! The captures of Linux kernels: whatever is found in them is explained.

use std::path::Path;

use smc_capture::reader::CaptureReader;
use smc_checker::{Report, check_frames};

fn report(name: &str) -> Report {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/vectors");
    let capture = CaptureReader::open(vectors.join(name)).expect("a capture");
    check_frames(capture).expect("it can be read to its end")
}

/// Captures, and the deviations that are known of kernels in them.
const CAPTURES: [(&str, &[&str]); 6] = [
    ("linux612-v1-onelink.pcap.gz", &[]),
    // In frame 1352 the server aborts a connection that it had closed.
    ("linux612-v1-twolinks.pcap.gz", &["abort-at-the-end"; 2]),
    ("linux612-v2-onelink.pcap.gz", &[]),
    ("linux612-v2-twolinks.pcap.gz", &[]),
    ("linux612-v2-decline-ueid.pcap.gz", &[]),
    ("linux612-smcd-v2-loopback.pcap.gz", &[]),
];

#[test]
fn nothing_in_the_captures_of_kernels_is_unexplained() {
    for (name, known) in CAPTURES {
        let report = report(name);
        let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        let deviations = report
            .findings
            .iter()
            .map(|f| f.known.map_or("", |k| k.name));
        assert_eq!(
            deviations.collect::<Vec<_>>(),
            known,
            "{name}: {}",
            found.join("\n")
        );
        assert!(report.is_clean());
        assert!(report.unjudged.is_empty(), "{name}: {:?}", report.unjudged);
    }
}

#[test]
fn the_captures_of_kernels_are_checked_to_the_last_message() {
    let seen = report(CAPTURES[1].0).seen;
    let counts = (seen.smcr_connections, seen.groups, seen.clc, seen.llc);
    assert_eq!(counts, (9, 1, 27, 76));
    assert_eq!((seen.cdc, seen.writes, seen.strangers), (106, 75, 0));
    let seen = report(CAPTURES[5].0).seen;
    assert_eq!((seen.smcd_connections, seen.clc, seen.groups), (8, 24, 0));
}
