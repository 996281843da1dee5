//! Arguments of `ss`.

use clap::Args;

/// Arguments of `ss`.
#[derive(Args, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct SsArguments {
    /// Listeners, and connections of which nothing is decided, too.
    #[arg(short, long)]
    pub all: bool,
    /// Listeners alone.
    #[arg(short, long, conflicts_with_all = ["all", "details", "smcd", "smcr"])]
    pub listening: bool,
    /// Sizes of buffers, cursors and flags of each connection.
    #[arg(short, long)]
    pub details: bool,
    /// Connections over SMC-D alone, with GIDs and tokens.
    #[arg(short = 'D', long, conflicts_with = "smcr")]
    pub smcd: bool,
    /// Connections over SMC-R alone, with devices and GIDs.
    #[arg(short = 'R', long)]
    pub smcr: bool,
    /// Addresses as long as they are.
    #[arg(short = 'W', long)]
    pub wide: bool,
    /// The list again every SECONDS, until interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,
    /// One JSON object a line for each connection.
    #[arg(long)]
    pub json: bool,
    /// Below each TCP connection why it is TCP, and what to do.
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
}
