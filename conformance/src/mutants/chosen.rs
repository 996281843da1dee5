//! Which change of many this run has. In a copy of the sources only: the engine itself
//! neither has `std` nor asks its environment.

extern crate std;

use self::std::env;
use self::std::ffi::OsString;
use self::std::fmt::Write as _;
use self::std::fs::OpenOptions;
use self::std::io::Write as _;
use self::std::string::String;
use self::std::sync::OnceLock;
use self::std::sync::atomic::{AtomicBool, Ordering};

/// More than any change's number.
const MOST: usize = 4096;

/// Number of the change that this run has; 0, which no change has, if none was chosen.
pub(crate) fn change() -> usize {
    static CHANGE: OnceLock<usize> = OnceLock::new();
    *CHANGE.get_or_init(|| {
        let change = env::var("SMC_CHANGE").ok();
        change.and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}

/// Whether a change is on. If the environment names a file, each change that is asked for is
/// noted there, once.
pub(crate) fn is(number: usize) -> bool {
    static NOTES: OnceLock<Option<OsString>> = OnceLock::new();
    if let Some(notes) = NOTES.get_or_init(|| env::var_os("SMC_REACHED")) {
        note(number, notes);
    }
    change() == number
}

/// Notes a number, unless the file cannot be opened just now. No descriptor stays open: tests
/// count them.
fn note(number: usize, notes: &OsString) {
    static NOTED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
    if NOTED[number].swap(true, Ordering::Relaxed) {
        return;
    }
    let mut line = String::new();
    let _ = writeln!(line, "{number}");
    let file = OpenOptions::new().append(true).open(notes);
    let noted = file.and_then(|mut file| file.write_all(line.as_bytes()));
    NOTED[number].store(noted.is_ok(), Ordering::Relaxed);
}
