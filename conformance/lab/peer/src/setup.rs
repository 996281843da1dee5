//! A stack as a scenario wants it.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Gid, Uid};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use smc_lab::orders::Session;
use smc_proto::wire::types::Eid;
use smc_sockets::policy::{Transport, UseOption};
use smc_sockets::tcp_option::{Marks, TcpOption};
use smc_sockets::{Policy, Rnics, Settings, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::rdma::{self, RoceDevice, Unavailable};

/// The user `nobody`.
const NOBODY: u32 = 65_534;
/// Bytes that a process may lock by default.
const LOCKED: u64 = 8 << 20;
/// More than any scenario has at once.
const CONNECTIONS: usize = 600;

/// A stack with all RNICs of this machine and without shared memory.
pub(crate) fn stack(session: &Session) -> io::Result<Stack> {
    let mut settings = Settings::default();
    settings.connections = CONNECTIONS;
    settings.policy = policy(session)?;
    if session.unprivileged {
        // As a helper with the rights would hand them on.
        settings.marks = Some(Arc::new(marks()?));
        // Devices are opened behind that: verbs are refused to a process that changed its user.
        give_rights_up()?;
    }
    let names = match rdma::device_names() {
        Ok(names) => names,
        // It declines then, with the reason.
        Err(Unavailable::NoDevice) => return Stack::with(settings),
        Err(error) => return Err(io_error(error)),
    };
    let devices = names
        .iter()
        .map(|name| RoceDevice::open(name).map_err(io_error));
    let devices = devices.collect::<io::Result<_>>()?;
    let surroundings = Surroundings::new(Network::read()?, PnetTable::default());
    // As the kernel's that is built for this laboratory.
    let rnics = Rnics::new(devices, surroundings.with_v1_on_rocev2(session.v1))?;
    let rnics = match session.v1 {
        true => rnics.in_version_1(),
        false => rnics,
    };
    Stack::with_rnics(settings, rnics)
}

/// Policy of a kernel: asked for by the TCP option, even if there is nothing to offer.
fn policy(session: &Session) -> io::Result<Policy> {
    let mut policy = Policy::default();
    policy.max_memory = session.memory;
    policy.transports = vec![Transport::Verbs];
    policy.tcp_option = UseOption::Always;
    for ueid in &session.ueids {
        policy.ueids.push(Eid::user(ueid).map_err(io_error)?);
    }
    Ok(policy)
}

/// The map of the TCP option, attached as long as this process lives.
pub(crate) fn marks() -> io::Result<Marks> {
    static OPTION: OnceLock<TcpOption> = OnceLock::new();
    let option = TcpOption::attach().map_err(io_error)?;
    let marks = option.marks().as_fd().try_clone_to_owned()?;
    let _ = OPTION.set(option);
    Marks::try_from(marks)
}

/// From now on this thread, and those it starts, belong to `nobody`.
fn give_rights_up() -> io::Result<()> {
    let limit = Rlimit {
        current: Some(LOCKED),
        maximum: Some(LOCKED),
    };
    setrlimit(Resource::Memlock, limit)?;
    set_thread_res_gid(
        Gid::from_raw(NOBODY),
        Gid::from_raw(NOBODY),
        Gid::from_raw(NOBODY),
    )?;
    set_thread_res_uid(
        Uid::from_raw(NOBODY),
        Uid::from_raw(NOBODY),
        Uid::from_raw(NOBODY),
    )?;
    Ok(())
}

fn io_error(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}
