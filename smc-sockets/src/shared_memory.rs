//! Whether this process can use shared memory, and with whom.

use std::net::SocketAddr;

use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{Listeners, survey};

/// What can be said of shared memory before a connection is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SharedMemory {
    /// The address is not one of this host's.
    Elsewhere,
    /// Nobody listens there.
    NobodyListens,
    /// So many of those who listen there cannot be paired with, and so all are plain TCP.
    Plain(usize),
    /// All who listen there can be paired with.
    Ready(usize),
}

impl SharedMemory {
    /// Whether this process can use it at all: it takes memory files and sockets that
    /// Linux has had since 5.1.
    ///
    /// # Errors
    /// What is missing, as part of a sentence.
    pub fn probe() -> Result<(), String> {
        Device::open()
            .map(drop)
            .map_err(|error| format!("its memory cannot be made: {error}"))?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        survey(nowhere)
            .map(drop)
            .map_err(|error| format!("the kernel does not tell who listens (sock_diag): {error}"))
    }

    /// Who listens at an address; nobody hears of it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn at(address: SocketAddr) -> std::io::Result<Self> {
        Ok(match survey(address)? {
            None => Self::Elsewhere,
            Some(Listeners { all: 0, .. }) => Self::NobodyListens,
            Some(Listeners { all, named }) if named == all => Self::Ready(all),
            Some(Listeners { all, named }) => Self::Plain(all - named),
        })
    }
}
