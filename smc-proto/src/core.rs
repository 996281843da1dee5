//! State of an endpoint beside its tables: clock, configuration, statistics, and the lists of
//! what has something to do.

use crate::config::{Config, MAX_DEVICES};
use crate::connection::Ring;
use crate::connection_record::{ConnectionRecord, list as connection_list};
use crate::id::{ConnIdx, DeviceId, Idx};
#[cfg(feature = "smc-d")]
use crate::link_group::{Answer, ism_slot};
use crate::link_group::{Buffer, Link, LinkGroup, buffer_list};
use crate::link_group::{link_list, list as group_list};
use crate::ports::Ports;
use crate::rand::{Random, TokenKey};
use crate::rendezvous::{Handshake, list as handshake_list};
use crate::slots::List;
use crate::stats::Statistics;
use crate::time::Instant;

/// Number of hash buckets for groups and links; a power of two.
pub(crate) const BUCKETS: usize = 64;

/// Number of devices that may have work: RNICs and, with the feature `smc-d`, ISM devices.
const DEVICE_SLOTS: usize = if cfg!(feature = "smc-d") {
    2 * MAX_DEVICES
} else {
    MAX_DEVICES
};

/// State of an endpoint that is not in a table.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) tokens: Option<TokenKey>,
    pub(crate) now: Instant,
    /// RNICs, then ISM devices.
    pub(crate) devices: [Device; DEVICE_SLOTS],
    /// What ISM devices have to answer.
    #[cfg(feature = "smc-d")]
    pub(crate) ism_answers: [Answer; MAX_DEVICES],
    pub(crate) ports: Ports,
    pub(crate) clc_out: List<Handshake, { handshake_list::CLC }>,
    /// Connections whose rendezvous checks again what it waits for.
    pub(crate) wakes: List<ConnectionRecord, { connection_list::WAKE }>,
    pub(crate) tcp_out: List<ConnectionRecord, { connection_list::TCP }>,
    pub(crate) connection_events: List<ConnectionRecord, { connection_list::EVENTS }>,
    pub(crate) groups_up: List<LinkGroup, { group_list::EVENTS }>,
    pub(crate) groups_down: List<LinkGroup, { group_list::EVENTS }>,
    pub(crate) link_events: List<Link, { link_list::EVENTS }>,
    pub(crate) joinable: [List<LinkGroup, { group_list::JOINABLE }>; BUCKETS],
    pub(crate) links_by_qpn: [List<Link, { link_list::HASHED }>; BUCKETS],
    /// The next link's, see `new_link`.
    pub(crate) next_user_id: u32,
    /// The connection that the last CDC message was for.
    pub(crate) last_receiver: ConnIdx,
    /// Number of calls that may have changed more than bytes: a link may use what it
    /// knows of its state until the number changes, see [`Link::is_flowing`].
    pub(crate) changes: u64,
    pub(crate) statistics: Statistics,
    pub(crate) steps: u32,
}

/// What waits for one RNIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) links: List<Link, { link_list::READY }>,
    pub(crate) buffers: List<Buffer, { buffer_list::READY }>,
}

impl Device {
    #[inline]
    fn has_work(&self) -> bool {
        !self.links.is_empty() || !self.buffers.is_empty()
    }
}

impl Core {
    pub(crate) const fn new(config: Config, random_seed: u64) -> Self {
        Self {
            config,
            random: Random::new(random_seed),
            tokens: None,
            now: Instant::ZERO,
            devices: [Device {
                links: List::EMPTY,
                buffers: List::EMPTY,
            }; DEVICE_SLOTS],
            #[cfg(feature = "smc-d")]
            ism_answers: [None; MAX_DEVICES],
            ports: Ports::NONE,
            clc_out: List::EMPTY,
            wakes: List::EMPTY,
            tcp_out: List::EMPTY,
            connection_events: List::EMPTY,
            groups_up: List::EMPTY,
            groups_down: List::EMPTY,
            link_events: List::EMPTY,
            joinable: [List::EMPTY; BUCKETS],
            links_by_qpn: [List::EMPTY; BUCKETS],
            next_user_id: 1,
            last_receiver: Idx::NONE,
            changes: 1,
            statistics: Statistics::NEW,
            steps: 0,
        }
    }

    /// Notes the time and starts a new count of steps.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        // A clock that runs backwards makes timers late and breaks nothing else.
        if now > self.now {
            self.now = now;
        }
        self.steps = 0;
    }

    /// Notes that more than bytes may change from here on.
    #[inline(always)]
    pub(crate) const fn change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        self.steps = self.steps.wrapping_add(1);
    }

    /// Whether there is an event to poll.
    #[inline]
    pub(crate) const fn has_events(&self) -> bool {
        !self.connection_events.is_empty() || self.has_rising() || !self.groups_down.is_empty()
    }

    /// Whether there are events to be polled before those of connections.
    #[inline]
    pub(crate) const fn has_rising(&self) -> bool {
        !self.groups_up.is_empty() || !self.link_events.is_empty()
    }

    /// Whether the elements of a connection with such a ring have eye catchers: all
    /// have, unless both peers announced that they have none.
    #[inline]
    pub(crate) const fn has_eye_catcher(&self, ring: Ring) -> bool {
        self.config.eye_catcher && ring.base() != 0
    }

    /// Whether an RNIC may have something to do.
    #[inline]
    pub(crate) fn has_work(&self, device: DeviceId) -> bool {
        self.devices
            .get(usize::from(device.0))
            .filter(|_| usize::from(device.0) < MAX_DEVICES)
            .is_some_and(Device::has_work)
    }

    /// Whether an ISM device may have something to do.
    #[cfg(feature = "smc-d")]
    #[inline]
    pub(crate) fn has_ism_work(&self, device: DeviceId) -> bool {
        let answer = self.ism_answers.get(usize::from(device.0));
        let slot = self.devices.get(usize::from(ism_slot(device).0));
        answer.is_some_and(Option::is_some)
            || slot.is_some_and(Device::has_work)
            || !self.wakes.is_empty()
    }

    /// Whether there may be a CLC message to send.
    #[inline]
    pub(crate) fn has_clc_work(&self) -> bool {
        !self.clc_out.is_empty() || !self.wakes.is_empty()
    }
}
