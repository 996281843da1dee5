//! Our own programs for the guests, built by the cargo that built this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::campaign::UEID;
use super::tools::{need, run, text};
use super::{Trouble, failed};
use crate::orders::{AF_SMC, EXITS, PEER, POLICY, PRELOAD, SCRIPTS, SCRIPTS_FOLDER, SMCX};

/// Where RDMA's drivers in user space are, and what names them.
const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";
const DRIVER: &str = "librxe";
const DRIVER_NAMES: &str = "/etc/libibverbs.d/rxe.driver";

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Files of this machine, and their places in a guest.
pub(crate) type Files = Vec<(PathBuf, PathBuf)>;

/// The cargo that built this, at work on this workspace.
fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}

/// Builds the guests' first process, with everything of the C library in it.
pub(crate) fn guest(directory: &Path) -> Result<PathBuf, Trouble> {
    let target = directory.join("guest");
    run(cargo()
        .args(["build", "--locked", "--release", "--quiet", "-p", "smc-lab"])
        .args([
            "--bin",
            "smc-lab-guest",
            "--no-default-features",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(&target)
        .env(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Ctarget-feature=+crt-static",
        ))?;
    Ok(target.join(TARGET).join("release/smc-lab-guest"))
}

/// Our own SMC for the guests, and the files that it needs there, each with its place in a
/// guest; none if this machine cannot build it, and why.
pub(crate) fn peer(directory: &Path) -> Result<Result<Files, String>, Trouble> {
    let programs = [("smc-lab-peer", PEER), ("smcx", SMCX)];
    let packages = ["smc-lab-peer", "smcx"];
    over_verbs(directory, &packages, &programs)
}

/// What plays scripts, and the scripts, likewise. It is built apart from the others: what it
/// needs of the engine for tests they are not to have.
pub(crate) fn scripts(directory: &Path) -> Result<Result<Files, String>, Trouble> {
    let package = "smc-lab-scripts";
    let built = over_verbs(directory, &[package], &[(package, SCRIPTS)])?;
    let Ok(mut files) = built else {
        return Ok(built);
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
    for chapter in fs::read_dir(&folder)
        .map_err(failed(folder.display()))?
        .flatten()
    {
        let Ok(scripts) = fs::read_dir(chapter.path()) else {
            continue;
        };
        let place = Path::new(SCRIPTS_FOLDER).join(chapter.file_name());
        let files_of = scripts
            .flatten()
            .map(|file| (file.path(), place.join(file.file_name())));
        files.extend(files_of);
    }
    Ok(Ok(files))
}

/// What programs of TCP need: they themselves, if they are Debian's, the library of `smcx run` (built
/// with [`peer`]), its policy, the library that makes their sockets AF_SMC, and [`EXITS`].
///
/// # Errors
/// A program is missing on this machine, or the library cannot be built.
pub(crate) fn preloaded(
    directory: &Path,
    programs: &[&str],
    unpacked: Option<&Path>,
) -> Result<Files, Trouble> {
    let release = directory.join("peer/release/deps");
    let preload = release.join("libsmc_preload.so");
    let made = directory.join("debian");
    fs::create_dir_all(&made).map_err(failed(made.display()))?;
    let af_smc = made.join("af-smc.so");
    run(Command::new(need("cc", "gcc")?)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&af_smc)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/af_smc.c")))?;
    let exits = made.join("exits");
    run(Command::new(need("cc", "gcc")?)
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .arg(&exits)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/exits.c")))?;
    let policy = made.join("policy.toml");
    let text = format!("transports = [\"verbs\"]\nueids = [\"{UEID}\"]\ntcp-option = \"always\"\n");
    fs::write(&policy, text).map_err(failed(policy.display()))?;
    let mut others = libraries(&preload, None)?;
    others.extend(libraries(&exits, None)?);
    let mut files: Files = vec![
        (preload, PRELOAD.into()),
        (af_smc, AF_SMC.into()),
        (exits, EXITS.into()),
        (policy, POLICY.into()),
    ];
    for &name in programs {
        let program = match unpacked {
            Some(root) => root.join("usr/bin").join(name),
            None => need(name, name)?,
        };
        others.extend(libraries(&program, unpacked)?);
        files.push((program, Path::new("/usr/bin").join(name)));
    }
    others.sort();
    others.dedup();
    // Where they are unpacked, or here.
    files.extend(others.into_iter().map(|file| {
        let place = unpacked.and_then(|root| file.strip_prefix(root).ok());
        let place = place.map_or(file.clone(), |inner| Path::new("/").join(inner));
        (file, place)
    }));
    Ok(files)
}

/// Builds programs of these packages over libibverbs.
fn over_verbs(
    directory: &Path,
    packages: &[&str],
    programs: &[(&str, &str)],
) -> Result<Result<Files, String>, Trouble> {
    if !Path::new("/usr/include/infiniband/verbs.h").exists() {
        return Ok(Err("libibverbs-dev is missing".to_owned()));
    }
    let target = directory.join("peer");
    let features = packages.iter().map(|package| format!("{package}/rdma"));
    let built = run(cargo()
        .args(["build", "--locked", "--release", "--quiet", "--bins"])
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .args(["--features", &features.collect::<Vec<_>>().join(",")])
        .arg("--target-dir")
        .arg(&target));
    if let Err(trouble) = built {
        return Ok(Err(format!("it cannot be built: {trouble}")));
    }
    let release = target.join("release");
    let programs = programs.iter();
    let programs: Files = programs
        .map(|(name, place)| (release.join(name), place.into()))
        .collect();
    let drivers = fs::read_dir(DRIVERS).map_err(failed(DRIVERS))?.flatten();
    let driver = drivers.map(|entry| entry.path()).find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(DRIVER))
    });
    let Some(driver) = driver else {
        return Ok(Err("ibverbs-providers is missing".to_owned()));
    };
    // All others are where they are here.
    let mut others = vec![driver.clone(), PathBuf::from(DRIVER_NAMES)];
    for program in programs.iter().map(|(program, _)| program).chain([&driver]) {
        others.extend(libraries(program, None)?);
    }
    others.sort();
    others.dedup();
    let others = others.into_iter().map(|file| (file.clone(), file));
    Ok(Ok(programs.into_iter().chain(others).collect()))
}

/// The shared libraries of a program, and its loader: all that `ldd` names with a path. Some may
/// be below `unpacked`.
fn libraries(program: &Path, unpacked: Option<&Path>) -> Result<Vec<PathBuf>, Trouble> {
    let mut ldd = Command::new("ldd");
    if let Some(root) = unpacked {
        let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
        let folders = folders.map(|folder| root.join(folder).display().to_string());
        ldd.env("LD_LIBRARY_PATH", folders.join(":"));
    }
    let lines = text(ldd.arg(program))?;
    if let Some(missing) = lines.lines().find(|line| line.contains("not found")) {
        let program = program.display();
        return Err(Trouble::Failed(format!("{program}: {}", missing.trim())));
    }
    let words = lines.lines().flat_map(str::split_whitespace);
    Ok(words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}
