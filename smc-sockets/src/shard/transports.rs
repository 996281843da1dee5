//! What carries bytes to peers, behind one shape: commands are carried out, completions
//! and path changes read, bytes copied to and from buffers, and paths offered.
//!
//! ```text
//!   Endpoint ──► execute_commands ───► the devices
//!            ◄── poll, poll_rnics ◄── completions, when their descriptors are readable
//!   bytes ────► fill, take ─── the buffers that the engine names
//!   Proposed ──► client, server: the paths of a connection
//! ```
//!
//! Shared memory is always there and comes first: what is done for it costs nothing more
//! because there may be RNICs.

mod verbs;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use smc_proto::command::BufferSpans;
use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{PollOutcome, Proposed};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{IsmPath, LocalPath, Paths};
use smc_proto::time::Instant;
use smc_proto::wire::clc::ClcMessage;
use smc_transport_ism::binding::Binding;
use smc_transport_ism::device::IsmDevice;
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::Peer;

pub(crate) use verbs::{Rnics, Verbs};

use crate::tracing::Engine;

/// The number of the device of shared memory; RNICs have those behind it.
const SHARED_MEMORY: DeviceId = DeviceId(0);

/// The transports of an endpoint.
pub(crate) struct Transports {
    /// Shared memory.
    pub(crate) ism: Binding<Device>,
    /// RNICs, if there are any.
    pub(crate) verbs: Option<Box<dyn Verbs>>,
}

/// Which transport carries a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// Shared memory.
    Ism,
    /// RNICs.
    Verbs,
}

/// Paths that a connection may take.
#[derive(Default)]
pub(crate) struct Offered {
    ism: Option<IsmPath>,
    rnics: Vec<LocalPath>,
}

impl Offered {
    /// Addresses of a client's stack, as the engine takes them.
    pub(crate) fn paths(&self) -> Paths<'_> {
        Paths::new(&self.rnics, self.ism.as_slice())
    }

    /// Whether RNICs may come to carry the connection.
    pub(crate) fn has_rnics(&self) -> bool {
        !self.rnics.is_empty()
    }
}

/// The memory of a buffer is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone;

impl Transports {
    pub(crate) fn new(device: Device, verbs: Option<Box<dyn Verbs>>) -> Self {
        let mut ism = Binding::new(device, SHARED_MEMORY);
        // By the driver, all its life.
        ism.device_mut().set_externally_polled();
        ism.device_mut().park();
        Self { ism, verbs }
    }

