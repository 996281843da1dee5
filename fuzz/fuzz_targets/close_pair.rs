//! Calls `conformance::fuzz::conn_pair::close_pair`, which documents its checks.
#![no_main]

use conformance::fuzz::conn_pair::close_pair;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| close_pair(data));
