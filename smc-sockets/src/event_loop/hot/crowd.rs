//! Whether more threads run than there are CPUs.
//!
//! The kernel counts the threads that run or wait for a CPU: the fourth field of
//! `/proc/loadavg`, as in `0.20 0.18 0.12 3/80 11206`. A loop that polls is one of them, and so
//! is its peer; any further one than there are CPUs has to wait for one of the others. Threads
//! of the caller that run for a moment are subtracted.

use std::fs::File;
use std::io::{self, Read};

use crate::process::PerProcess;

/// Whether more threads run than there are CPUs and `siblings`, a number of further threads of the
/// caller; `None` if the kernel does not report that, or the process has no descriptor to spare.
pub(crate) fn is_crowded(siblings: u32) -> Option<bool> {
    static CPUS: Once = Once::new();
    count(&CPUS, siblings, online)
}

/// The number of CPUs. No lock: another thread may have held it at a fork.
//= SHM-061
type Once = PerProcess<u32>;

/// Keeps no descriptor: a program may need all that its process may have.
fn count(once: &Once, siblings: u32, online: impl FnOnce() -> io::Result<u32>) -> Option<bool> {
    let cpus = once.get_or_make(online).ok()?;
    Some(running()?.saturating_sub(siblings) > *cpus)
}

/// The threads that run or wait for a CPU now.
fn running() -> Option<u32> {
    let mut line = [0; 64];
    let len = File::open("/proc/loadavg").ok()?.read(&mut line).ok()?;
    threads(line.get(..len)?)
}

/// How many CPUs there are.
fn online() -> io::Result<u32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    cpus(&list).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The threads that run, by the line of `/proc/loadavg`. The caller is one of them: systems that
/// report none do not count.
fn threads(line: &[u8]) -> Option<u32> {
    let line = str::from_utf8(line).ok()?;
    let (running, _) = line.split(' ').nth(3)?.split_once('/')?;
    running.parse().ok().filter(|running| *running > 0)
}

/// How many CPUs a list such as `0-3,8` has.
fn cpus(list: &str) -> Option<u32> {
    let mut cpus = 0_u32;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus = cpus.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use super::{Once, count, cpus, is_crowded, running, threads};

    #[test]
    fn lines_of_the_kernel_are_read() {
        assert_eq!(threads(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(threads(b"0.20 0.18 0.12 x/80 11206\n"), None);
        assert_eq!(threads(b"0.20"), None);
        assert_eq!(threads(b"0.00 0.00 0.00 0/0 0\n"), None);
        assert_eq!(cpus("0\n"), Some(1));
        assert_eq!(cpus("0-3,8,10-11\n"), Some(7));
        assert_eq!(cpus("3-1\n"), None);
        assert_eq!(cpus(""), None);
    }

    /// Other tests count meanwhile.
    #[test]
    fn a_count_keeps_no_descriptor() {
        let is_of_count = |descriptor: std::io::Result<std::fs::DirEntry>| {
            let file = descriptor.and_then(|at| std::fs::read_link(at.path()));
            file.is_ok_and(|file| file.ends_with("loadavg"))
        };
        assert!(running().is_some_and(|running| running > 0));
        is_crowded(0);
        let until = Instant::now() + Duration::from_secs(10);
        while std::fs::read_dir("/proc/self/fd").unwrap().any(is_of_count) {
            assert!(Instant::now() < until, "a descriptor of /proc/loadavg");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_number_of_cpus_is_asked_for_again_if_it_was_not_to_be_had() {
        let once = Once::new();
        let without_descriptor = || Err(std::io::ErrorKind::QuotaExceeded.into());
        assert_eq!(count(&once, 0, without_descriptor), None);
        assert_eq!(
            count(&once, 0, || Ok(0)),
            Some(true),
            "more threads than no CPUs"
        );
        let known = || panic!("it is known");
        assert_eq!(count(&once, 0, known), Some(true));
        assert_eq!(
            count(&once, u32::MAX, known),
            Some(false),
            "siblings do not count"
        );
    }

    /// In a child, a thread that had begun the first count at the fork never ends it.
    //= SHM-061 test
    #[test]
    fn a_first_count_waits_for_no_other_thread() {
        let once = Arc::new(Once::new());
        let (begun, at_count) = mpsc::channel();
        let (end, until) = mpsc::channel::<()>();
        let of_other = once.clone();
        let other = std::thread::spawn(move || {
            count(&of_other, 0, || {
                begun.send(()).unwrap();
                let _ = until.recv();
                Ok(9)
            })
        });
        at_count.recv().unwrap();
        let (counted, outcome) = mpsc::channel();
        std::thread::spawn(move || counted.send(count(&once, 0, || Ok(0))));
        let is_crowded = outcome.recv_timeout(Duration::from_secs(10));
        assert_eq!(is_crowded, Ok(Some(true)), "more threads run than no CPUs");
        drop(end);
        assert_eq!(
            other.join().unwrap(),
            Some(true),
            "the value that was there first"
        );
    }
}
