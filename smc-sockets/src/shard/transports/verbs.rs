//! RNICs, of whatever kind: SMC-R.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use smc_proto::command::BufferSpans;
use smc_proto::config::MAX_DEVICES;
use smc_proto::endpoint::Proposed;
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::time::Instant;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::Mac;
use smc_transport_verbs::binding::{Binding, PathChange};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::{KernelRoutes, Surroundings};
use smc_transport_verbs::rnic::{Rnic, RnicError};

use super::{Gone, SHARED_MEMORY};
use crate::tracing::Engine;

/// RNICs and what surrounds them, whatever devices they are: one call more is little for
/// them, and streams need not name them.
pub(crate) trait Verbs: Send {
    /// Readable when there may be something to take in.
    fn descriptor(&self) -> BorrowedFd<'_>;
    /// Executes the engine's commands to them, and reports what is answered at once.
    fn execute_commands(&mut self, engine: &mut Engine, now: Instant);
    /// Reports to the engine what happened, and returns whether anything did.
    fn drain_completions(&mut self, engine: &mut Engine, now: Instant) -> bool;
    /// Whether there is something to take in that the descriptor does not show.
    fn is_due(&self) -> bool;
    /// Copies bytes into free space of a send buffer: how many fitted.
    fn fill(&self, space: &BufferSpans, octets: &[u8]) -> Result<u32, Gone>;
    /// Copies readable bytes out of an RMB: how many fitted.
    fn take(&mut self, conn: ConnId, readable: &BufferSpans, into: &mut [u8]) -> u32;
    /// The paths of a client with these addresses.
    fn client(&mut self, local: IpAddr, peer: SocketAddr) -> Vec<LocalPath>;
    /// The paths of a server with this address, to which this was proposed.
    fn server(&mut self, local: IpAddr, proposed: &Proposed) -> Vec<LocalPath>;
    /// Events that report the ports to the engine in advance.
    fn ports(&mut self) -> Vec<PathEvent>;
    /// What a client announces about the networks of its address.
    fn subnets(&self, local: IpAddr) -> Option<Subnets>;
    /// VLAN of the interface that has an address.
    fn vlan(&self, local: IpAddr) -> Option<u16>;
    /// MAC that identifies this stack.
    fn mac(&self) -> Mac;
    /// Bytes that the process may lock, if an RNIC last refused for that.
    fn reached_limit(&self) -> Option<u64>;
    /// Names of a port of a device.
    fn names(&self, device: DeviceId, port: u8) -> Option<PortNames>;
}

/// By what names people know a port of an RNIC.
#[derive(Default)]
pub(crate) struct PortNames {
    /// The device.
    pub(crate) device: String,
    /// Network interface of the port.
    pub(crate) interface: String,
    /// PNET ID of the port; empty if it has none.
    pub(crate) pnet: String,
}

/// Completions taken in at one go, so that no peer keeps the lock for itself.
const COMPLETIONS: usize = 1024;

/// RNICs of one kind.
pub(crate) struct Rnics<R: Rnic> {
    binding: Binding<R>,
    surroundings: Surroundings,
}

impl<R: Rnic> Rnics<R> {
    /// RNICs of a list, at most as many as an endpoint can have.
    pub(crate) fn new(rnics: Vec<R>, mut surroundings: Surroundings) -> io::Result<Self> {
        let mut binding = Binding::new()?;
        // Those of shared memory have their numbers from the same series.
        let numbers = (SHARED_MEMORY.0 + 1)..MAX_DEVICES as u8;
        for (device, rnic) in numbers.map(DeviceId).zip(rnics) {
            surroundings.set_ports(device, rnic.ports().map_err(failure)?);
            binding.add(device, rnic)?;
        }
        Ok(Self {
            binding,
            surroundings,
        })
    }

