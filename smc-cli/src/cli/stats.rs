//! Arguments of `stats`.

use clap::Args;

/// Arguments of `stats`.
#[derive(Args, Debug)]
pub struct StatsArguments {
    /// What processes have counted since each began, not since the last --reset.
    #[arg(short, long)]
    pub absolute: bool,
    /// Count from now on: what there is now is kept in the user's state directory.
    #[arg(long, conflicts_with = "absolute")]
    pub reset: bool,
    /// Statistics of one process alone.
    #[arg(short, long, value_name = "PID", conflicts_with = "reset")]
    pub process: Option<u32>,
    /// One JSON object, with the keys of smcr stats and smcd stats.
    #[arg(long)]
    pub json: bool,
}
