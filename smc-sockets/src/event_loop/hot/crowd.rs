//! Whether more threads run than there are CPUs.
//!
//! The kernel counts the threads that run or wait for a CPU: the fourth field of
//! `/proc/loadavg`, as in `0.20 0.18 0.12 3/80 11206`. A loop that polls is one of them, and so
//! is its peer; any further one than there are CPUs has to wait for one of the others.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::process::PerProcess;

struct Running {
    file: File,
    cpus: u32,
}

/// Whether more threads run than there are CPUs; false if the kernel does not report that.
pub(crate) fn is_crowded() -> bool {
    static RUNNING: Once = Once::new();
    count(&RUNNING, Running::open)
}

/// Made by the first count of a process. No lock: another thread may have held it at a fork.
//= SHM-061
type Once = PerProcess<Option<Running>>;

fn count(running: &Once, open: impl FnOnce() -> Option<Running>) -> bool {
    let running = running.get_or_make(|| Ok(open()));
    running.is_ok_and(|running| running.as_ref().is_some_and(Running::exceeds))
}

impl Running {
    fn open() -> Option<Self> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let cpus = cpus(&online)?;
        let file = File::open("/proc/loadavg").ok()?;
        Some(Self { file, cpus })
    }

    /// Whether more threads run now than there are CPUs.
    fn exceeds(&self) -> bool {
        let mut line = [0; 64];
        let len = self.file.read_at(&mut line, 0).unwrap_or(0);
        let now = threads(line.get(..len).unwrap_or_default());
        now.is_some_and(|now| now > self.cpus)
    }
}

/// The threads that run, by the line of `/proc/loadavg`.
fn threads(line: &[u8]) -> Option<u32> {
    let line = str::from_utf8(line).ok()?;
    let (running, _) = line.split(' ').nth(3)?.split_once('/')?;
    running.parse().ok()
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
    use std::fs::File;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::{Once, Running, count, cpus, threads};

    #[test]
    fn lines_of_the_kernel_are_read() {
        assert_eq!(threads(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(threads(b"0.20 0.18 0.12 x/80 11206\n"), None);
        assert_eq!(threads(b"0.20"), None);
        assert_eq!(cpus("0\n"), Some(1));
        assert_eq!(cpus("0-3,8,10-11\n"), Some(7));
        assert_eq!(cpus("3-1\n"), None);
        assert_eq!(cpus(""), None);
    }

    /// In a child, a thread that had begun the first count at the fork never ends it.
    //= SHM-061 test
    #[test]
    fn a_first_count_waits_for_no_other_thread() {
        let without_cpus = || {
            let (file, cpus) = (File::open("/proc/loadavg").ok()?, 0);
            Some(Running { file, cpus })
        };
        let once = Arc::new(Once::new());
        let (begun, at_count) = mpsc::channel();
        let (end, until) = mpsc::channel::<()>();
        let of_other = once.clone();
        let other = std::thread::spawn(move || {
            count(&of_other, || {
                begun.send(()).unwrap();
                let _ = until.recv();
                None
            })
        });
        at_count.recv().unwrap();
        let (counted, outcome) = mpsc::channel();
        std::thread::spawn(move || counted.send(count(&once, without_cpus)));
        let is_crowded = outcome.recv_timeout(Duration::from_secs(10));
        assert_eq!(is_crowded, Ok(true), "more threads run than no CPUs");
        drop(end);
        assert!(other.join().unwrap(), "the value that was there first");
    }
}
