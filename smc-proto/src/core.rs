//! State of an endpoint beside its tables: clock, configuration, statistics, and the lists of
//! what has something to do.

use crate::config::Config;
#[cfg(feature = "smc-d")]
use crate::config::MAX_DEVICES;
use crate::connection::Ring;
use crate::connection_record::{ConnectionRecord, list as connection_list};
#[cfg(feature = "smc-d")]
use crate::devices::IsmDevice;
use crate::devices::{Devices, Rnic};
use crate::id::{ConnIdx, DeviceId, Idx};
#[cfg(feature = "smc-d")]
use crate::link_group::Answer;
use crate::link_group::{Link, LinkGroup, link_list, list as group_list};
use crate::ports::Ports;
use crate::rand::{Random, TokenKey};
use crate::rendezvous::{Handshake, list as handshake_list};
use crate::slots::List;
use crate::stats::Statistics;
use crate::time::Instant;

/// Number of hash buckets for groups and links; a power of two.
pub(crate) const BUCKETS: usize = 64;

/// State of an endpoint that is not in a table.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) tokens: Option<TokenKey>,
    pub(crate) now: Instant,
    pub(crate) devices: Devices,
    /// Answers to events of peers, which ISM devices send first. Apart from `devices`, whose idle
    /// state is one pattern of bits.
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

impl Core {
    pub(crate) const fn new(config: Config, random_seed: u64) -> Self {
        Self {
            config,
            random: Random::new(random_seed),
            tokens: None,
            now: Instant::ZERO,
            devices: Devices::IDLE,
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
        self.devices.rnic(device).is_some_and(Rnic::has_work)
    }

    /// Whether an ISM device may have something to do.
    #[cfg(feature = "smc-d")]
    #[inline]
    pub(crate) fn has_ism_work(&self, device: DeviceId) -> bool {
        let answer = self.ism_answers.get(usize::from(device.0));
        answer.is_some_and(Option::is_some)
            || self.devices.ism(device).is_some_and(IsmDevice::has_work)
            || !self.wakes.is_empty()
    }

    /// Whether there may be a CLC message to send.
    #[inline]
    pub(crate) fn has_clc_work(&self) -> bool {
        !self.clc_out.is_empty() || !self.wakes.is_empty()
    }
}
