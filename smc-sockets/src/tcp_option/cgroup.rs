//! Where this process is in the hierarchy of cgroups of version 2.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::OptionError;

/// The directory of this process's cgroup.
pub(super) fn own() -> Result<File, OptionError> {
    let of_process = fs::read_to_string("/proc/self/cgroup").map_err(no_cgroup)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(no_cgroup)?;
    let path = directory(&of_process, &mounts).ok_or(OptionError::NoCgroup)?;
    File::open(path).map_err(no_cgroup)
}

fn no_cgroup(_: io::Error) -> OptionError {
    OptionError::NoCgroup
}

/// `of_process` has a line `0::/path`; a line of `mounts` has the root of what is mounted
/// in its fourth field, the place in its fifth, and the kind behind a lone hyphen.
fn directory(of_process: &str, mounts: &str) -> Option<PathBuf> {
    let path = of_process
        .lines()
        .find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = place.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root)?;
        Some(PathBuf::from(mounted).join(below.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::directory;
    use std::path::Path;

    #[test]
    fn the_own_directory_is_below_the_mount() {
        let mounts = "30 24 0:26 / /proc rw - proc proc rw\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
        let own = directory("9:pids:/x\n0::/user.slice/a\n", mounts);
        assert_eq!(
            own.as_deref(),
            Some(Path::new("/sys/fs/cgroup/unified/user.slice/a"))
        );
        let at_root = directory("0::/\n", mounts).unwrap();
        assert_eq!(at_root, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(directory("9:pids:/x\n", mounts), None);
        assert_eq!(
            directory("0::/\n", "30 24 0:26 / /proc rw - proc proc rw\n"),
            None
        );
    }

    #[test]
    fn a_container_sees_its_own_part_as_the_root() {
        let mounts = "41 31 0:38 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let own = directory("0::/docker/1/app\n", mounts);
        assert_eq!(own.as_deref(), Some(Path::new("/sys/fs/cgroup/app")));
        assert_eq!(directory("0::/elsewhere\n", mounts), None);
    }
}
