//! Arguments of `proxy`.

use clap::Args;

use super::{HostPort, PolicyArgument, Target, Transport};

/// Arguments of `proxy`.
#[derive(Args, Debug)]
pub struct ProxyArguments {
    /// Where to listen: a port of all addresses, or HOST:PORT.
    #[arg(value_name = "LISTEN")]
    pub listen: String,
    /// Where connections are passed on to: HOST:PORT.
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// What may carry the connections that are taken.
    #[arg(long, value_enum, default_value_t = Transport::Auto, value_name = "TRANSPORT")]
    pub from: Transport,
    /// What may carry the connections to the target.
    #[arg(long, value_enum, default_value_t = Transport::Auto, value_name = "TRANSPORT")]
    pub to: Transport,
    /// Most connections at a time; further ones wait in the kernel.
    #[arg(long, default_value_t = 1024, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub at_once: u32,
    /// How long connecting to the target may take.
    #[arg(long, default_value_t = 10, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=600))]
    pub connect_timeout: u32,
    /// Reset connections over which nothing came for so long; 0 for never.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub idle: u32,
    /// How long connections have to end when the proxy does.
    #[arg(long, default_value_t = 5, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub drain: u32,
    /// The table at the end as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Show the address that is listened at, as on a terminal, and a line for each connection that
    /// ended.
    #[arg(short, long)]
    pub verbose: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
}

impl ProxyArguments {
    /// Where to listen.
    ///
    /// # Errors
    /// A sentence that names what is missing or wrong.
    pub fn to_listen(&self) -> Result<HostPort, String> {
        Self::place(&self.listen).to_listen()
    }

    /// Where to connect to.
    ///
    /// # Errors
    /// A sentence that names what is missing or wrong.
    pub fn to_connect(&self) -> Result<HostPort, String> {
        Self::place(&self.target).to_connect()
    }

    fn place(text: &str) -> Target {
        Target {
            host: text.to_owned(),
            port: None,
        }
    }
}