    /// Events that report a change to the engine.
    fn events(&mut self, change: PathChange) -> Vec<PathEvent> {
        let Self {
            binding,
            surroundings,
        } = self;
        if let PathChange::Changed { device, .. } = change
            && let Some(rnic) = binding.rnic(device)
        {
            // An RNIC whose ports cannot be read has none; and GIDs change because addresses do.
            surroundings.set_ports(device, rnic.ports().unwrap_or_default());
            if let Ok(network) = Network::read() {
                surroundings.set_network(network);
            }
        }
        let list = |device, port| surroundings.port(device, port);
        change.events(list).collect()
    }
}

fn failure(error: RnicError) -> io::Error {
    io::Error::other(error.to_string())
}

impl<R: Rnic> Verbs for Rnics<R> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.binding.as_fd()
    }

    fn execute_commands(&mut self, engine: &mut Engine, now: Instant) {
        while self.binding.carry_out(engine, now) {
            while let Some(answer) = self.binding.answered() {
                engine.handle_rdma(now, answer);
            }
        }
    }

    fn drain_completions(&mut self, engine: &mut Engine, now: Instant) -> bool {
        let mut any = false;
        for _ in 0..COMPLETIONS {
            let Some(completion) = self.binding.poll() else {
                break;
            };
            engine.handle_rdma(now, completion);
            any = true;
        }
        while let Some(change) = self.binding.poll_path() {
            for event in self.events(change) {
                engine.handle_path(now, event);
            }
            any = true;
        }
        any
    }

    fn is_due(&self) -> bool {
        self.binding.is_due()
    }

    fn fill(&self, space: &BufferSpans, octets: &[u8]) -> Result<u32, Gone> {
        self.binding.fill(space, octets).map_err(|_| Gone)
    }

    fn take(&mut self, conn: ConnId, readable: &BufferSpans, into: &mut [u8]) -> u32 {
        self.binding.take(conn, readable, into).unwrap_or(0)
    }

    fn client(&mut self, local: IpAddr, peer: SocketAddr) -> Vec<LocalPath> {
        self.surroundings.client(local, peer.ip(), &KernelRoutes)
    }

    fn server(&mut self, local: IpAddr, proposed: &Proposed) -> Vec<LocalPath> {
        self.surroundings.server(local, proposed, &KernelRoutes)
    }

    fn ports(&mut self) -> Vec<PathEvent> {
        let ports = self.surroundings.ports().iter();
        let ports: Vec<_> = ports.map(|(device, port)| (*device, port.port)).collect();
        let paths = |(device, port)| self.surroundings.port(device, port);
        let paths = ports.into_iter().flat_map(paths);
        paths.map(PathEvent::PortUp).collect()
    }

    fn subnets(&self, local: IpAddr) -> Option<Subnets> {
        self.surroundings.subnets(local)
    }

    fn vlan(&self, local: IpAddr) -> Option<u16> {
        self.surroundings.vlan(local)
    }

    fn mac(&self) -> Mac {
        let ports = self.surroundings.ports().iter();
        let mut gids = ports.flat_map(|(_, port)| &port.gids);
        let network = self.surroundings.network();
        gids.find_map(|gid| network.interface(gid.interface))
            .map(|interface| interface.mac)
            .unwrap_or_default()
    }

    fn names(&self, device: DeviceId, port: u8) -> Option<PortNames> {
        let mut ports = self.surroundings.ports().iter();
        let (_, port) = ports.find(|(of, at)| *of == device && at.port == port)?;
        let network = self.surroundings.network();
        let mut interfaces = port.gids.iter().map(|gid| network.interface(gid.interface));
        let interface = interfaces.find_map(|at| at.map(|at| at.name.clone()));
        let pnet = self.surroundings.pnet_of_port(port);
        Some(PortNames {
            device: port.device.clone(),
            interface: interface.unwrap_or_default(),
            pnet: pnet.map(|id| id.to_string()).unwrap_or_default(),
        })
    }

    fn reached_limit(&self) -> Option<u64> {
        let refusal = self.binding.last_refusal()?;
        let rnic = self
            .binding
            .devices()
            .find_map(|device| self.binding.rnic(device));
        rnic.filter(|_| refusal.is_memory_limit())?.lock_limit()
    }
}
