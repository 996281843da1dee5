//! Calls `conformance::fuzz::wire::llc_v1`, which documents its checks.
#![no_main]

use conformance::fuzz::wire::llc_v1;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| llc_v1(data));
