//! One connection; its link fails between every two steps of every write.
#![allow(clippy::print_stdout)]

use conformance::twolinks::Action::Write;
use conformance::twolinks::Failure;
use conformance::twolinks::explore::Scenario;

#[test]
fn first() {
    let scenario = Scenario::new("plain", &[Write(100), Write(200)], &[]);
    let start = std::time::Instant::now();
    let count = scenario.explore(&Failure::ALL);
    println!("{count:?} {:?}", start.elapsed());
}
