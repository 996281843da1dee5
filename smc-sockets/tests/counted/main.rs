//! Tests that count what their process holds (descriptors, mappings, threads, connections), or whose
//! limits of time leave no room for other load: each in a process of its own, one after another.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod kills;
mod listed;
mod reuse;
mod rnics;
mod stacks;
mod thousands;
mod views;

/// Is [`common::alone::alone`], one test at a time.
#[must_use]
fn alone<Test: Fn()>(test: &Test) -> bool {
    use std::sync::{Mutex, PoisonError};
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    common::alone::alone_within(0, test)
}

#[test]
#[should_panic(expected = "0 passed")]
fn a_process_that_runs_no_test_is_a_failure() {
    let _ = alone(&|| ());
}

#[test]
#[should_panic(expected = "the reason of the failure")]
fn a_failure_in_a_process_of_its_own_is_shown() {
    if alone(&a_failure_in_a_process_of_its_own_is_shown) {
        // A panic would be the success of that process.
        eprintln!("the reason of the failure");
        std::process::exit(1);
    }
}
