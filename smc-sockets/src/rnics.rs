//! RNICs for a stack: SMC-R, with peers on other hosts.

use std::fmt;
use std::io;

use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rnic::Rnic;

use crate::shard::{BoundRnics, Verbs};

/// RNICs that a [`Stack`](crate::Stack) uses besides shared memory.
///
/// A stack that is made without any uses those of [`Self::of_host`], if this crate has the feature
/// `rdma` and the host has any.
pub struct Rnics {
    pub(crate) verbs: Box<dyn Verbs>,
    /// Whether every peer is taken to speak SMC.
    pub(crate) assumes_smc: bool,
    /// Whether shared memory is not used.
    pub(crate) alone: bool,
    /// Whether SMC-R is offered in version 1 only.
    pub(crate) in_version_1: bool,
}

impl Rnics {
    /// All RoCE devices of this host, without a table of physical networks.
    ///
    /// # Errors
    /// The host has none, or one cannot be used. The message says what to do.
    pub fn of_host() -> io::Result<Self> {
        Self::of_host_with(PnetTable::default())
    }

    /// All RoCE devices of this host, with a table of physical networks.
    ///
    /// # Errors
    /// Errors of [`Self::of_host`].
    #[cfg(feature = "rdma")]
    pub fn of_host_with(pnet: PnetTable) -> io::Result<Self> {
        use smc_transport_verbs::network::Network;
        use smc_transport_verbs::rdma::{RoceDevice, device_names};

        let failure =
            |why: smc_transport_verbs::rdma::Unavailable| io::Error::other(why.to_string());
        let names = device_names().map_err(failure)?;
        let devices = names
            .iter()
            .map(|name| RoceDevice::open(name).map_err(failure));
        let devices = devices.collect::<io::Result<_>>()?;
        Self::new(devices, Surroundings::new(Network::read()?, pnet))
    }

    /// Fails: this crate was built without the feature `rdma`.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "rdma"))]
    pub fn of_host_with(_: PnetTable) -> io::Result<Self> {
        let why = "smc-sockets was built without the feature rdma";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// The given RNICs, 15 at most, with their ports as they are now. `surroundings` are the
    /// networks and the routes of the host.
    ///
    /// # Errors
    /// Errors of the operating system, and of an RNIC that does not report its ports.
    pub fn new<R: Rnic>(rnics: Vec<R>, surroundings: Surroundings) -> io::Result<Self> {
        Ok(Self {
            verbs: Box::new(BoundRnics::new(rnics, surroundings)?),
            assumes_smc: false,
            alone: false,
            in_version_1: false,
        })
    }

    /// Takes every peer to speak SMC, without SMC's TCP option. Only for networks in which both ends do
    /// so, as in a laboratory: any other server reads a Proposal as its client's data, and any other
    /// client is reset, or waits for bytes of a server that waits for CLC.
    #[must_use]
    pub fn assuming_smc(mut self) -> Self {
        self.assumes_smc = true;
        self
    }

    /// Uses RNICs alone: no shared memory, not even with processes of this host.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Offers SMC-R in version 1 only, as hosts do that have no other.
    #[must_use]
    pub fn in_version_1(mut self) -> Self {
        self.in_version_1 = true;
        self
    }
}

impl fmt::Debug for Rnics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rnics").finish_non_exhaustive()
    }
}
