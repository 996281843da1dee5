//! Calls `conformance::fuzz::solo::handshake_ops`, which documents its checks.
#![no_main]

use conformance::fuzz::solo::handshake_ops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| handshake_ops(data));
