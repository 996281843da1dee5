//! Calls `conformance::fuzz::llc_v2::llc_v2`, which documents its checks.
#![no_main]

use conformance::fuzz::llc_v2::llc_v2;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| llc_v2(data));
