//! The walk.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use smc_transport_ism::shared::pairing::{MAX_LISTENERS, unbound_destination};
use smc_transport_verbs::network::{Network, route};

use super::{Condition, Expected, State, Why, rdma};
use crate::carrier::Cause;
use crate::discovery::OptionNotSent;
use crate::policy::Transport;
use crate::shard::Shard;
use crate::shared_memory::SharedMemory;

pub(super) fn walk(shard: &Shard, asked: SocketAddr) -> Why {
    let to = unbound_destination(asked);
    let mut conditions = vec![way(to), policy(shard, to)];
    let permitted = conditions.iter().all(|at| at.state == State::Holds);
    let (memory, unserved) = shared_memory(shard, to);
    let pairs = permitted && memory.state == State::Holds;
    conditions.push(memory);
    conditions.push(grace(shard, pairs));
    let mut over_rdma = vec![shunned(shard, to)];
    over_rdma.extend(rdma::conditions(shard, to));
    over_rdma.insert(0, known(shard, to));
    let rdma = permitted && over_rdma.iter().all(|at| at.state != State::Fails);
    if unserved || pairs {
        // What does not come to it cannot fail.
        for condition in &mut over_rdma {
            condition.state = State::Idle;
            condition.remedy = None;
        }
    }
    conditions.extend(over_rdma);
    let outcome = match (unserved, pairs, rdma) {
        (true, ..) => Expected::NoListener,
        (_, true, _) => Expected::SharedMemory,
        (_, _, true) => Expected::Rdma,
        _ => Expected::Tcp,
    };
    Why {
        to: asked,
        conditions,
        outcome,
    }
}

