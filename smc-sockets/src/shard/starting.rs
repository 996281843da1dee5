//! Starting an endpoint: its configuration, its limits, and the driver's descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::time::{ClockId, TimerfdClockId, TimerfdFlags};
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::Endpoint;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::trace::Observed;
use smc_proto::wire::types::{BufferSize, Eid, Hostname, Mac, PeerId, PeerOs};
use smc_transport_ism::device::MAX_DMB_LEN;
use smc_transport_ism::shared::pairing::{Callers, PairingTimeouts};
use smc_transport_ism::shared::{Device, SpinBudget};

use super::driver_waker::DriverWaker;
use super::file_limit::FileLimit;
use super::transports::{Transports, Verbs};
use super::{Contention, Shard, State, nanoseconds};
use crate::carrier::Limit;
use crate::connecting::{KnownServers, PendingChannels, Unattended};
use crate::descriptors;
use crate::driver::Token;
use crate::opt_in::OptIn;
use crate::policy::{Transport, UseOption};
use crate::rnics::Rnics;
use crate::stack::Settings;
use crate::tracing::Tracing;
use crate::undecided::{Undecided, most_callers, most_draining, most_undecided};

/// Bytes of a connection's receive buffer, if the settings have no other number and its memory is
/// locked or counted.
const BUFFER: u32 = 256 << 10;

/// Connections that the endpoint has more room for than there are places: it may take a moment to
/// remove one whose place was given back.
const SPARE: usize = 64;

impl Shard {
    /// An endpoint with a device of shared memory, and with these RNICs, if there are any.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn new(settings: Settings, rnics: io::Result<Rnics>) -> io::Result<Arc<Self>> {
        let without_rnics = rnics.as_ref().err().map(ToString::to_string);
        let rnics = rnics.ok();
        let assumes_smc = rnics.as_ref().is_some_and(|rnics| rnics.assumes_smc);
        let alone = rnics.as_ref().is_some_and(|rnics| rnics.alone);
        let smcr = offered_smcr(rnics.as_ref(), settings.policy.tcp_option);
        let mut verbs = rnics.map(|rnics| rnics.verbs);
        let mut seed = [0; 10];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let [a, b, rest @ ..] = seed;
        let mac = verbs.as_ref().map_or(Mac::default(), |verbs| verbs.mac());
        let peer_id = PeerId::new(u16::from_ne_bytes([a, b]), mac);
        let config = config(peer_id, smcr, &settings)?;
        let dmb = config.dmb.unwrap_or(config.receive_buffer).octets().into();
        let received = u64::from(config.receive_buffer.octets());
        let locked_each = received + u64::from(config.send_buffer.octets());
        let counted_each = match verbs {
            Some(_) => locked_each,
            // Shared memory has no send buffers.
            None => received,
        };
        let (connections, limit) = bound_connections(&settings, counted_each);
        let mut limits = Limits::for_connections(connections.saturating_add(SPARE));
        // Each connection with a place may begin a handshake, as its peer expects CLC already.
        limits.handshakes = limits.connections;
        let mut engine = Endpoint::new(
            config,
            u64::from_ne_bytes(rest),
            Observed::new(Owned::new(limits), Tracing::new()),
        );
        // A group may have further links over ports that no connection uses.
        for event in verbs.iter_mut().flat_map(|verbs| verbs.ports()) {
            engine.handle_path(Instant::from_nanos(1), event);
        }
        let transports = Transports::new(Device::open()?, verbs);
        let device = transports.descriptor();
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let make = || rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = descriptors::keep(make)?;
        let driver_waker = Arc::new(DriverWaker::new()?);
        let poller = poller(&device, &timer, &driver_waker, transports.verbs.as_deref())?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = if cores > 1 {
            settings.spin
        } else {
            Duration::ZERO
        };
        let opt_in = OptIn::new(
            settings.policy,
            settings.marks,
            transports.verbs.is_some(),
            assumes_smc,
        );
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let pairs = !alone && opt_in.policy.transport(Transport::Ism).is_ok();
        let grace = opt_in.policy.pairing_grace;
        let pairing_timeouts = PairingTimeouts {
            grace: grace.unwrap_or(settings.pairing_timeouts.grace),
            ..settings.pairing_timeouts
        };
        let mut state = State::new(engine, transports, driver_waker.clone());
        state.publish_stack(connections, dmb, pairs);
        let lanes = state.polling.lanes.clone();
        Ok(Arc::new(Self {
            state: Mutex::new(state),
            poller,
            device,
            timer,
            driver_waker,
            abandoned: AtomicBool::new(false),
            origin: std::time::Instant::now(),
            coarse_origin: nanoseconds(ClockId::Monotonic),
            pairing_timeouts,
            spin,
            room: AtomicUsize::new(connections),
            peer_id,
            undecided: Mutex::new(Undecided::new(most_undecided(descriptors))),
            dropped: Mutex::default(),
            most_draining: most_draining(descriptors),
            callers: Callers::new(most_callers(descriptors)),
            limit,
            listeners: Mutex::default(),
            pending_channels: PendingChannels::default(),
            unattended: Unattended::default(),
            #[cfg(feature = "tokio")]
            runtimes: crate::tokio::Runtimes::default(),
            without_rnics,
            opt_in,
            locked_each,
            pairs,
            dmb,
            file_limit: FileLimit::default(),
            handed_over: Mutex::default(),
            setup_spin: Mutex::new(SpinBudget::new(spin)),
            contention: Contention::default(),
            known_servers: KnownServers::default(),
            lanes,
        }))
    }
}

