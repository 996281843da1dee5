//! Whether more threads run than there are CPUs.
//!
//! The kernel counts the threads that run or wait for a CPU: the fourth field of
//! `/proc/loadavg`, as in `0.20 0.18 0.12 3/80 11206`. A loop that polls is one of them, and so
//! is its peer; any further one than there are CPUs has to wait for one of the others.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

struct Running {
    file: File,
    cpus: u32,
}

/// Whether more threads run than there are CPUs; false if the kernel does not tell.
pub(crate) fn is_crowded() -> bool {
    static RUNNING: OnceLock<Option<Running>> = OnceLock::new();
    let running = RUNNING.get_or_init(|| {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let cpus = cpus(&online)?;
        let file = File::open("/proc/loadavg").ok()?;
        Some(Running { file, cpus })
    });
    running.as_ref().is_some_and(|running| {
        let mut line = [0; 64];
        let len = running.file.read_at(&mut line, 0).unwrap_or(0);
        threads(line.get(..len).unwrap_or_default()).is_some_and(|now| now > running.cpus)
    })
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
    use super::{cpus, threads};

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
}
