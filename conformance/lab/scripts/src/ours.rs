//! Sockets of our own, over the RNICs of this machine.

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;

use conformance::scripts::RnicAct;
use smc_lab::netlink::rdma;
use smc_live::{Below, OurSockets, Wanted};
use smc_sockets::policy::{Transport, UseOption};
use smc_sockets::{Rnics, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rdma::{RoceDevice, device_names};

use crate::order::{SmcOption, io_error};

/// Devices of the kernel, which held this before the stack was there.
struct Devices(rdma::Resources);

impl Below for Devices {
    fn act(&mut self, act: &RnicAct, _: Option<u32>) -> Result<(), String> {
        Err(format!("soft-RoCE does no {act:?}"))
    }

    fn left(&mut self) -> (usize, usize) {
        let now = rdma::resources().unwrap_or_default();
        let more = |now: u64, before: u64| now.saturating_sub(before) as usize;
        (
            more(now.regions, self.0.regions),
            more(now.queue_pairs, self.0.queue_pairs),
        )
    }
}

/// A stack as a script wants it.
pub(crate) fn sockets(
    at: SocketAddrV4,
    wanted: &Wanted,
    v2: bool,
    option: &SmcOption,
) -> io::Result<OurSockets> {
    let before = rdma::resources()?;
    let mut settings = OurSockets::settings(wanted)?;
    settings.policy.transports = vec![Transport::Verbs];
    settings.policy.tcp_option = UseOption::Always;
    settings.marks = Some(Arc::new(option.marks()?));
    let names = device_names().map_err(io_error)?;
    let names = names.iter().take(wanted.rnics.into());
    let devices = names.map(|name| RoceDevice::open(name).map_err(io_error));
    let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
    let rnics = Rnics::new(
        devices.collect::<io::Result<Vec<_>>>()?,
        surroundings.with_v1_on_rocev2(!v2),
    )?;
    let rnics = if v2 { rnics } else { rnics.in_version_1() };
    let stack = Stack::with_rnics(settings, rnics.alone())?;
    Ok(OurSockets::of(stack, *at.ip(), Box::new(Devices(before))))
}
