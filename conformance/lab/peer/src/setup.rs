//! A stack as a scenario wants it.

use std::io;

use smc_lab::orders::Engagement;
use smc_proto::wire::types::Eid;
use smc_sockets::policy::{Transport, UseOption};
use smc_sockets::{Policy, Rnics, Settings, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rdma::{self, RoceDevice, Unavailable};

/// More than any scenario has at once.
const CONNECTIONS: usize = 600;

/// A stack with all RNICs of this machine and without shared memory.
pub(crate) fn stack(engagement: &Engagement) -> io::Result<Stack> {
    let mut settings = Settings::default();
    settings.connections = CONNECTIONS;
    settings.policy = policy(&engagement.ueids)?;
    let names = match rdma::device_names() {
        Ok(names) => names,
        // It declines then, and says why.
        Err(Unavailable::NoDevice) => return Stack::with(settings),
        Err(error) => return Err(told(error)),
    };
    let devices = names
        .iter()
        .map(|name| RoceDevice::open(name).map_err(told));
    let devices = devices.collect::<io::Result<_>>()?;
    let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
    // As the kernel's that is built for this laboratory.
    let rnics = Rnics::new(devices, surroundings.with_v1_on_rocev2(engagement.v1))?;
    let rnics = match engagement.v1 {
        true => rnics.in_version_1(),
        false => rnics,
    };
    Stack::with_rnics(settings, rnics)
}

/// As a kernel has it: asked for by the TCP option, even if there is nothing to offer.
fn policy(ueids: &[String]) -> io::Result<Policy> {
    let mut policy = Policy::default();
    policy.transports = vec![Transport::Verbs];
    policy.tcp_option = UseOption::Always;
    for ueid in ueids {
        policy.ueids.push(Eid::user(ueid).map_err(told)?);
    }
    Ok(policy)
}

fn told(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}
