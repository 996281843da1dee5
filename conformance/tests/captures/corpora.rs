//! The corpora of the fuzz targets, and some random inputs, on stable Rust.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use conformance::fuzz::{TARGETS, Target};

/// Random inputs for each body.
const RANDOM_INPUTS: u32 = 2_000;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(name)
}

fn run(target: &Target, data: &[u8], what: &str) {
    let Target { name, body, .. } = target;
    if catch_unwind(AssertUnwindSafe(|| body(data))).is_err() {
        panic!("{name}: {what}: {data:02x?}");
    }
}

#[test]
fn every_corpus_replays() {
    let mut total = 0;
    for target in TARGETS {
        let directory = corpus(target.name);
        let entries = fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", directory.display());
        for file in &files {
            run(
                target,
                &fs::read(file).unwrap(),
                &file.display().to_string(),
            );
        }
        println!("{}: {} inputs", target.name, files.len());
        total += files.len();
    }
    println!("{total} inputs in {} corpora", TARGETS.len());
}

#[test]
fn every_target_has_a_binary() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    for Target { name, .. } in TARGETS {
        let source = manifest.join(format!("fuzz_targets/{name}.rs"));
        let source = fs::read_to_string(&source).unwrap();
        assert!(source.contains(&format!("{name}(data)")), "{name}");
    }
    let targets = fs::read_dir(manifest.join("fuzz_targets")).unwrap().count();
    assert_eq!(targets, TARGETS.len());
}

#[test]
fn random_inputs_hold_the_properties() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        // xorshift64*, so that a failure is the same everywhere.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    for target in TARGETS {
        for number in 0..RANDOM_INPUTS {
            let length = next() as usize % 200;
            let mut data: Vec<u8> = (0..length).map(|_| (next() >> 56) as u8).collect();
            // Every other one begins as an LLC or CDC message does.
            if number % 2 == 0 && length >= 44 {
                data[1] = 44;
                data[0] = [1, 2, 3, 4, 6, 7, 8, 9, 0xfe][data[0] as usize % 9];
            }
            run(target, &data, &format!("random input {number}"));
        }
    }
}
