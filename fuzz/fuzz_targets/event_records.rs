//! Calls `conformance::fuzz::events::event_records`, which documents its checks.
#![no_main]

use conformance::fuzz::events::event_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| event_records(data));
