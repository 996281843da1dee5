//! The data path: everything that the bytes of an established connection need.
//!
//! ```text
//!  application ── write ─► send buffer ── transmit ─► device ──► peer
//!                                            ▲── completion ┘
//!  application ◄── read ── receive ring ◄── receive ── device ◄── peer
//! ```
//!
//! The application writes and reads ([`application`]), devices poll what is to be sent
//! ([`transmit`]) and report what was received ([`receive`]) and sent ([`completion`]).
//! [`fast`] is the fast path for SMC-R connections on which nothing but bytes is pending.
//!
//! Three tables are enough for that: connections, links for SMC-R, and groups for SMC-D. Everything
//! else, such as LLC messages and the end of a connection, needs [`Groups`] or the whole [`Engine`];
//! the data path returns it to its caller as [`Deferred`].

mod application;
mod completion;
mod fast;
mod receive;
#[cfg(feature = "smc-d")]
mod smcd;
mod transmit;

#[cfg(feature = "smc-d")]
pub(crate) use receive::SignalOutcome;

use crate::command::TcpCommand;
use crate::connection_record::{ConnectionRecord, Pending, Phase};
use crate::core::Core;
#[cfg(doc)]
use crate::engine::Engine;
use crate::event::Event;
use crate::id::{ConnId, ConnIdx, HandshakeIdx, LinkId, LinkIdx};
#[cfg(doc)]
use crate::link_group::Groups;
use crate::link_group::{Link, LinkGroup, link_list};
use crate::rand::TokenKey;
use crate::slots::{Linked, Pool};
use crate::storage::Tables;
use crate::time::Instant;
use crate::trace::{self, Tap, TimerKind, TraceEvent};

/// Core and the tables of the data path, borrowed for one call.
///
/// Methods are inlined into their callers, of which most have two: one in `Endpoint`, one in
/// `Engine`. A call by reference would write the whole struct to memory first. Functions
/// that are not inlined therefore take the parts, each of which is passed in registers
/// ([`DataPath::parts`]).
pub(crate) struct DataPath<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connections: Pool<'a, ConnectionRecord>,
    pub(crate) links: Pool<'a, Link>,
    pub(crate) groups: Pool<'a, LinkGroup>,
    /// Where trace events go.
    pub(crate) tap: Tap<'a>,
}

/// Parts of a [`DataPath`], as arguments of a function that is not inlined.
pub(crate) type Parts<'a> = (
    &'a mut Core,
    Pool<'a, ConnectionRecord>,
    Pool<'a, Link>,
    Pool<'a, LinkGroup>,
    Tap<'a>,
);

/// Outcome of [`Endpoint::read`](crate::endpoint::Endpoint::read).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ReadOutcome {
    /// Bytes that the application took, which are free in the receive ring again.
    pub bytes: u32,
    /// Whether a CDC message with the new consumer cursor was queued, so that there is a transmit to
    /// poll.
    pub follows: bool,
}

/// Follow-up work of the data path that needs more than its tables, for [`Groups`] or
/// [`Engine`]. Each variant has one number at most, so that it is returned in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Deferred {
    /// Nothing is left to do.
    Nothing,
    /// A connection has events other than `Readable` and `Writable`.
    Notices(ConnIdx),
    /// A connection may be freed, if it has ended and nothing of it is in flight.
    Release(ConnIdx),
    /// The message received on this link is not a CDC message, but LLC.
    Llc(LinkIdx),
    /// The message received on this link violates the protocol.
    Violation(LinkIdx),
    /// The CDC message received is for a connection that is still in rendezvous.
    EarlyCdc(HandshakeIdx),
    /// The completion on this link is not that of exactly one CDC message on an active link.
    /// None of it was handled yet.
    Sent(LinkIdx),
}

impl<'a> DataPath<'a> {
    #[inline(always)]
    pub(crate) fn new(core: &'a mut Core, (tables, tap): (Tables<'a>, Tap<'a>)) -> Self {
        Self {
            core,
            connections: tables.connections,
            links: tables.links,
            groups: tables.groups,
            tap,
        }
    }
}

