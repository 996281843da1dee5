//! What carries octets to peers, behind one shape: commands are carried out, completions
//! and news taken in, octets copied to and from buffers, and paths offered.
//!
//! ```text
//!   Endpoint ──► carry_out ──► the device
//!            ◄── poll ◄─────── its completions, when the descriptor is readable
//!   octets ────► fill, take ── the buffers that the engine names
//!   Proposed ──► client, server: the paths of a connection
//! ```

use std::os::fd::{AsFd, BorrowedFd};

use smc_proto::command::BufferSpans;
use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{Endpoint, Proposed};
use smc_proto::id::DeviceId;
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::Owned;
use smc_proto::time::Instant;
use smc_transport_ism::binding::Binding;
use smc_transport_ism::device::IsmDevice;
use smc_transport_ism::shared::Device;

/// The transports of an endpoint.
pub(crate) struct Transports {
    /// Shared memory.
    pub(crate) ism: Binding<Device>,
}

/// Paths that a connection may take.
pub(crate) struct Offered {
    ism: [IsmPath; 1],
}

impl Offered {
    /// As the engine takes them.
    pub(crate) fn paths(&self) -> Paths<'_> {
        Paths {
            rnics: &[],
            ism: &self.ism,
        }
    }
}

/// The memory of a buffer is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone;

impl Transports {
    pub(crate) fn new(device: Device) -> Self {
        let mut ism = Binding::new(device, DeviceId(0));
        // By the driver, all its life.
        ism.device_mut().is_heard();
        ism.device_mut().park();
        Self { ism }
    }

    /// What the driver waits for.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ism.device().as_fd()
    }

    /// Carries out all that the engine wants of the devices.
    #[inline]
    pub(crate) fn carry_out(&mut self, engine: &mut Endpoint<Owned>, now: Instant) {
        while let Some(command) = engine.poll_ism(now, self.ism.id()) {
            self.ism.execute(command);
        }
    }

    /// The next completion, if there is one.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<IsmCompletion> {
        self.ism.poll()
    }

    /// Copies octets into free space of a send buffer: how many fitted.
    #[inline]
    pub(crate) fn fill(&mut self, space: &BufferSpans, octets: &[u8]) -> Result<u32, Gone> {
        self.ism.fill(space, octets).map_err(|_| Gone)
    }

    /// Copies readable octets out of a receive buffer: how many fitted.
    #[inline]
    pub(crate) fn take(&self, readable: &BufferSpans, into: &mut [u8]) -> u32 {
        self.ism.take(readable, into).unwrap_or(0)
    }

    /// What a client proposes.
    pub(crate) fn client(&self) -> Offered {
        Offered { ism: [self.path()] }
    }

    /// What a server has for a Proposal.
    pub(crate) fn server(&mut self, proposed: Option<Proposed>) -> Offered {
        let mut path = self.path();
        if let Some(proposed) = proposed {
            path.reaches = proposed.ism_gids().find(|gid| self.ism.reaches(*gid));
        }
        Offered { ism: [path] }
    }

    fn path(&self) -> IsmPath {
        IsmPath {
            v2: self.ism.device().facts().version_2,
            attaches: true,
            ..IsmPath::new(self.ism.id(), self.ism.gid())
        }
    }
}
