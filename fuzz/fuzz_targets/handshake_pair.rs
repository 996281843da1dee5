//! Calls `conformance::fuzz::pair::handshake_pair`, which documents its checks.
#![no_main]

use conformance::fuzz::pair::handshake_pair;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| handshake_pair(data));