impl DataPath<'_> {
    /// Parts to call a function with that is not inlined.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let (connections, links) = (self.connections.reborrow(), self.links.reborrow());
        let groups = self.groups.reborrow();
        (self.core, connections, links, groups, self.tap.reborrow())
    }

    // ---- handles ----------------------------------------------------------

    /// Handle of a connection.
    pub(crate) fn conn_id(&self, index: ConnIdx) -> ConnId {
        ConnId {
            index,
            generation: self.connections.generation(index),
        }
    }

    /// Handle of a link.
    pub(crate) fn link_id(&self, index: LinkIdx) -> LinkId {
        LinkId {
            index,
            generation: self.links.generation(index),
        }
    }

    /// The live connection of a handle.
    #[inline]
    pub(crate) fn live_conn(&self, id: ConnId) -> Option<ConnIdx> {
        self.connections
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    /// Key that alert tokens are made with. Made at its first use, when the capacity of the table
    /// is known.
    pub(crate) fn token_key(&mut self) -> TokenKey {
        let capacity = self.connections.capacity();
        let core = &mut *self.core;
        core.tokens
            .get_or_insert_with(|| TokenKey::new(&mut core.random, capacity))
            .clone()
    }

    // ---- lists -----------------------------------------------------------

    /// Puts a link on its device's list, if it has anything for the device to poll.
    #[inline(always)]
    pub(crate) fn schedule_link(&mut self, index: LinkIdx) {
        let Some(link) = self.links.at_mut(index) else {
            return;
        };
        if Linked::<{ link_list::READY }>::links(link).is_linked() || !link.wants_device() {
            return;
        }
        let device = link.path.device;
        if let Some(device) = self.core.devices.rnic_mut(device) {
            device.links.push_back(&mut self.links, index);
        }
    }

    /// Puts a connection on the list of its link, and the link on its device's. A connection of
    /// SMC-D has no link: its group takes the place of one.
    #[inline(always)]
    fn queue_to_transmit(&mut self, link: LinkIdx, index: ConnIdx) {
        let Some(state) = self.links.at_mut(link) else {
            #[cfg(feature = "smc-d")]
            self.queue_in_group(index);
            return;
        };
        state.queue.ready.push_back(&mut self.connections, index);
        if !state.is_flowing(self.core.changes) {
            self.schedule_link(link);
        } else if state.has_free_slot() {
            debug_assert!(state.wants_device());
            let device = state.path.device;
            if let Some(device) = self.core.devices.rnic_mut(device)
                && let Some(before) = device.links.append(state, link)
            {
                before.set_next(&mut self.links, link);
            }
        }
    }

    /// Takes a link off the list of its device.
    pub(crate) fn unlist_link(&mut self, index: LinkIdx) {
        let Some(device) = self.links.at(index).map(|l| l.path.device) else {
            return;
        };
        if let Some(list) = self.core.devices.rnic_mut(device) {
            list.links.remove(&mut self.links, index);
        }
    }

    /// Wakes the rendezvous of a connection, so that it checks again what it waits for.
    pub(crate) fn wake(&mut self, conn: ConnIdx) {
        let record = self.connections.at(conn);
        if record.is_some_and(|record| matches!(record.phase, Phase::Rendezvous(_))) {
            self.core.wakes.push_back(&mut self.connections, conn);
        }
    }

    /// Notifies the application of these events, also if the connection has ended.
    pub(crate) fn report(&mut self, conn: ConnIdx, what: Pending) {
        if let Some(record) = self.connections.at_mut(conn) {
            record.notices |= what;
            self.core
                .connection_events
                .push_back(&mut self.connections, conn);
        }
    }

    /// Queues a command for the TCP connection of an SMC connection.
    pub(crate) fn command_tcp(&mut self, conn: ConnIdx, command: TcpCommand) {
        if let Some(record) = self.connections.at_mut(conn) {
            record.tcp = Some(command);
            self.core.tcp_out.push_back(&mut self.connections, conn);
            self.trace_conn(conn, || TraceEvent::TcpAction {
                action: command.into(),
            });
        }
    }

    /// Sets or clears the deadline of a connection.
    #[inline(always)]
    pub(crate) fn set_conn_deadline(&mut self, conn: ConnIdx, deadline: Option<Instant>) {
        if self.tap.is_on() && self.connections.deadline(conn) != deadline {
            self.trace_conn(conn, || trace::deadline(TimerKind::Connection, deadline));
        }
        self.connections.set_deadline(conn, deadline);
    }

    // ---- follow-up work ----------------------------------------------------

    /// Follows a change of a connection: schedules its link, sets its deadline, and notifies the
    /// application of bytes and room. Returns what is left for [`Groups`] or [`Engine`].
    #[inline(always)]
    pub(crate) fn follow_up(&mut self, index: ConnIdx) -> Deferred {
        let (core, connections, links, groups, tap) = self.parts();
        follow_up(core, connections, links, groups, tap, index)
    }

    /// Notifies the application of these events, unless the connection has ended.
    #[inline(always)]
    pub(crate) fn notify(&mut self, index: ConnIdx, what: Pending) {
        if let Some(record) = self.connections.at_mut(index)
            // No event follows the one that reports the end.
            && record.phase != Phase::Ended
        {
            record.notices |= what;
            self.core
                .connection_events
                .push_back(&mut self.connections, index);
        }
    }

    /// The next event, if it is `Readable` or `Writable` and the only one of an active
    /// connection.
    #[inline(always)]
    pub(crate) fn next_data_event(&mut self) -> Option<Event> {
        let index = self.core.connection_events.first()?;
        let (generation, record) = self.connections.entry(index)?;
        let conn = ConnId { index, generation };
        let event = match record.notices {
            Pending::READABLE => Event::Readable { conn },
            Pending::WRITABLE => Event::Writable { conn },
            _ => return None,
        };
        if record.phase != Phase::Active || self.core.has_rising() {
            return None;
        }
        record.notices = Pending::empty();
        let behind = self.core.connection_events.unlink_front(record);
        behind.set_front(&mut self.connections);
        Some(event)
    }
}

#[inline(never)]
fn follow_up<'a>(
    core: &'a mut Core,
    connections: Pool<'a, ConnectionRecord>,
    links: Pool<'a, Link>,
    groups: Pool<'a, LinkGroup>,
    tap: Tap<'a>,
    index: ConnIdx,
) -> Deferred {
    let mut path = DataPath {
        core,
        connections,
        links,
        groups,
        tap,
    };
    let Some(record) = path.connections.at_mut(index) else {
        debug_assert!(false, "the connection has just changed");
        return Deferred::Nothing;
    };
    let (link, phase) = (record.link, record.phase);
    let Some(connection) = record.connection.as_mut() else {
        return Deferred::Nothing;
    };
    let wants_work = connection.has_work();
    let readable = phase == Phase::Active && connection.take_readable();
    let has_notices = !connection.notices().is_empty();
    if let Some(deadline) = connection.moved_deadline() {
        path.set_conn_deadline(index, deadline);
    }
    if wants_work {
        path.queue_to_transmit(link, index);
    }
    if readable {
        path.notify(index, Pending::READABLE);
    }
    if has_notices {
        Deferred::Notices(index)
    } else {
        Deferred::Nothing
    }
}
