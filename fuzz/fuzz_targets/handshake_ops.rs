//! Calls `conformance::fuzz::solo::handshake_ops`, which says what it checks.
#![no_main]

use conformance::fuzz::solo::handshake_ops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| handshake_ops(data));
