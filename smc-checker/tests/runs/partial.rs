//! Captures that begin in the middle, lost frames, or are not what they seem.

use std::path::Path;

use smc_capture::reader::{CaptureReader, CapturedFrame};
use smc_checker::{Checker, Report};

fn frames(name: &str) -> Vec<CapturedFrame> {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/vectors");
    let capture = CaptureReader::open(vectors.join(name)).expect("a capture");
    capture.map(|frame| frame.expect("a frame")).collect()
}

const CAPTURES: [&str; 4] = [
    "linux612-v1-onelink.pcap.gz",
    "linux612-v1-twolinks.pcap.gz",
    "linux612-v2-onelink.pcap.gz",
    "linux612-v2-twolinks.pcap.gz",
];

fn judged<'a>(frames: impl Iterator<Item = &'a CapturedFrame>) -> Report {
    let mut checker = Checker::default();
    for frame in frames {
        checker.push(frame);
    }
    checker.finish()
}

fn violations(report: &Report) -> Vec<String> {
    let found = report.findings.iter().filter(|f| f.is_violation());
    found.map(ToString::to_string).collect()
}

#[test]
fn a_capture_that_begins_anywhere_has_no_findings() {
    let mut wrong = Vec::new();
    let mut strangers = 0;
    for name in CAPTURES {
        let frames = frames(name);
        for start in (0..frames.len()).step_by(97) {
            let report = judged(frames.iter().skip(start));
            strangers += report.seen.strangers;
            wrong.extend(
                violations(&report)
                    .into_iter()
                    .map(|f| format!("{name} from {start}: {f}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.join("\n"));
    assert!(strangers > 0, "nothing was left out");
}

#[test]
fn a_capture_that_lost_frames_has_no_findings() {
    let mut wrong = Vec::new();
    for name in CAPTURES {
        let frames = frames(name);
        for (step, phase) in [
            (2, 0),
            (3, 1),
            (5, 2),
            (11, 3),
            (23, 4),
            (23, 11),
            (101, 5),
            (101, 50),
        ] {
            let left = frames.iter().enumerate();
            let left = left
                .filter(|(place, _)| place % step != phase)
                .map(|(_, frame)| frame);
            let report = judged(left);
            wrong.extend(
                violations(&report)
                    .into_iter()
                    .map(|f| format!("{name} 1/{step}: {f}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{} {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bytes_of_any_kind_are_survived() {
    let mut state = 0x5eed_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    let mut found = 0;
    for name in CAPTURES {
        let frames = frames(name);
        for _ in 0..4 {
            let mut checker = Checker::default();
            for frame in &frames {
                let mut frame = frame.clone();
                for _ in 0..random() % 3 {
                    let place = random() % frame.bytes.len().max(1);
                    if let Some(byte) = frame.bytes.get_mut(place) {
                        *byte = random() as u8;
                    }
                }
                if random() % 50 == 0 {
                    frame.bytes.truncate(random() % 100);
                }
                checker.push(&frame);
                if random() % 20 == 0 {
                    checker.push(&frame);
                }
            }
            let report = checker.finish();
            found += report.findings.len();
            assert!(report.findings.len() <= 10_000);
        }
    }
    assert!(found > 0, "nothing was changed");
}
