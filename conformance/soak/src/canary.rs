//! A thread that notices when its process gets no CPU.

use std::thread;
use std::time::Duration;

use crate::report::{Moment, Report};

const SLEEP: Duration = Duration::from_millis(5);

/// Microseconds beyond the sleep that are reported.
const LATE: u64 = 20_000;

/// Reports from now on when threads of this process are late.
pub(crate) fn start() {
    thread::spawn(|| {
        let mut from = Moment::now();
        loop {
            thread::sleep(SLEEP);
            let to = Moment::now();
            if to.micros_since(from) > LATE + SLEEP.as_micros() as u64 {
                Report::Starved { from, to }.send();
            }
            from = to;
        }
    });
}
