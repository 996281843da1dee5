//! The arguments of the command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// See SMC-R at work, and read what kernels say.
#[derive(Parser, Debug)]
#[command(
    name = "smcx",
    version,
    about,
    after_help = "Examples:\n  \
        smcx decode capture.pcap           SMC messages of a capture, one a line\n  \
        smcx decode capture.pcap --json    the same as JSON, one object a line\n  \
        smcx completions bash              completion script for a shell\n\n\
        Exit status: 0 success, 1 a problem (told on the error stream), 2 wrong usage."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the SMC messages in a capture.
    ///
    /// Reads pcap and pcapng files, gzip or not, taken from Ethernet or from
    /// Linux' "any" interface. TCP connections whose SYN carries the SMC option
    /// are followed for CLC messages, RoCE packets for LLC and CDC messages and
    /// RDMA WRITEs.
    #[command(after_help = "Examples:\n  \
        smcx decode capture.pcap                      one line a message\n  \
        smcx decode capture.pcapng.gz --verbose       all fields\n  \
        smcx decode capture.pcap --retransmissions    repeated packets as well\n  \
        smcx decode capture.pcap --json | jq -r 'select(.proto == \"clc\") | .type'\n\n\
        Lines: frame number, seconds since the first frame, sender -> receiver, protocol, message.\n\
        Malformed messages are shown in place; the exit status is 1 if there were any.")]
    Decode(DecodeArguments),
    /// Write a completion script for a shell.
    #[command(after_help = "Examples:\n  \
        smcx completions bash > /usr/share/bash-completion/completions/smcx\n  \
        smcx completions zsh > ~/.zfunc/_smcx\n  \
        smcx completions fish > ~/.config/fish/completions/smcx.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Arguments of `decode`.
#[derive(Args, Debug)]
pub struct DecodeArguments {
    /// Capture to read: pcap or pcapng, gzip or not; "-" for standard input.
    pub file: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// All fields of each message, one a line.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Show messages that were sent again, too.
    #[arg(long)]
    pub retransmissions: bool,
}
