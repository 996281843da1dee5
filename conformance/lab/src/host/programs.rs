//! Our own programs for the guests, built by the cargo that built this one.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Trouble;
use super::tools::run;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the guests' first process, with everything of the C library in it.
pub(crate) fn guest(directory: &Path) -> Result<PathBuf, Trouble> {
    let target = directory.join("guest");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
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
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-Ctarget-feature=+crt-static",
        )
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))?;
    Ok(target.join(TARGET).join("release/smc-lab-guest"))
}
