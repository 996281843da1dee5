//! Calls `conformance::fuzz::wire::cdc_any`, which documents its checks.
#![no_main]

use conformance::fuzz::wire::cdc_any;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cdc_any(data));
