//! Debian packages, fetched and unpacked into a directory of ours. Nothing is installed,
//! no file of the machine is changed, and no right is needed.

mod archive;
mod relaxed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{find, need, run, text};
use super::{Trouble, failed};

/// What the packages gave.
#[derive(Clone, Debug)]
pub(crate) struct Software {
    /// The kernel's image.
    pub(crate) kernel: PathBuf,
    /// The kernel's release.
    pub(crate) release: String,
    /// The directory of its modules.
    pub(crate) modules: PathBuf,
    /// Modules that are taken in place of those.
    pub(crate) relaxed: Option<PathBuf>,
    /// QEMU's program.
    pub(crate) qemu: PathBuf,
    /// Where QEMU was unpacked, if it is not the machine's own.
    pub(crate) qemu_root: Option<PathBuf>,
}

/// Fetches what is not there yet. `wanted` is a kernel's version such as 6.12.95, or
/// the one of the archive's backports; with `v1`, its SMC is built once more so that it
/// speaks version 1 over soft-RoCE.
pub(crate) fn prepare(
    directory: &Path,
    wanted: Option<&str>,
    v1: bool,
) -> Result<Software, Trouble> {
    need("apt-get", "apt")?;
    need("dpkg-deb", "dpkg")?;
    let kernels = directory.join("kernels");
    fs::create_dir_all(&kernels).map_err(failed(kernels.display()))?;
    let mut archive = archive::Archive::new(directory)?;
    let (release, root) = match wanted.and_then(|wanted| unpacked(&kernels, wanted)) {
        Some(found) => found,
        None => fetch_kernel(&mut archive, &kernels, wanted)?,
    };
    let (qemu, qemu_root) = match find("qemu-system-x86_64") {
        Some(qemu) => (qemu, None),
        None => {
            let root = directory.join("qemu");
            if !root.join(COMPLETE).exists() {
                archive.refresh()?;
                archive.unpack_with_dependencies("qemu-system-x86", &root)?;
                complete(&root)?;
            }
            (root.join("usr/bin/qemu-system-x86_64"), Some(root))
        }
    };
    let modules = root.join("lib/modules").join(&release);
    let modules = if modules.exists() {
        modules
    } else {
        root.join("usr/lib/modules").join(&release)
    };
    let relaxed = match v1 {
        true => Some(relaxed::build(
            &mut archive,
            &directory.join("v1"),
            &release,
        )?),
        false => None,
    };
    Ok(Software {
        relaxed,
        kernel: root.join("boot").join(format!("vmlinuz-{release}")),
        modules,
        release,
        qemu,
        qemu_root,
    })
}

/// Fetches a package and what it needs, unless the machine has all of these programs. The root below
/// which they are then.
pub(crate) fn programs(
    directory: &Path,
    package: &str,
    programs: &[&str],
) -> Result<Option<PathBuf>, Trouble> {
    if programs.iter().all(|name| find(name).is_some()) {
        return Ok(None);
    }
    let root = directory.join("programs").join(package);
    if !root.join(COMPLETE).exists() {
        let mut archive = archive::Archive::new(directory)?;
        archive.refresh()?;
        archive.unpack_with_dependencies(package, &root)?;
        complete(&root)?;
    }
    Ok(Some(root))
}

/// A file that is there when all others are.
const COMPLETE: &str = ".complete";

fn complete(root: &Path) -> Result<(), Trouble> {
    fs::write(root.join(COMPLETE), "").map_err(failed(root.display()))
}

/// A kernel of that version that is unpacked already.
fn unpacked(kernels: &Path, wanted: &str) -> Option<(String, PathBuf)> {
    fs::read_dir(kernels).ok()?.flatten().find_map(|entry| {
        let release = entry.file_name().into_string().ok()?;
        let rest = release.strip_prefix(wanted)?;
        let complete = entry.path().join(COMPLETE).exists();
        (complete && rest.starts_with('+')).then(|| (release, entry.path()))
    })
}

fn fetch_kernel(
    archive: &mut archive::Archive,
    kernels: &Path,
    wanted: Option<&str>,
) -> Result<(String, PathBuf), Trouble> {
    let remembered = kernels.join("default");
    if wanted.is_none()
        && let Ok(release) = fs::read_to_string(&remembered)
        && kernels.join(&release).join(COMPLETE).exists()
    {
        return Ok((release.clone(), kernels.join(release)));
    }
    archive.refresh()?;
    let release = archive.kernel(wanted)?;
    let root = kernels.join(&release);
    if !root.join(COMPLETE).exists() {
        archive.unpack(&format!("linux-image-{release}"), &root)?;
        complete(&root)?;
    }
    if wanted.is_none() {
        fs::write(&remembered, &release).map_err(failed(remembered.display()))?;
    }
    Ok((release, root))
}

/// Unpacks a package file.
fn unpack(file: &Path, root: &Path) -> Result<(), Trouble> {
    fs::create_dir_all(root).map_err(failed(root.display()))?;
    run(Command::new("dpkg-deb").arg("-x").arg(file).arg(root)).map(drop)
}

/// The architecture that packages are for.
fn architecture() -> Result<String, Trouble> {
    Ok(text(Command::new("dpkg").arg("--print-architecture"))?
        .trim()
        .to_owned())
}
