//! What keeps the library from reaching a program's connections.

mod elf;
#[cfg(test)]
mod tests;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::process::{getgid, getuid};

use super::program::Program;
use elf::Image;

/// Why the library does not reach a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Obstacle {
    /// The program gains rights when it is executed, in this way, and the dynamic linker
    /// ignores `LD_PRELOAD` then.
    Privileged(Gain),
    /// The program is for another architecture than this command.
    OtherArchitecture,
    /// A Go program makes system calls without the C library.
    Go,
    /// There is no dynamic linker that would load the library.
    Static,
    /// The program uses a C library that cannot load the library; the name of its dynamic
    /// linker.
    OtherLibc(String),
}

/// How a program gains rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gain {
    User,
    Group,
    Capabilities,
}

impl Obstacle {
    /// Whether `LD_PRELOAD` is harmless to the program, and may reach those it starts.
    pub(super) const fn leaves_preload(&self) -> bool {
        // Their dynamic linkers complain about the library, or do not start the program.
        !matches!(self, Self::OtherArchitecture | Self::OtherLibc(_))
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileged(Gain::User) => f.write_str("is set-user-ID"),
            Self::Privileged(Gain::Group) => f.write_str("is set-group-ID"),
            Self::Privileged(Gain::Capabilities) => f.write_str("has file capabilities"),
            Self::OtherArchitecture => f.write_str("is a program of another architecture"),
            Self::Go => f.write_str("is a Go program, which makes system calls by itself"),
            Self::Static => f.write_str("is statically linked"),
            Self::OtherLibc(linker) => write!(f, "uses another C library ({linker})"),
        }
    }
}

/// What keeps the library from reaching a program; nothing if the program cannot be read.
pub(super) fn obstacle(program: &Program) -> Option<Obstacle> {
    let path = program.executed();
    if let Some(gain) = gain(&path) {
        return Some(Obstacle::Privileged(gain));
    }
    let own = Image::read(Path::new("/proc/self/exe")).ok()?;
    of_image(&Image::read(&path).ok()?, &own)
}

/// Properties of a program's image; `own` is that of this command.
fn of_image(image: &Image, own: &Image) -> Option<Obstacle> {
    if image.architecture != own.architecture {
        return Some(Obstacle::OtherArchitecture);
    }
    if image.is_go {
        return Some(Obstacle::Go);
    }
    let Some(linker) = &image.linker else {
        return Some(Obstacle::Static);
    };
    // The library was built for the C library of this command.
    let is_other = own.linker.as_ref().is_some_and(|own| own != linker);
    is_other.then(|| Obstacle::OtherLibc(linker.clone()))
}

/// How a program gains rights that this process does not have.
fn gain(path: &Path) -> Option<Gain> {
    let metadata = path.metadata().ok()?;
    let mount = rustix::fs::statvfs(path).ok()?;
    let keeps_rights = mount.f_flag.contains(StatVfsMountFlags::NOSUID)
        || rustix::thread::no_new_privs().unwrap_or(false);
    if keeps_rights {
        return None;
    }
    let (set_user, set_group) = (0o4000, 0o2010);
    let (mode, root) = (metadata.mode(), getuid().is_root());
    if mode & set_user == set_user && metadata.uid() != getuid().as_raw() {
        Some(Gain::User)
    } else if mode & set_group == set_group && metadata.gid() != getgid().as_raw() {
        Some(Gain::Group)
    } else if !root && has_capabilities(path) {
        Some(Gain::Capabilities)
    } else {
        None
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|length| length > 0)
}
