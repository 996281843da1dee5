//! The arguments of `demo`.

use std::path::PathBuf;

use clap::Args;
use smc_proto::version::SmcVersion;

use super::values::{Percentages, byte_count, percentage, rnics};

/// Bytes the demo carries by default: a second or two of work.
pub const DEFAULT_BYTES: u64 = 256 << 20;

/// Arguments of `demo`.
#[derive(Args, Debug, Clone)]
pub struct DemoArguments {
    /// Carry this file; "-" for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    pub file: Option<PathBuf>,
    /// Carry so many pseudo-random bytes; k, m and g count KiB, MiB and GiB.
    #[arg(long, value_name = "N", default_value = "256m", value_parser = byte_count)]
    pub bytes: u64,
    /// Seed of the bytes, the engines and the wires.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Size of send and receive buffers in KiB.
    #[arg(long, value_name = "KIB", default_value = "64",
          value_parser = ["16", "32", "64", "128", "256", "512"])]
    pub ring: String,
    /// Carry it over SMC-D, between ISM devices of one machine. A capture holds TCP and
    /// CLC of that, and no more.
    #[arg(long, conflicts_with_all = ["rnics", "smc_version", "kill_link"])]
    pub smc_d: bool,
    /// With --smc-d: copy by the device, instead of writing into the peer's memory.
    #[arg(long, requires = "smc_d")]
    pub moves: bool,
    /// RNICs of each host, all on one LAN, 1 to 8: the link group gets as many links.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = rnics)]
    pub rnics: u8,
    /// Version of SMC-R; groups of version 2 have two links at most.
    #[arg(long, value_name = "VERSION", default_value = "1", value_parser = ["1", "2"])]
    pub smc_version: String,
    /// When so many percent of the file are back, a link that carries data dies;
    /// several percentages: several links, one after the other.
    #[arg(long, value_name = "PCT[,PCT...]")]
    pub kill_link: Option<Percentages>,
    /// When so many percent are back, ports that are down come back, and the
    /// engines add links again.
    #[arg(long, value_name = "PCT", requires = "kill_link", value_parser = percentage)]
    pub revive: Option<u8>,
    /// Write every frame to this pcapng capture.
    #[arg(long, value_name = "OUT")]
    pub pcap: Option<PathBuf>,
    /// Keep at most N payload bytes of each RDMA WRITE packet in the capture
    /// [default: all up to 16 MiB of data, else 64].
    #[arg(long, value_name = "N", requires = "pcap")]
    pub snap: Option<usize>,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Leave out the ladder of messages.
    #[arg(long)]
    pub no_ladder: bool,
    /// Print nothing if all goes well.
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
            smc_d: false,
            moves: false,
            rnics: 1,
            smc_version: "1".to_owned(),
            kill_link: None,
            revive: None,
            pcap: None,
            snap: None,
            json: false,
            no_ladder: false,
            quiet: false,
        }
    }
}

impl DemoArguments {
    /// The version of SMC-R that is asked for.
    #[must_use]
    pub fn version(&self) -> SmcVersion {
        match self.smc_version.as_str() {
            "2" => SmcVersion::V2,
            _ => SmcVersion::V1,
        }
    }

    /// Whether the arguments fit each other.
    ///
    /// # Errors
    /// A sentence that names what does not.
    pub fn check(&self) -> Result<(), String> {
        let first = self.kill_link.as_ref().and_then(|kills| kills.0.first());
        match (self.revive, first) {
            (Some(revive), Some(first)) if revive <= *first => Err(format!(
                "--revive {revive} comes too early: nothing is dead before {first} percent"
            )),
            _ => Ok(()),
        }
    }
}