    /// What the driver waits for shared memory at.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.ism.device().descriptor()
    }

    /// Executes all commands of the engine to the devices.
    #[inline]
    pub(crate) fn execute_commands(&mut self, engine: &mut Engine, now: Instant) {
        while let Some(command) = engine.poll_ism(now, self.ism.id()) {
            self.ism.execute(command);
        }
        if let Some(verbs) = &mut self.verbs {
            verbs.execute_commands(engine, now);
        }
    }

    /// Whether the engine has neither commands nor events.
    #[inline]
    pub(crate) fn is_idle(&self, engine: &Engine) -> bool {
        // Commands to RNICs are executed by these.
        self.verbs.is_none() && engine.is_idle(self.ism.id())
    }

    /// The next completion of shared memory, if there is one.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<IsmCompletion> {
        self.ism.poll()
    }

    /// Polls the head of the DMB of a connection over shared memory, before the device reports
    /// a message there.
    #[inline]
    pub(crate) fn poll_head(&self, engine: &mut Engine, conn: ConnId, now: Instant) -> PollOutcome {
        engine.poll_dmb(now, conn, |buffer, head| self.ism.poll_head(buffer, head))
    }

    /// Receives the message at the head of the DMB of a connection over shared memory, whether it was
    /// received already or not, also while the device is parked.
    #[cold]
    pub(super) fn receive_head(
        &self,
        engine: &mut Engine,
        conn: ConnId,
        now: Instant,
    ) -> PollOutcome {
        engine.poll_dmb(now, conn, |buffer, head| {
            let last = self.ism.read_head(buffer);
            last.is_some_and(|last| {
                *head = last;
                true
            })
        })
    }

    /// Reports to the engine what happened to RNICs, and returns whether anything did.
    pub(crate) fn poll_rnics(&mut self, engine: &mut Engine, now: Instant) -> bool {
        let verbs = self.verbs.as_mut();
        verbs.is_some_and(|verbs| verbs.drain_completions(engine, now))
    }

    /// Whether RNICs have completions although their descriptor may not be readable.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.verbs.as_ref().is_some_and(|verbs| verbs.is_due())
    }

    /// Copies bytes into free space of a send buffer: how many fitted.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        via: Via,
        space: &BufferSpans,
        octets: &[u8],
    ) -> Result<u32, Gone> {
        match (via, &mut self.verbs) {
            (Via::Ism, _) => self.ism.fill(space, octets).map_err(|_| Gone),
            (Via::Verbs, Some(verbs)) => verbs.fill(space, octets),
            (Via::Verbs, None) => Err(Gone),
        }
    }

    /// Copies readable bytes out of a receive buffer: how many fitted.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        via: Via,
        conn: ConnId,
        readable: &BufferSpans,
        into: &mut [u8],
    ) -> u32 {
        match (via, &mut self.verbs) {
            (Via::Ism, _) => self.ism.take(readable, into).unwrap_or(0),
            (Via::Verbs, Some(verbs)) => verbs.take(conn, readable, into),
            (Via::Verbs, None) => 0,
        }
    }

    /// What a client proposes: shared memory if it is paired with the server.
    pub(crate) fn client(
        &mut self,
        paired: Option<Peer>,
        local: IpAddr,
        peer: SocketAddr,
    ) -> Offered {
        let rnics = self.verbs.as_mut().map(|verbs| verbs.client(local, peer));
        // An Accept of another process's GID would lead to that process. Nor may the server
        // name its own if the device has no channel to it: another process may have that GID.
        //= SHM-055
        let path = |paired: Peer| {
            let path = self.path(Some(paired));
            let is_joined = self.ism.device().is_joined(&paired);
            let named = self.ism.named(paired.gid);
            let mut path = path;
            path.reaches = Some(if is_joined { named } else { path.gid });
            path
        };
        Offered {
            ism: paired.map(path),
            rnics: rnics.unwrap_or_default(),
        }
    }

    /// What a client proposes to peers of one user, of which any may answer, that it has channels
    /// to. The Accept has to name the one that has answered ([`Self::names`]).
    pub(crate) fn announced(&self, peers: &[Peer]) -> Option<Offered> {
        //= SHM-055
        let reaches = match peers {
            [peer] => Some(self.ism.named(peer.gid)),
            _ => None,
        };
        let mut path = self.path(peers.first().copied());
        path.reaches = reaches;
        let are_joined = peers.iter().all(|peer| self.ism.device().is_joined(peer));
        (are_joined && !peers.is_empty()).then(|| Offered {
            ism: Some(path),
            rnics: Vec::new(),
        })
    }

    /// Whether an answer names the device of this peer, unless it is a Decline.
    //= SHM-055
    pub(crate) fn names(&self, peer: Peer, answer: &[u8]) -> bool {
        match ClcMessage::parse(answer) {
            Ok((ClcMessage::SmcdAccept(accept), _)) => {
                let (of, named) = (accept.device(), self.ism.named(peer.gid));
                (of.gid, of.gid_ext) == (named.gid, named.gid_ext)
            }
            Ok((ClcMessage::Decline(_), _)) => true,
            _ => false,
        }
    }

    /// What a server with this address has for a Proposal.
    pub(crate) fn server(
        &mut self,
        paired: Option<Peer>,
        local: IpAddr,
        proposed: Option<Proposed>,
    ) -> Offered {
        let mut path = self.path(paired);
        let mut rnics = Vec::new();
        if let Some(proposed) = proposed {
            // Only the process that was paired is reached, whatever else is proposed.
            //= SHM-055
            let joined = paired.filter(|peer| self.ism.device().is_joined(peer));
            let wanted = joined.map(|peer| self.ism.named(peer.gid));
            path.reaches = proposed.ism_gids().find(|gid| Some(*gid) == wanted);
            if let Some(verbs) = &mut self.verbs {
                rnics = verbs.server(local, &proposed);
            }
        }
        let ism = Some(path);
        Offered { ism, rnics }
    }

    fn path(&self, paired: Option<Peer>) -> IsmPath {
        let device = self.ism.device();
        let toward = |peer: Peer| self.ism.named(device.gids().toward(peer.uid));
        let gid = paired.map_or(self.ism.gid(), toward);
        let mut path = IsmPath::new(self.ism.id(), gid);
        path.v2 = device.facts().version_2;
        path.attaches = true;
        path
    }
}

#[cfg(test)]
mod tests {
    use smc_transport_ism::device::Gid128;

    use super::*;

    /// A server whose channel did not come about, of a GID that it claims.
    //= SHM-055 test
    #[test]
    fn a_client_reaches_no_server_that_it_has_no_channel_to() {
        let mut transports = Transports::new(Device::open().unwrap(), None);
        let gid = Gid128 { gid: 7, ext: 7 };
        let server = SocketAddr::from(([127, 0, 0, 1], 1));
        let offered = transports.client(Some(Peer { gid, uid: 1 }), server.ip(), server);
        let [path] = offered.paths().ism else {
            panic!("one path");
        };
        let only = path.reaches.expect("one device");
        assert_ne!(only, transports.ism.named(gid));
        assert_eq!(only, path.gid, "no server has it");
    }
}
