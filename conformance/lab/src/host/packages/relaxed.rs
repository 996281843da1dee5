//! The kernel's SMC, built from its source so that it speaks version 1 over soft-RoCE.
//!
//! Version 1 takes GIDs of RoCEv1 only, and soft-RoCE has none. The source stays as it
//! is; a header that is included before one of its files gives that type another
//! meaning: RoCEv2, if the GID is an IPv4 address.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::tools::{need, run};
use super::super::{Trouble, failed};
use super::archive::Archive;
use super::{COMPLETE, complete};

/// Where the type of a GID is asked for, and what is included before.
const FILE: &str = "smc_ib";
const HEADER: &str = "smc_lab.h";
const MEANING: &str = "\
#include <rdma/ib_verbs.h>
#include <net/ipv6.h>
/* Used where `attr` is a GID's attributes; 255 is no type. */
#define IB_GID_TYPE_ROCE \\
\t(ipv6_addr_v4mapped((const struct in6_addr *)attr->gid.raw) ? \\
\t IB_GID_TYPE_ROCE_UDP_ENCAP : 255)
";

/// A directory with the modules, for a kernel's release.
pub(super) fn build(
    archive: &mut Archive,
    directory: &Path,
    release: &str,
) -> Result<PathBuf, Trouble> {
    let place = directory.join(release);
    let built = place.join("built");
    if built.join(COMPLETE).exists() {
        return Ok(built);
    }
    let make = need("make", "make")?;
    need("gcc-12", "gcc-12")?;
    archive.refresh()?;
    let source = unpack(archive, &place, release)?;
    let headers = place
        .join("root/usr/src")
        .join(format!("linux-headers-{release}"));
    let tree = place.join("smc");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).map_err(failed(tree.display()))?;
    for entry in fs::read_dir(&source)
        .map_err(failed(source.display()))?
        .flatten()
    {
        let copy = tree.join(entry.file_name());
        fs::copy(entry.path(), &copy).map_err(failed(copy.display()))?;
    }
    write(&tree.join(HEADER), MEANING)?;
    let rules = tree.join("Makefile");
    let text = fs::read_to_string(&rules).map_err(failed(rules.display()))?;
    write(
        &rules,
        &format!("{text}\nCFLAGS_{FILE}.o += -include $(src)/{HEADER}\n"),
    )?;
    run(Command::new(make)
        .arg("-C")
        .arg(&headers)
        .arg(format!("M={}", tree.display()))
        .args(["CONFIG_SMC=m", "CONFIG_SMC_DIAG=m", "modules"]))?;
    fs::create_dir_all(&built).map_err(failed(built.display()))?;
    for module in ["smc.ko", "smc_diag.ko"] {
        // What debuggers want is most of it.
        run(Command::new("strip")
            .arg("--strip-debug")
            .arg("-o")
            .arg(built.join(module))
            .arg(tree.join(module)))?;
    }
    complete(&built)?;
    Ok(built)
}

/// Headers to build modules with, and SMC's source, whose directory it gives.
fn unpack(archive: &Archive, place: &Path, release: &str) -> Result<PathBuf, Trouble> {
    let version = archive.version(&format!("linux-headers-{release}"))?;
    let kernel = release.strip_suffix("-amd64").unwrap_or(release);
    let series = release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let source = format!("linux-source-{series}");
    let root = place.join("root");
    for package in [
        format!("linux-headers-{release}"),
        format!("linux-headers-{kernel}-common"),
        format!("linux-kbuild-{kernel}"),
        format!("{source}={version}"),
    ] {
        archive.unpack(&package, &root)?;
    }
    let sources = root.join("usr/src");
    let headers = sources.join(format!("linux-headers-{release}"));
    // It names the common part by the place where it would be installed.
    let common = sources.join(format!("linux-headers-{kernel}-common/Makefile"));
    write(
        &headers.join("Makefile"),
        &format!("include {}\n", common.display()),
    )?;
    // Types for BPF are made of it, by a tool that would have to be there.
    let _ = fs::remove_file(headers.join("vmlinux"));
    run(Command::new("tar")
        .arg("-xJf")
        .arg(sources.join(format!("{source}.tar.xz")))
        .arg("-C")
        .arg(place)
        .arg(format!("{source}/net/smc")))?;
    Ok(place.join(source).join("net/smc"))
}

fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    fs::write(path, text).map_err(failed(path.display()))
}
