//! Calls `conformance::fuzz::pair::handshake_pair`, which says what it checks.
#![no_main]

use conformance::fuzz::pair::handshake_pair;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| handshake_pair(data));
