//! The user of this process, as far as it matters to connections that come and go.

use std::cell::Cell;

use rustix::time::ClockId;

use crate::process::Process;

/// What the kernel has said.
#[derive(Clone, Copy)]
struct Known {
    /// A child may be another user's at once.
    process: Process,
    tick: (i64, i64),
    uid: u32,
}

thread_local! {
    /// A thread may have a user of its own.
    static KNOWN: Cell<Option<Known>> = const { Cell::new(None) };
}

/// The effective user of the calling thread at the last tick of the kernel's coarse clock, some
/// milliseconds ago at most: a change counts that much later. Several connections that come and go
/// meanwhile ask the kernel once.
pub(crate) fn own_user() -> u32 {
    let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    let (process, tick) = (Process::current(), (now.tv_sec, now.tv_nsec));
    let is_valid = |known: &Known| known.process == process && known.tick == tick;
    // A thread that ends has no cell any more.
    let known = KNOWN.try_with(Cell::get).ok().flatten();
    if let Some(known) = known.filter(is_valid) {
        return known.uid;
    }
    let uid = rustix::process::geteuid().as_raw();
    let new = Known { process, tick, uid };
    let _ = KNOWN.try_with(|known| known.set(Some(new)));
    uid
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::process::Uid;

    use super::own_user;

    /// A change counts soon, and in no thread but its own.
    #[test]
    fn a_thread_that_becomes_another_user_is_that_user_soon() {
        let own = rustix::process::geteuid();
        assert_eq!(own_user(), own.as_raw());
        if !own.is_root() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"));
            eprintln!("SKIPPED: to become another user takes root");
            return;
        }
        let other = std::thread::spawn(|| {
            assert_eq!(own_user(), 0);
            let [root, another] = [0, 65_533].map(Uid::from_raw);
            rustix::thread::set_thread_res_uid(root, another, root).unwrap();
            let end = Instant::now() + Duration::from_secs(10);
            while own_user() != 65_533 {
                assert!(Instant::now() < end, "it stays root");
            }
        });
        other.join().unwrap();
        assert_eq!(own_user(), 0);
    }
}
