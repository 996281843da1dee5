//! Calls `conformance::fuzz::clc::clc_roundtrip`, which documents its checks.
#![no_main]

use conformance::fuzz::clc::clc_roundtrip;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| clc_roundtrip(data));
