//! Conditions of SMC-R: what would carry it, and the way to the peer.

use std::net::SocketAddr;
use std::path::Path;

use smc_proto::id::DeviceId;
use smc_proto::path::{LocalPath, RoceVersion, Route};
use smc_transport_verbs::locking::lockable;
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::{KernelRoutes, Surroundings};
use smc_transport_verbs::sysfs::{self, Listed};

use super::{Condition, State, walk};
use crate::policy::Transport;
use crate::shard::Shard;

const LIBRARY: &str = "RDMA library";
const DEVICE: &str = "RoCE device";
const PNET: &str = "physical network";
const GIDS: &str = "GIDs";
const MEMORY: &str = "locked memory";

pub(super) fn conditions(shard: &Shard, to: SocketAddr) -> Vec<Condition> {
    if let Err(rule) = shard.opt_in.policy.transport(Transport::Verbs) {
        let found = format!("the policy does not let it be used: {rule}");
        let condition = Condition::here(DEVICE, State::Fails, found);
        return vec![condition.with("Add \"verbs\" to `transports` in the policy.")];
    }
    let network = Network::read().unwrap_or_default();
    let devices = sysfs::list(Path::new(sysfs::ROOT), &network).unwrap_or_default();
    let mut conditions = vec![library(shard, &devices), device(&devices, &network)];
    if conditions.iter().all(|at| at.state != State::Fails) {
        conditions.extend(way(shard, to, &devices, network));
    }
    conditions.push(memory(shard));
    conditions
}

/// Whether this stack has RNICs.
fn library(shard: &Shard, devices: &[Listed]) -> Condition {
    match &shard.without_rnics {
        None => Condition::here(LIBRARY, State::Holds, "this stack has RNICs"),
        // Without a device, the library is not what is missing.
        Some(why) if devices.is_empty() && cfg!(feature = "rdma") => {
            Condition::here(LIBRARY, State::Idle, why.clone())
        }
        Some(why) => Condition::here(LIBRARY, State::Fails, why.clone()).with(
            "Build with the feature `rdma`, on a machine with libibverbs, and see `smcx devices`.",
        ),
    }
}

fn device(devices: &[Listed], network: &Network) -> Condition {
    if devices.is_empty() {
        return Condition::here(DEVICE, State::Fails, "there is no RDMA device").with(
            "Use an RNIC; `rdma link add rxe0 type rxe netdev INTERFACE` makes one in software.",
        );
    }
    let mut obstacles = Vec::new();
    for device in devices {
        for port in &device.ports {
            let name = format!("{} port {}", device.name, port.port.port);
            match device.usable(port, network) {
                Ok(_) => return Condition::here(DEVICE, State::Holds, format!("{name} is usable")),
                Err(all) => {
                    let words: Vec<_> = all.iter().map(ToString::to_string).collect();
                    obstacles.push(format!("{name}: {}", words.join(", ")));
                }
            }
        }
    }
    Condition::here(DEVICE, State::Fails, obstacles.join("; "))
        .with("`smcx devices` shows each port.")
}

/// Which port and GID a connection would take.
fn way(shard: &Shard, to: SocketAddr, devices: &[Listed], network: Network) -> Vec<Condition> {
    let Ok(local) = walk::local(to) else {
        return Vec::new();
    };
    let mut surroundings = Surroundings::new(network, shard.opt_in.policy.pnet.clone());
    for (at, device) in devices.iter().enumerate() {
        let ports = device.ports.iter().map(|listed| listed.port.clone());
        surroundings.set_ports(DeviceId(u8::try_from(at).unwrap_or(u8::MAX)), ports);
    }
    let pnet = pnet(&surroundings, local);
    let paths = surroundings.client(local, to.ip(), &KernelRoutes);
    let gids = gids(to, devices, &paths);
    vec![pnet, gids]
}

fn pnet(surroundings: &Surroundings, local: std::net::IpAddr) -> Condition {
    let network = surroundings.network();
    let Some(holder) = network.holder(local.to_canonical()) else {
        return Condition::here(PNET, State::Fails, format!("no interface has {local}"));
    };
    let Some(id) = surroundings.pnet_of(holder) else {
        let name = &network.base(holder).name;
        let found = format!("{name} has no PNET ID: its own RNIC counts");
        return Condition::here(PNET, State::Holds, found);
    };
    let mut ports = surroundings.ports().iter();
    let on_it = ports.any(|(_, port)| surroundings.pnet_of_port(port) == Some(id));
    let found = format!("{} has PNET ID {id}", holder.name);
    match on_it {
        true => Condition::here(PNET, State::Holds, format!("{found}, as a port has")),
        false => Condition::here(PNET, State::Fails, format!("{found}, and no port has it"))
            .with("Give a port the same ID (`pnet` in the policy)."),
    }
}

fn gids(to: SocketAddr, devices: &[Listed], paths: &[LocalPath]) -> Condition {
    let Some(path) = paths.first() else {
        let v4 = to.ip().to_canonical().is_ipv4();
        let needs = match v4 {
            true => "a GID of RoCE v1, or one of RoCE v2 in the connection's own network",
            false => "a GID of RoCE v1: version 2 knows IPv4 only",
        };
        return Condition::here(GIDS, State::Fails, format!("no port has {needs}"))
            .with("`smcx devices` shows the GIDs and interfaces of each port.");
    };
    let device = devices.get(usize::from(path.device.0));
    let name = device.map_or("?", |device| device.name.as_str());
    let of = |path: &LocalPath| match path.roce {
        RoceVersion::V1 => "v1",
        RoceVersion::V2 => "v2",
    };
    let mut versions: Vec<_> = paths.iter().map(of).collect();
    versions.sort_unstable();
    versions.dedup();
    let found = format!(
        "{name} port {}, GID {} ({}), for SMC-R {}",
        path.port,
        path.gid_index,
        path.gid,
        versions.join(" and ")
    );
    match path.route {
        Route::None => Condition::here(GIDS, State::Fails, format!("{found}: no way to the peer"))
            .with("Check the routes between the addresses of the RNICs."),
        _ => Condition::here(GIDS, State::Holds, found),
    }
}

fn memory(shard: &Shard) -> Condition {
    let needed = shard.locked_each;
    match lockable() {
        None => Condition::here(MEMORY, State::Holds, "this process may lock without limit"),
        Some(left) if left >= needed => Condition::here(
            MEMORY,
            State::Holds,
            format!("{left} bytes may be locked, and a connection needs {needed} for a link"),
        ),
        Some(left) => Condition::here(
            MEMORY,
            State::Fails,
            format!(
                "{left} bytes may be locked (RLIMIT_MEMLOCK), and a connection needs {needed} \
                 for a link: it would fall back with 0x01010000"
            ),
        )
        .with("Raise the limit (`ulimit -l`, `LimitMEMLOCK=`), or use smaller buffers."),
    }
}
