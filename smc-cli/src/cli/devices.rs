//! Arguments of the commands that examine this host.

use std::path::PathBuf;

use clap::Args;

/// Which policy counts.
#[derive(Args, Debug, Default)]
pub struct PolicyArgument {
    /// The policy (docs/policy.md); else the file that $SMC_POLICY names, else the first of
    /// $XDG_CONFIG_HOME/smc/policy.toml and /etc/smc/policy.toml that is there.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

/// Arguments of `devices`.
#[derive(Args, Debug)]
pub struct DevicesArguments {
    /// The tables of smcr device and smcd device: places on the bus, and how many links and link
    /// groups of programs use each.
    #[arg(short, long)]
    pub details: bool,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
    /// Where the kernel has its file system.
    #[arg(long, hide = true, value_name = "DIRECTORY", default_value = "/sys")]
    pub sysfs: PathBuf,
}
