//! Calls `conformance::fuzz::clc::clc_any`, which documents its checks.
#![no_main]

use conformance::fuzz::clc::clc_any;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| clc_any(data));
