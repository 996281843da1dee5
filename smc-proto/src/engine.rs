//! The engine for the duration of one call: the tables and what is common to them.
//!
//! The methods are in the modules they belong to (`rendezvous/`, `link_group/`). Here are
//! the lists that connect these modules, and the steps that end every input.

mod consequences;

use crate::command::TcpCommand;
use crate::config::{Config, MAX_DEVICES};
use crate::connection::Ring;
use crate::connection_record::{ConnectionRecord, Pending, Phase, list as connection_list};
use crate::data_path::DataPath;
use crate::id::{
    BufferId, BufferIdx, ConnId, ConnIdx, DeviceId, GroupId, GroupIdx, Idx, LinkId, LinkIdx,
};
use crate::link_group::{
    Answer, Buffer, Control, Link, LinkGroup, RemoteRmb, buffer_list, handshake_list, ism_slot,
};
use crate::link_group::{link_list, list as group_list};
use crate::planted::PlantedBug;
use crate::ports::Ports;
use crate::rand::{Random, TokenKey};
use crate::rendezvous::Handshake;
use crate::slots::{List, Pool};
use crate::stats::Statistics;
use crate::storage::Tables;
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
    /// RNICs, then ISM devices.
    pub(crate) devices: [Device; 2 * MAX_DEVICES],
    /// What ISM devices have to answer.
    pub(crate) ism_answers: [Answer; MAX_DEVICES],
    pub(crate) ports: Ports,
    pub(crate) clc_out: List<Handshake, { handshake_list::CLC }>,
    pub(crate) wakes: List<Handshake, { handshake_list::WAKE }>,
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
            }; 2 * MAX_DEVICES],
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
}

impl Core {
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

/// Core and tables, borrowed for one call.
pub(crate) struct Engine<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connections: Pool<'a, ConnectionRecord>,
    pub(crate) handshakes: Pool<'a, Handshake>,
    pub(crate) groups: Pool<'a, LinkGroup>,
    pub(crate) links: Pool<'a, Link>,
    pub(crate) buffers: Pool<'a, Buffer>,
    pub(crate) remote_rmbs: Pool<'a, RemoteRmb>,
}

impl<'a> Engine<'a> {
    #[inline]
    pub(crate) fn new(core: &'a mut Core, tables: Tables<'a>) -> Self {
        core.change();
        Self::for_data(core, tables)
    }

    /// An engine for a call that changes nothing but bytes of a connection.
    #[inline(always)]
    pub(crate) fn for_data(core: &'a mut Core, tables: Tables<'a>) -> Self {
        let Tables {
            connections,
            handshakes,
            groups,
            links,
            buffers,
            remote_rmbs,
        } = tables;
        Self {
            core,
            connections,
            handshakes,
            groups,
            links,
            buffers,
            remote_rmbs,
        }
    }

    /// Notes that this call may change more than bytes.
    #[inline]
    pub(crate) fn mark_changed(&mut self) -> &mut Self {
        self.core.change();
        self
    }

    /// The part that the data path needs.
    #[inline]
    pub(crate) fn data_path(&mut self) -> DataPath<'_> {
        DataPath {
            core: self.core,
            connections: self.connections.reborrow(),
            links: self.links.reborrow(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.core.now
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        self.core.step();
    }

    /// Whether this fault is injected.
    #[inline(always)]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.core.config.connection.planted(bug)
    }

    pub(crate) fn conn_id(&self, index: ConnIdx) -> ConnId {
        ConnId {
            index,
            generation: self.connections.generation(index),
        }
    }

    pub(crate) fn link_id(&self, index: LinkIdx) -> LinkId {
        LinkId {
            index,
            generation: self.links.generation(index),
        }
    }

    pub(crate) fn group_id(&self, index: GroupIdx) -> GroupId {
        GroupId {
            index,
            generation: self.groups.generation(index),
        }
    }

    #[inline]
    pub(crate) fn buffer_id(&self, index: BufferIdx) -> BufferId {
        BufferId {
            index,
            generation: self.buffers.generation(index),
        }
    }

    /// The live connection of a handle.
    #[inline]
    pub(crate) fn live_conn(&self, id: ConnId) -> Option<ConnIdx> {
        self.connections
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    /// The secret behind alert tokens, made at the first use because the size of
    /// the table is not known before.
    pub(crate) fn token_key(&mut self) -> TokenKey {
        let capacity = self.connections.capacity();
        let core = &mut *self.core;
        core.tokens
            .get_or_insert_with(|| TokenKey::new(&mut core.random, capacity))
            .clone()
    }

    // ---- lists -----------------------------------------------------------

    pub(crate) fn schedule_link(&mut self, index: LinkIdx) {
        self.data_path().schedule_link(index);
    }

    /// Puts a buffer on its device's list if it has anything to do.
    pub(crate) fn schedule_buffer(&mut self, index: BufferIdx) {
        let Some(buffer) = self.buffers.at(index) else {
            return;
        };
        let Some((_, device)) = self.buffer_work(index) else {
            return;
        };
        if buffer.listed_at != device {
            self.unlist_buffer(index);
        }
        if let (Some(list), Some(buffer)) = (
            self.core.devices.get_mut(usize::from(device.0)),
            self.buffers.at_mut(index),
        ) {
            buffer.listed_at = device;
            list.buffers.push_back(&mut self.buffers, index);
        }
    }

    /// The next control command of a buffer, and the RNIC it is for:
    /// registrations are a matter of the link's RNIC.
    pub(crate) fn buffer_work(&self, index: BufferIdx) -> Option<(Control, DeviceId)> {
        let buffer = self.buffers.at(index)?;
        let wanted = buffer.wanted(self.registrable(buffer.group))?;
        let link = wanted.link_position().and_then(|position| {
            let links = self.links_of(buffer.group);
            self.links.at(*links.get(usize::from(position))?)
        });
        Some((wanted, link.map_or(buffer.device, |link| link.path.device)))
    }

    /// Takes a buffer off the list of the RNIC it waits for.
    pub(crate) fn unlist_buffer(&mut self, index: BufferIdx) {
        let Some(device) = self.buffers.at(index).map(|b| b.listed_at) else {
            return;
        };
        if let Some(list) = self.core.devices.get_mut(usize::from(device.0)) {
            list.buffers.remove(&mut self.buffers, index);
        }
    }

    /// Takes a link off the list of its device.
    pub(crate) fn unlist_link(&mut self, index: LinkIdx) {
        let Some(device) = self.links.at(index).map(|l| l.path.device) else {
            return;
        };
        if let Some(list) = self.core.devices.get_mut(usize::from(device.0)) {
            list.links.remove(&mut self.links, index);
        }
    }

    /// Schedules the rendezvous of a connection, so that it checks again what it waits for.
    pub(crate) fn wake(&mut self, connection: ConnIdx) {
        if let Some(Phase::Rendezvous(handshake)) =
            self.connections.at(connection).map(|record| record.phase)
        {
            self.core.wakes.push_back(&mut self.handshakes, handshake);
        }
    }

    pub(crate) fn notify(&mut self, connection: ConnIdx, what: Pending) {
        if let Some(record) = self.connections.at_mut(connection) {
            record.notices |= what;
            self.core
                .connection_events
                .push_back(&mut self.connections, connection);
        }
    }

    pub(crate) fn command_tcp(&mut self, connection: ConnIdx, command: TcpCommand) {
        if let Some(record) = self.connections.at_mut(connection) {
            record.tcp = Some(command);
            self.core
                .tcp_out
                .push_back(&mut self.connections, connection);
        }
    }
}
