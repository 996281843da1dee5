//! Calls `conformance::fuzz::wire::cdc_ism`, which documents its checks.
#![no_main]

use conformance::fuzz::wire::cdc_ism;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cdc_ism(data));
