//! Calls `conformance::fuzz::stream::clc_stream`, which says what it checks.
#![no_main]

use conformance::fuzz::stream::clc_stream;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| clc_stream(data));