/// The address that a connection would have here; no packet is sent for it.
pub(super) fn local(to: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

fn way(to: SocketAddr) -> Condition {
    const NAME: &str = "route";
    let (local, hop) = match (local(to), route(None, to.ip().to_canonical())) {
        (Ok(local), Ok(Some(hop))) => (local, hop),
        (Err(error), _) | (_, Err(error)) => {
            return Condition::here(NAME, State::Fails, format!("there is no way: {error}"))
                .with("Check `ip route get`.");
        }
        (Ok(_), Ok(None)) => {
            return Condition::here(NAME, State::Fails, "there is no way")
                .with("Check `ip route get`.");
        }
    };
    let network = Network::read().unwrap_or_default();
    let interface = network.interface(hop.interface);
    let name = interface.map_or("an unknown interface", |at| at.name.as_str());
    let through = match hop.gateway {
        Some(gateway) => format!(", through {gateway}"),
        None => String::new(),
    };
    Condition::here(
        NAME,
        State::Holds,
        format!("from {local}, by {name}{through}"),
    )
}

fn policy(shard: &Shard, to: SocketAddr) -> Condition {
    match shard.opt_in.policy.connecting(to) {
        Ok(()) => Condition::here("policy", State::Holds, "it permits SMC with this peer"),
        Err(rule) => {
            let found = match shard.opt_in.policy.warning() {
                Some(warning) => format!("everything is TCP, because of a mistake: {warning}"),
                None => rule.to_string(),
            };
            Condition::here("policy", State::Fails, found).with(rule.remedy())
        }
    }
}

const SHARED_MEMORY: &str = "shared memory";

/// The condition of shared memory, and whether it is known that no process would accept the
/// connection.
fn shared_memory(shard: &Shard, to: SocketAddr) -> (Condition, bool) {
    const NAME: &str = SHARED_MEMORY;
    let condition = match (SharedMemory::at(to), shared_memory_is_used(shard)) {
        // Whether it could be used is no matter then.
        (Ok(SharedMemory::Elsewhere), _) => {
            Condition::here(NAME, State::Idle, "the peer is not on this host")
        }
        (_, Err(condition)) => condition,
        (Err(error), Ok(())) => Condition::here(
            NAME,
            State::Fails,
            format!("the kernel does not list listeners: {error}"),
        )
        .with("See whether sock_diag for TCP is in this kernel (CONFIG_INET_DIAG)."),
        (Ok(SharedMemory::NoListener), Ok(())) => {
            let found = "no process listens there, in this network namespace";
            let condition = Condition::peer(NAME, State::Fails, found);
            return (condition.with("Start the server."), true);
        }
        (Ok(SharedMemory::Plain(count)), Ok(())) => Condition::peer(
            NAME,
            State::Fails,
            format!("of those who listen there, {count} cannot be called: plain TCP"),
        )
        .with("Let the server use smc-sockets, with a policy that permits it."),
        (Ok(SharedMemory::UnknownUser(uid)), Ok(())) => {
            let cause = Cause::UnknownUser(uid);
            let found = format!(
                "user {uid}, to which this process belongs, stands for all users unknown to the \
                 kernel: servers do not pair with it"
            );
            let condition = Condition::here(NAME, State::Fails, found);
            cause.remedy().into_iter().fold(condition, Condition::with)
        }
        (Ok(SharedMemory::ForeignUser(uid)), Ok(())) => Condition::peer(
            NAME,
            State::Fails,
            format!(
                "the process that can be called there belongs to user {uid}, which may not speak \
                 for the listener, or stands for users unknown here"
            ),
        )
        .with("Run the server as the user that made its socket, and not as 65534 (\"nobody\")."),
        (Ok(SharedMemory::TooMany(count)), Ok(())) => Condition::peer(
            NAME,
            State::Fails,
            format!("{count} sockets listen there, and a client calls {MAX_LISTENERS} at most"),
        )
        .with("Let fewer sockets share the port (SO_REUSEPORT)."),
        (Ok(SharedMemory::Ready(_)), Ok(())) => Condition::peer(
            NAME,
            State::Holds,
            "the server is on this host, and can be called",
        ),
    };
    (condition, false)
}

/// How long the server is waited for.
fn grace(shard: &Shard, pairs: bool) -> Condition {
    let time = shard.pairing_timeouts.grace;
    let whose = match shard.opt_in.policy.pairing_grace {
        Some(_) => "by `pairing-grace` in the policy",
        None => "as the program has it; see `pairing-grace` in the policy",
    };
    let found = format!(
        "the process that accepts is waited for {} ms where the kernel does not show whether it \
         will answer, {whose}",
        time.as_secs_f64() * 1e3
    );
    let state = if pairs { State::Holds } else { State::Idle };
    Condition::here("pairing grace", state, found)
}

/// Whether this side would use it for a peer on this host.
fn shared_memory_is_used(shard: &Shard) -> Result<(), Condition> {
    let fails = |found: String| Condition::here(SHARED_MEMORY, State::Fails, found);
    if let Err(rule) = shard.opt_in.policy.transport(Transport::Ism) {
        let condition = fails(format!("the policy does not let it be used: {rule}"));
        return Err(condition.with("Add \"ism\" to `transports` in the policy."));
    }
    if !shard.pairs {
        return Err(fails("this stack does not use it".to_owned()));
    }
    if let Some(limit) = shard.memory_limit() {
        return Err(fails(limit.to_string()).with(limit.remedy()));
    }
    Ok(())
}

/// Whether it will be known that the peer speaks SMC.
fn known(shard: &Shard, to: SocketAddr) -> Condition {
    const NAME: &str = "TCP option";
    let opt_in = &shard.opt_in;
    if opt_in.assumes(to.ip(), to.port()) {
        let found = "not needed: the policy assumes that the peer speaks SMC (assume-smc)";
        return Condition::here(NAME, State::Holds, found);
    }
    let cause = match opt_in.marks() {
        Ok(_) => {
            let found = "this side will ask; whether the peer answers, it alone knows";
            return Condition::peer(NAME, State::Open, found);
        }
        // With a device it would be asked for: can it?
        Err(OptionNotSent::NoDevice) => match opt_in.could_ask() {
            Ok(()) => {
                let found = "this side could ask, and has nothing to offer";
                return Condition::here(NAME, State::Idle, found);
            }
            Err(missing) => Cause::CannotAsk(missing),
        },
        Err(OptionNotSent::Missing(missing)) => Cause::CannotAsk(missing),
        Err(_) => Cause::NoOption,
    };
    let found = match cause {
        Cause::CannotAsk(missing) => missing.to_string(),
        _ => "it is not asked for".to_owned(),
    };
    let condition = Condition::here(NAME, State::Fails, found);
    match cause.remedy() {
        Some(remedy) => condition.with(remedy),
        None => condition,
    }
}

fn shunned(shard: &Shard, to: SocketAddr) -> Condition {
    const NAME: &str = "earlier answers";
    let now = Instant::now();
    match shard.opt_in.shunned.until(to, now) {
        None => Condition::here(
            NAME,
            State::Holds,
            "the server has not taken a Proposal for something else lately",
        ),
        Some(until) => {
            let seconds = until.saturating_duration_since(now).as_secs();
            let found = format!(
                "the server took a Proposal for something else, and is sent none for {seconds} s"
            );
            Condition::here(NAME, State::Fails, found)
                .with("Nothing, if it does not speak SMC; see `shun` in the policy.")
        }
    }
}
