//! Arguments of `stats`.

use clap::{Args, ValueEnum};

/// Arguments of `stats`.
#[derive(Args, Debug)]
pub struct StatsArguments {
    /// What processes have counted since each began, not since the last --reset.
    #[arg(short, long)]
    pub absolute: bool,
    /// Client and server apart, versions, the commonest reasons of TCP, special calls by kind.
    #[arg(short, long)]
    pub details: bool,
    /// Count from now on: what there is now is kept in the user's state directory.
    #[arg(short, long, conflicts_with = "absolute")]
    pub reset: bool,
    /// Statistics of one process alone.
    #[arg(short, long, value_name = "PID", conflicts_with = "reset")]
    pub process: Option<u32>,
    /// Whose layout the text has.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "smcr",
        conflicts_with = "json"
    )]
    pub format: StatsFormat,
    /// One JSON object, with the keys of smcr stats and smcd stats.
    #[arg(long)]
    pub json: bool,
}

/// A layout of the statistics as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StatsFormat {
    /// Rows of smcr stats and smcd stats, of smc-tools.
    Smcr,
    /// Fields of entstat, of AIX, for the devices smc_r0 (SMC-R) and smc_d0 (SMC-D).
    Entstat,
}
