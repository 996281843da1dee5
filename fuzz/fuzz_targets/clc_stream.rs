//! Calls `conformance::fuzz::stream::clc_stream`, which documents its checks.
#![no_main]

use conformance::fuzz::stream::clc_stream;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| clc_stream(data));
