//! Calls `conformance::fuzz::solo::transport_completions`, which says what it checks.
#![no_main]

use conformance::fuzz::solo::transport_completions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| transport_completions(data));
