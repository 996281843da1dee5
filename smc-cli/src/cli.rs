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
        smcx                               the demo: a file's worth through two SMC stacks\n  \
        smcx demo --file f --pcap f.pcapng the same with a file of yours, and a capture of it\n  \
        smcx decode capture.pcap           SMC messages of a capture, one a line\n  \
        smcx decode capture.pcap --json    the same as JSON, one object a line\n  \
        smcx completions bash              completion script for a shell\n\n\
        Exit status: 0 success, 1 a problem (told on the error stream), 2 wrong usage."
)]
pub struct Cli {
    /// What to do; without it, the demo.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Carry a file from one simulated host to another and back over SMC-R.
    ///
    /// Two hosts, an RNIC and an SMC engine on each, and nothing but octets
    /// between them. The client sends the file, the server echoes it; then
    /// both close and take the link group down. Time is virtual: the same seed
    /// and the same octets give the same run and the same capture.
    #[command(after_help = "Examples:\n  \
        smcx demo                                  pseudo-random octets of a seed\n  \
        smcx demo --file photo.jpg                 a file\n  \
        smcx demo --bytes 1g --ring 512            1 GiB through rings of 512 KiB\n  \
        smcx demo --bytes 1m --pcap demo.pcapng    every frame, for Wireshark or smcx decode\n  \
        smcx demo --json | jq .gbit_per_s          numbers only\n\n\
        Seconds and Gbit/s are of real time, with SHA-256 and the capture included, unless they\n\
        are called virtual. Gbit/s counts the octets once although they go both ways.")]
    Demo(DemoArguments),
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
        /// One JSON object with the shell and its script.
        #[arg(long)]
        json: bool,
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

/// Octets the demo carries if nobody says how many: a second or two of work.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// Arguments of `demo`.
#[derive(Args, Debug, Clone)]
pub struct DemoArguments {
    /// Carry this file; "-" for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    pub file: Option<PathBuf>,
    /// Carry so many pseudo-random octets; k, m and g count KiB, MiB and GiB.
    #[arg(long, value_name = "N", default_value = "256m", value_parser = octets)]
    pub bytes: u64,
    /// Seed of the octets, the engines and the wires.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Size of send and receive buffers in KiB.
    #[arg(long, value_name = "KIB", default_value = "64",
          value_parser = ["16", "32", "64", "128", "256", "512"])]
    pub ring: String,
    /// Write every frame to this pcapng capture.
    #[arg(long, value_name = "OUT")]
    pub pcap: Option<PathBuf>,
    /// Keep at most N payload octets of each RDMA WRITE packet in the capture
    /// [default: all up to 16 MiB of data, else 64].
    #[arg(long, value_name = "N", requires = "pcap")]
    pub snap: Option<usize>,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Leave out the ladder of messages.
    #[arg(long)]
    pub no_ladder: bool,
    /// Say nothing if all goes well.
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

impl Default for DemoArguments {
    fn default() -> Self {
        Self {
            file: None,
            bytes: DEFAULT_BYTES,
            seed: 1,
            ring: "64".to_owned(),
            pcap: None,
            snap: None,
            json: false,
            no_ladder: false,
            quiet: false,
        }
    }
}

/// A number of octets with k, m or g for KiB, MiB and GiB.
fn octets(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let short = lower
        .strip_suffix("ib")
        .or(lower.strip_suffix('b'))
        .unwrap_or(&lower);
    let (digits, shift) = match short.char_indices().last() {
        Some((at, 'k')) => (&short[..at], 10),
        Some((at, 'm')) => (&short[..at], 20),
        Some((at, 'g')) => (&short[..at], 30),
        _ => (short, 0),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .filter(|_| !digits.starts_with('+'));
    let wanted = "a number of octets is wanted, such as 1000, 64k, 10m or 1g";
    number
        .ok_or(wanted)?
        .checked_mul(1 << shift)
        .ok_or_else(|| "too many octets".to_owned())
}