/// The versions of SMC-R that a stack offers.
fn offered_smcr(rnics: Option<&Rnics>, tcp_option: UseOption) -> Offers {
    match rnics {
        // A stack that sends the TCP option without a device reports that to its peers by a
        // Decline.
        None if tcp_option == UseOption::Always => Offers::SMCR,
        None => Offers::empty(),
        Some(rnics) if rnics.in_version_1 => Offers::SMCR_V1,
        Some(_) => Offers::SMCR,
    }
}

/// The configuration of the engine.
fn config(peer_id: PeerId, smcr: Offers, settings: &Settings) -> io::Result<Config> {
    let policy = &settings.policy;
    let mut config = Config::new(peer_id);
    config.offers = Offers::SMCD_V2 | smcr;
    // Over TCP, Linux leaves to the application what arrived before a reset: a server that refuses a
    // request without reading all of it is understood.
    config.connection.keep_received = true;
    let received = settings.buffer.unwrap_or(BUFFER).min(MAX_DMB_LEN);
    config.receive_buffer = BufferSize::at_least(received);
    // Shared memory need not be counted if it has no limit.
    if settings.buffer.is_none() && policy.max_memory.is_none() {
        config.dmb = Some(BufferSize::at_least(MAX_DMB_LEN));
    }
    for eid in &policy.ueids {
        // There is room for one more than a policy has.
        let _ = config.v2.ueids.push(*eid);
    }
    config.v2.seid = policy.system_eid;
    // The node name, as Linux sends it: operators know hosts by it.
    let host = rustix::system::uname();
    config.v2.hostname = Hostname::new(&host.nodename().to_string_lossy());
    config.v2.os = PeerOs::LINUX;
    // A peer that names its GID over a channel of shared memory is on this host; one that does so over
    // RNICs needs a path to it.
    let eid = Eid::user(crate::policy::OWN_EID).map_err(io::Error::other)?;
    let _ = config.v2.ueids.push(eid);
    Ok(config)
}

/// The most connections of a stack of which each counts so many bytes, and what bounds them.
fn bound_connections(settings: &Settings, counted_each: u64) -> (usize, Limit) {
    let policy = &settings.policy;
    match (settings.connections, policy.connections(counted_each)) {
        (wanted, fit) if fit < wanted => (fit, Limit::PolicyMemory(policy.max_memory.unwrap_or(0))),
        (wanted, _) => (wanted, Limit::Connections(wanted)),
    }
}

/// The epoll set at which the driver sleeps, with the descriptors that wake it.
fn poller(
    device: &OwnedFd,
    timer: &OwnedFd,
    driver_waker: &DriverWaker,
    verbs: Option<&dyn Verbs>,
) -> io::Result<OwnedFd> {
    let poller = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
    for (fd, token) in [
        (device.as_fd(), Token::Device),
        (timer.as_fd(), Token::Timer),
        (driver_waker.as_fd(), Token::Doorbell),
    ] {
        epoll::add(&poller, fd, token.data(), EventFlags::IN)?;
    }
    if let Some(verbs) = verbs {
        let fd = verbs.descriptor();
        epoll::add(&poller, fd, Token::Rnics.data(), EventFlags::IN)?;
    }
    Ok(poller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    /// The limit of a stack whose connections have buffers of 64 KiB each.
    fn limit(connections: usize, memory: &str) -> Limit {
        let settings = Settings {
            connections,
            buffer: Some(1 << 16),
            policy: Policy::parse(&format!("max-memory = {memory:?}")).unwrap(),
            ..Settings::default()
        };
        let none = Err(io::ErrorKind::Unsupported.into());
        Shard::new(settings, none).unwrap().limit
    }

    #[test]
    fn the_lower_of_two_limits_is_the_one_that_is_named() {
        for connections in [1, 3, 4] {
            assert_eq!(
                limit(connections, "256 KiB"),
                Limit::Connections(connections)
            );
        }
        assert_eq!(limit(5, "256 KiB"), Limit::PolicyMemory(256 << 10));
    }
}
