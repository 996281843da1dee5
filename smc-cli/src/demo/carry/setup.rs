//! Settings of a run, and where its progress is shown.

use smc_proto::version::SmcVersion;
use smc_proto::wire::types::BufferSize;
use smc_transport_sim::tcp::SmcOption;

/// Where bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the server.
    Server,
    /// Back at the client.
    Client,
}

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// RDMA between RNICs.
    SmcR,
    /// Memory that ISM devices of one machine share.
    SmcD {
        /// Whether each side writes into the other's memory itself.
        in_place: bool,
    },
}

impl Carrier {
    /// Name of the carrier.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmcR => "SMC-R",
            Self::SmcD { .. } => "SMC-D",
        }
    }
}

/// How a run is made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Seed of the engines, the wires and the choice of what dies.
    pub seed: u64,
    /// Size of all rings.
    pub ring: BufferSize,
    /// Whose SYN has the SMC option.
    pub option: SmcOption,
    /// What carries the bytes.
    pub carrier: Carrier,
    /// RNICs of each host, 1 to 8.
    pub rnics: u8,
    /// Version of SMC-R.
    pub version: SmcVersion,
    /// After which percentages of the source a link dies, in rising order.
    pub kills: Vec<u8>,
    /// After which percentage ports that are down come back.
    pub revive: Option<u8>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 1,
            ring: BufferSize::K64,
            option: SmcOption::BOTH,
            carrier: Carrier::SmcR,
            rnics: 1,
            version: SmcVersion::V1,
            kills: Vec::new(),
            revive: None,
        }
    }
}

/// What a run is shown to, and may be disturbed by.
pub struct Hooks<'a> {
    /// Called with the number of bytes that are back, now and then.
    pub progress: &'a mut dyn FnMut(u64),
    /// Sees what an application read, and may change it before it is checked.
    pub on_read: &'a mut dyn FnMut(Place, &mut [u8]),
}
