//! Calls `conformance::fuzz::solo::linkgroup_ops`, which documents its checks.
#![no_main]

use conformance::fuzz::solo::linkgroup_ops;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| linkgroup_ops(data));
