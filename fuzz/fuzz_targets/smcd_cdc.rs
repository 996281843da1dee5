//! Calls `conformance::fuzz::smcd_cdc::smcd_cdc`, which documents its checks.
#![no_main]

use conformance::fuzz::smcd_cdc::smcd_cdc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| smcd_cdc(data));
