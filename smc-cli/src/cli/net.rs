//! Arguments of the commands that open connections.

use clap::{Args, ValueEnum};

use super::{PolicyArgument, Target};

/// What may carry a connection.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// What the policy permits and the peer can, TCP where there is nothing else.
    Auto,
    /// RDMA where the peer can, TCP where not.
    Verbs,
    /// Shared memory where the peer can, TCP where not.
    Ism,
    /// TCP.
    Tcp,
}

/// Arguments of `listen`.
#[derive(Args, Debug)]
pub struct ListenArguments {
    /// Where to listen.
    #[command(flatten)]
    pub target: Target,
    /// Run this for each connection, by the shell, with the connection as its standard
    /// streams.
    #[arg(short, long, value_name = "COMMAND")]
    pub exec: Option<String>,
    /// Take further connections when one has ended; with --exec at once.
    #[arg(short, long)]
    pub keep_open: bool,
    /// Most commands of --exec that run at a time; further connections wait.
    #[arg(long, default_value_t = 64, value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub at_once: u32,
    /// What may carry connections.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,
    /// Show the address on the error stream first, as is done on a terminal anyway.
    #[arg(short, long)]
    pub verbose: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
}

/// Arguments of `connect`.
#[derive(Args, Debug)]
pub struct ConnectArguments {
    /// Address to connect to.
    #[command(flatten)]
    pub target: Target,
    /// What may carry the connection.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
}

/// Arguments of `why`.
#[derive(Args, Debug)]
pub struct WhyArguments {
    /// Address of the connection to examine.
    #[command(flatten)]
    pub target: Target,
    /// Make the connection, send nothing over it, and compare it with what was expected: the
    /// exit status is 1 if they differ.
    #[arg(long)]
    pub connect: bool,
    /// One JSON object for each address.
    #[arg(long)]
    pub json: bool,
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
}
