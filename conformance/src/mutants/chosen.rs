//! Which change of many this run has. In a copy of the sources only: the engine itself
//! neither has `std` nor asks its environment.

extern crate std;

use self::std::env;
use self::std::sync::OnceLock;

/// Its number; 0, which no change has, if none was chosen.
pub(crate) fn change() -> usize {
    static CHANGE: OnceLock<usize> = OnceLock::new();
    *CHANGE.get_or_init(|| {
        let said = env::var("SMC_CHANGE").ok();
        said.and_then(|said| said.parse().ok()).unwrap_or(0)
    })
}
