//! Arguments of `links` and `info`.

use clap::{ArgAction, Args};

use super::PolicyArgument;

/// Arguments of `links`.
#[derive(Args, Debug)]
pub struct LinksArguments {
    /// Each link group by itself, with all that is known of it, and more columns of links; -dd
    /// for their GIDs, too.
    #[arg(short, long, action = ArgAction::Count)]
    pub details: u8,
    /// Link groups of SMC-D alone.
    #[arg(short = 'D', long, conflicts_with = "smcr")]
    pub smcd: bool,
    /// Link groups of SMC-R alone, and their links.
    #[arg(short = 'R', long)]
    pub smcr: bool,
    /// One JSON object a line for each link group.
    #[arg(long, conflicts_with = "details")]
    pub json: bool,
}

/// Arguments of `info`.
#[derive(Args, Debug)]
pub struct InfoArguments {
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
    /// Where the kernel has its file system.
    #[arg(long, hide = true, value_name = "DIRECTORY", default_value = "/sys")]
    pub sysfs: std::path::PathBuf,
}
