//! Effective user of the calling thread, without a system call each time.
//!
//! Connections that begin and end ask for it often, to compare it with the user of a peer. The
//! kernel is asked at most once per thread and tick of its coarse clock.

use std::cell::Cell;

use rustix::time::ClockId;

use crate::process::Process;

/// Time of the kernel's coarse clock: seconds and nanoseconds.
type Tick = (i64, i64);

/// An answer of the kernel, which is valid in one process during one tick.
#[derive(Clone, Copy)]
struct CachedUser {
    /// A child is asked for anew: it may have changed its user right after the fork.
    process: Process,
    tick: Tick,
    uid: u32,
}

thread_local! {
    /// The kernel's last answer. Threads of a process may have different users.
    static CACHED: Cell<Option<CachedUser>> = const { Cell::new(None) };
}

/// Effective user of the calling thread. A change of user is noticed at the next tick of the
/// kernel's coarse clock, which is 1 to 10 milliseconds later.
pub(crate) fn own_user() -> u32 {
    let now = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    let tick = (now.tv_sec, now.tv_nsec);
    cached_user(Process::current(), tick, || {
        rustix::process::geteuid().as_raw()
    })
}

/// The calling thread's cached user, if it is one of this process and tick. Otherwise asks the
/// kernel, and caches the answer.
fn cached_user(process: Process, tick: Tick, ask_kernel: impl FnOnce() -> u32) -> u32 {
    // A thread that is ending has no cell any more: the kernel is asked each time.
    let cached = CACHED.try_with(Cell::get).ok().flatten();
    if let Some(cached) = cached.filter(|of| of.process == process && of.tick == tick) {
        return cached.uid;
    }
    let uid = ask_kernel();
    let _ = CACHED.try_with(|cached| cached.set(Some(CachedUser { process, tick, uid })));
    uid
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::process::Uid;

    use super::{Process, cached_user, own_user};

    /// The user, and whether the kernel was asked, where it answers `uid`.
    fn ask(process: Process, tick: i64, uid: u32) -> (u32, bool) {
        let mut asked = false;
        let user = cached_user(process, (0, tick), || {
            asked = true;
            uid
        });
        (user, asked)
    }

    #[test]
    fn the_user_is_the_kernels_effective_one() {
        assert_eq!(own_user(), rustix::process::geteuid().as_raw());
    }

    #[test]
    fn the_kernel_is_asked_once_for_each_tick_and_process() {
        let (parent, child) = (Process::current(), Process::of_test(u64::MAX));
        assert_eq!(ask(parent, 1, 10), (10, true));
        assert_eq!(ask(parent, 1, 20), (10, false));
        assert_eq!(ask(parent, 2, 20), (20, true));
        assert_eq!(ask(child, 2, 30), (30, true));
        assert_eq!(ask(child, 2, 40), (30, false));
    }

    #[test]
    fn a_thread_does_not_take_the_user_of_another() {
        let process = Process::current();
        assert_eq!(ask(process, 1, 10), (10, true));
        let other = std::thread::spawn(move || ask(process, 1, 20));
        assert_eq!(other.join().unwrap(), (20, true));
        assert_eq!(ask(process, 1, 30), (10, false));
    }

    /// `.ci/run test` runs it.
    #[test]
    #[ignore = "needs root, to become another user"]
    fn a_thread_that_becomes_another_user_is_that_user_soon() {
        assert_eq!(own_user(), 0, "run it as root");
        let other = std::thread::spawn(|| {
            assert_eq!(own_user(), 0);
            let [root, another] = [0, 65_533].map(Uid::from_raw);
            rustix::thread::set_thread_res_uid(root, another, root).unwrap();
            let end = Instant::now() + Duration::from_secs(10);
            while own_user() != 65_533 {
                assert!(Instant::now() < end, "the thread is still root");
                std::thread::yield_now();
            }
        });
        other.join().unwrap();
        assert_eq!(own_user(), 0);
    }
}
