//! A memory cgroup for one process, of either version.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A cgroup of this process's making; removed when dropped, once it is empty.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    v1: bool,
}

impl Cgroup {
    /// Makes a cgroup that charges at most `limit` bytes, if there is a limit.
    ///
    /// # Errors
    /// The operating system's, or that no memory controller is mounted in its usual place.
    pub(crate) fn new(limit: Option<u64>) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "smc-attacks-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let (root, v1) = root()?;
        let group = Self {
            path: root.join(name),
            v1,
        };
        fs::create_dir(&group.path)?;
        if let Some(limit) = limit {
            let file = if v1 {
                "memory.limit_in_bytes"
            } else {
                "memory.max"
            };
            fs::write(group.path.join(file), limit.to_string())?;
        }
        Ok(group)
    }

    /// Moves a process in. What it touched before stays charged elsewhere.
    pub(crate) fn admit(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    /// Bytes of shared memory that are charged to the group.
    pub(crate) fn shared_memory(&self) -> io::Result<u64> {
        let stat = fs::read_to_string(self.path.join("memory.stat"))?;
        let value = stat.lines().find_map(|line| line.strip_prefix("shmem "));
        let value = value.and_then(|value| value.parse().ok());
        value.ok_or_else(|| io::Error::other("memory.stat has no shmem"))
    }

    /// How often the kernel ended a process of the group for want of memory.
    pub(crate) fn kills(&self) -> io::Result<u64> {
        let file = if self.v1 {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        let text = fs::read_to_string(self.path.join(file))?;
        let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        let value = value.and_then(|value| value.parse().ok());
        value.ok_or_else(|| io::Error::other("no count of kills"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Where memory cgroups are made, and whether that is version 1.
fn root() -> io::Result<(PathBuf, bool)> {
    let v1 = PathBuf::from("/sys/fs/cgroup/memory");
    if v1.join("memory.limit_in_bytes").exists() || v1.join("memory.usage_in_bytes").exists() {
        return Ok((v1, true));
    }
    for v2 in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from) {
        let controllers = fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_whitespace().any(|name| name == "memory") {
            // Fails where it is enabled already or by rule of the host; `new` then shows it.
            let _ = fs::write(v2.join("cgroup.subtree_control"), "+memory");
            return Ok((v2, false));
        }
    }
    Err(io::Error::other("no memory cgroup is mounted"))
}
