//! Calls `conformance::fuzz::solo::transport_completions`, which documents its checks.
#![no_main]

use conformance::fuzz::solo::transport_completions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| transport_completions(data));
