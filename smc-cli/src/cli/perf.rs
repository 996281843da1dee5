//! Arguments of `perf`.

use clap::Args;

use super::values::byte_count;
use super::{PolicyArgument, Transport};

/// The port that `smcx perf --server` listens at.
const PERF_PORT: u16 = 5210;

/// Arguments of `perf`.
#[derive(Args, Debug)]
pub struct PerfArguments {
    /// Wait for clients.
    #[arg(short, long, conflicts_with = "client")]
    pub server: bool,
    /// Connect to a server.
    #[arg(short, long, value_name = "HOST")]
    pub client: Option<String>,
    /// The server's port.
    #[arg(short, long, default_value_t = PERF_PORT)]
    pub port: u16,
    /// Address that the server listens at, in place of all.
    #[arg(
        short = 'B',
        long,
        value_name = "HOST",
        requires = "server",
        conflicts_with = "client"
    )]
    pub bind: Option<String>,
    /// End after one test.
    #[arg(short = '1', long, requires = "server", conflicts_with = "client")]
    pub one_off: bool,
    /// Longest test that the server takes.
    #[arg(long, default_value_t = 3600.0, value_name = "SECONDS", value_parser = seconds,
        requires = "server", conflicts_with = "client")]
    pub longest: f64,
    /// How long each measurement takes: 10 seconds with --client, otherwise 1.
    #[arg(short = 't', long = "time", visible_alias = "seconds", value_name = "SECONDS",
        value_parser = seconds, conflicts_with_all = ["server", "bytes"])]
    pub seconds: Option<f64>,
    /// Bytes that all streams of a direction carry together, with k, m or g for KiB, MiB and
    /// GiB, in place of a time.
    #[arg(short = 'n', long, value_parser = byte_count, requires = "client",
        conflicts_with = "round_trip")]
    pub bytes: Option<u64>,
    /// Streams at a time, in each direction.
    #[arg(short = 'P', long, default_value_t = 1, value_name = "STREAMS", requires = "client",
        value_parser = clap::value_parser!(u16).range(1..=128))]
    pub parallel: u16,
    /// Seconds between lines; 0 for none.
    #[arg(short, long, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    pub interval: f64,
    /// Bytes of a write, 128k by default; of a message that goes there and back, 64.
    #[arg(short, long = "length", visible_alias = "size", value_name = "BYTES",
        value_parser = length)]
    pub length: Option<u32>,
    /// The server sends.
    #[arg(short = 'R', long, requires = "client", conflicts_with_all = ["bidir", "round_trip"])]
    pub reverse: bool,
    /// Both send, over streams of their own.
    #[arg(long, requires = "client", conflicts_with = "round_trip")]
    pub bidir: bool,
    /// Messages go there and back.
    #[arg(long, visible_alias = "latency", requires = "client")]
    pub round_trip: bool,
    /// What may carry streams: all that the policy permits, if there is a server or a client;
    /// otherwise, measure only this one.
    #[arg(long, value_enum)]
    pub transport: Option<Transport>,
    /// One JSON object: of a test, or of each transport.
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
    /// Be the other end.
    #[arg(long, hide = true)]
    pub serve: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("from 0.01 to 86400".to_owned())
    }
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if seconds == 0.0 || (0.1..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("0, or from 0.1 to 3600".to_owned())
    }
}

fn length(text: &str) -> Result<u32, String> {
    let byte_count = byte_count(text)?;
    let length = u32::try_from(byte_count).ok();
    length
        .filter(|length| (1..=1 << 20).contains(length))
        .ok_or_else(|| "from 1 to 1m".to_owned())
}
