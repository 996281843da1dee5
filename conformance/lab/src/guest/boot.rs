//! File systems, modules, and the port to the laboratory.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use rustix::system::init_module;

use crate::netlink::route;
use crate::orders::PORT_NAME;

/// File names of modules, in the order in which they are loaded.
pub(crate) const MODULES: &str = "modules/order";
/// The directory of the machine outside.
const SHARE: &str = "/share";

pub(super) fn boot() -> io::Result<File> {
    for directory in ["/proc", "/sys", "/dev", "/tmp", "/run", SHARE] {
        fs::create_dir_all(directory)?;
    }
    attach("proc", "/proc", "proc", None)?;
    attach("sysfs", "/sys", "sysfs", None)?;
    attach("devtmpfs", "/dev", "devtmpfs", None)?;
    attach("tmpfs", "/tmp", "tmpfs", None)?;
    attach("cgroup2", "/sys/fs/cgroup", "cgroup2", None)?;
    for name in fs::read_to_string(format!("/{MODULES}"))?.lines() {
        let image = fs::read(format!("/modules/{name}"))?;
        match init_module(&image, c"") {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(io::Error::other(format!("module {name}: {error}"))),
        }
    }
    attach(
        "share",
        SHARE,
        "9p",
        Some(c"trans=virtio,version=9p2000.L,msize=131072"),
    )?;
    route::set_up("lo", true)?;
    port()
}

fn attach(source: &str, target: &str, kind: &str, options: Option<&CStr>) -> io::Result<()> {
    mount(source, target, kind, MountFlags::empty(), options)
        .map_err(|error| io::Error::other(format!("mounting {target}: {error}")))
}

/// The serial port of our name; devices come a moment after their modules.
fn port() -> io::Result<File> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        for entry in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == PORT_NAME {
                let path = format!("/dev/{}", entry.file_name().to_string_lossy());
                return OpenOptions::new().read(true).write(true).open(path);
            }
        }
        if Instant::now() > end {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no port to the laboratory",
            ));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
