//! Arguments of `metrics`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

use super::target::number;

/// Arguments of `metrics`.
#[derive(Args, Debug)]
pub struct MetricsArguments {
    /// Answer HTTP requests for /metrics at this address, until interrupted: PORT, of the
    /// loopback address alone, or ADDRESS:PORT. Port 0 is any free one.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Read what processes have counted at least every SECONDS, so that less is lost of those
    /// that end between two requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, requires = "listen",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub sample: u64,
    /// Show the address that is listened at, as is done on a terminal anyway.
    #[arg(short, long, requires = "listen")]
    pub verbose: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = number(text).ok();
    let alone = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    alone.or_else(|| text.parse().ok()).ok_or_else(|| {
        "neither a port nor an address with a port, such as 127.0.0.1:9137 or [::1]:9137".to_owned()
    })
}
