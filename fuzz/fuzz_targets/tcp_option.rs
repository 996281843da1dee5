//! Calls `conformance::fuzz::wire::tcp_option`, which documents its checks.
#![no_main]

use conformance::fuzz::wire::tcp_option;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tcp_option(data));
