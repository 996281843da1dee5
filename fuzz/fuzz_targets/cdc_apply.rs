//! Calls `conformance::fuzz::cdc_apply::cdc_apply`, which documents its checks.
#![no_main]

use conformance::fuzz::cdc_apply::cdc_apply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| cdc_apply(data));
