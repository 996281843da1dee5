//! The engine and its RNICs.

use std::io;
use std::net::Ipv4Addr;

use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::Endpoint;
use smc_proto::id::DeviceId;
use smc_proto::storage::{Limits, Owned};
use smc_proto::wire::types::{Eid, Mac, PeerId};
use smc_transport_verbs::binding::Binding;
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rdma::{self, RoceDevice, Unavailable};

use crate::host::Host;

/// More than any scenario has at once.
const CONNECTIONS: usize = 600;

/// A host with all RNICs of this machine, which offers SMC-R of version 1, or of
/// version 2 with these UEIDs.
pub(crate) fn host(local: Ipv4Addr, v1: bool, ueids: &[String]) -> io::Result<Host> {
    let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
    // As the kernel's that is built for this laboratory.
    let mut surroundings = surroundings.with_v1_on_rocev2(v1);
    let mut binding = Binding::new()?;
    let names = match rdma::device_names() {
        Ok(names) => names,
        // The engine declines then, and says why.
        Err(Unavailable::NoDevice) => Vec::new(),
        Err(error) => return Err(told(error)),
    };
    for (device, name) in (0..).map(DeviceId).zip(&names) {
        let rnic = RoceDevice::open(name).map_err(told)?;
        surroundings.set_ports(device, rnic.ports().map_err(told)?);
        binding.add(device, rnic)?;
    }
    let holder = surroundings.network().holder(local.into());
    let mac = holder.map_or(Mac::default(), |interface| interface.mac);
    let mut random = [0; 10];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let [a, b, seed @ ..] = random;
    let mut config = Config::new(PeerId::new(u16::from_be_bytes([a, b]), mac));
    config.offers = if v1 { Offers::SMCR_V1 } else { Offers::SMCR_V2 };
    for ueid in ueids {
        let eid = Eid::user(ueid).map_err(|error| io::Error::other(format!("{error:?}")))?;
        config
            .v2
            .ueids
            .push(eid)
            .map_err(|_| io::Error::other("too many UEIDs"))?;
    }
    let storage = Owned::new(Limits::for_connections(CONNECTIONS));
    let engine = Endpoint::new(config, u64::from_ne_bytes(seed), storage);
    Ok(Host::new(engine, binding, surroundings))
}

pub(crate) fn told(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}
