//! The data path: two tables, and nothing that is rare.
//!
//! Everything bytes of a connection need on their way is here: they are committed and
//! consumed ([`application`]), written and announced ([`transmit`]), received ([`receive`])
//! and completed ([`completion`]); [`fast`] does the same for connections with nothing else
//! to do. What follows from them once in a connection's life needs [`Groups`] or the whole
//! [`Engine`] and is handed to them as [`Deferred`].

mod application;
mod completion;
mod fast;
mod receive;
mod transmit;

pub(crate) use receive::Follows;

use crate::command::TcpCommand;
use crate::connection_record::{ConnectionRecord, Pending, Phase};
use crate::core::Core;
#[cfg(doc)]
use crate::engine::Engine;
use crate::event::Event;
use crate::id::{ConnId, ConnIdx, HandshakeIdx, LinkId, LinkIdx};
#[cfg(doc)]
use crate::link_group::Groups;
use crate::link_group::{Link, link_list};
use crate::rand::TokenKey;
use crate::slots::{Linked, Pool};
use crate::storage::Tables;
use crate::time::Instant;
use crate::trace::{self, Tap, TimerKind, TraceEvent};

/// Core and the tables of the data path, borrowed for one call.
///
/// Its methods are inlined where they are called, most often once in the facade
/// and once in the engine: handed on by reference, all of it would have to stand
/// in memory at each call. What is rarer is called with the parts, see
/// [`DataPath::parts`].
pub(crate) struct DataPath<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connections: Pool<'a, ConnectionRecord>,
    pub(crate) links: Pool<'a, Link>,
    /// Where events go.
    pub(crate) tap: Tap<'a>,
}

/// Parts of a [`DataPath`], each in registers.
pub(crate) type Parts<'a> = (
    &'a mut Core,
    Pool<'a, ConnectionRecord>,
    Pool<'a, Link>,
    Tap<'a>,
);

/// Outcome of [`Endpoint::read`](crate::endpoint::Endpoint::read).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ReadOutcome {
    /// Bytes that are free again.
    pub bytes: u32,
    /// Whether a message to the peer follows: there is more to poll than before.
    pub follows: bool,
}

/// What the data path leaves to the contexts above. One number at most, so that it
/// stays in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Deferred {
    /// Everything is done.
    Nothing,
    /// A connection changed in a way that is not only about bytes.
    Connection(ConnIdx),
    /// A connection may be at its end.
    Idle(ConnIdx),
    /// The message on this link is not a CDC message.
    Llc(LinkIdx),
    /// The message on this link breaks the protocol.
    Violation(LinkIdx),
    /// A CDC message for a connection in rendezvous, with this handshake.
    Early(HandshakeIdx),
    /// Not only one CDC message was sent on this link: nothing is done yet.
    Sends(LinkIdx),
}

impl<'a> DataPath<'a> {
    #[inline(always)]
    pub(crate) fn new(core: &'a mut Core, (tables, tap): (Tables<'a>, Tap<'a>)) -> Self {
        Self {
            core,
            connections: tables.connections,
            links: tables.links,
            tap,
        }
    }
}

impl DataPath<'_> {
    /// For a step that is not inlined.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let (connections, links) = (self.connections.reborrow(), self.links.reborrow());
        (self.core, connections, links, self.tap.reborrow())
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

    /// Puts a link on its device's list if it has anything to fetch.
    #[inline(always)]
    pub(crate) fn schedule_link(&mut self, index: LinkIdx) {
        let Some(link) = self.links.at_mut(index) else {
            return;
        };
        if Linked::<{ link_list::READY }>::links(link).is_linked() || !link.wants_device() {
            return;
        }
        let device = usize::from(link.path.device.0);
        if let Some(device) = self.core.devices.get_mut(device) {
            device.links.push_back(&mut self.links, index);
        }
    }

    /// Puts a connection on the list of a link, and the link on its device's.
    #[inline(always)]
    fn queue_on_link(&mut self, link: LinkIdx, index: ConnIdx) {
        let Some(state) = self.links.at_mut(link) else {
            return;
        };
        state.ready.push_back(&mut self.connections, index);
        if !state.is_flowing(self.core.changes) {
            self.schedule_link(link);
        } else if state.has_free_slot() {
            debug_assert!(state.wants_device());
            let device = usize::from(state.path.device.0);
            if let Some(device) = self.core.devices.get_mut(device)
                && let Some(before) = device.links.join(state, link)
            {
                before.precede(&mut self.links, link);
            }
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
    pub(crate) fn wake(&mut self, conn: ConnIdx) {
        let record = self.connections.at(conn);
        if record.is_some_and(|record| matches!(record.phase, Phase::Rendezvous(_))) {
            self.core.wakes.push_back(&mut self.connections, conn);
        }
    }

    /// Puts a connection on the list of those with events, ended or not.
    pub(crate) fn report(&mut self, conn: ConnIdx, what: Pending) {
        if let Some(record) = self.connections.at_mut(conn) {
            record.notices |= what;
            self.core
                .connection_events
                .push_back(&mut self.connections, conn);
        }
    }

    /// Gives a connection a command for its TCP connection.
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

    // ---- consequences ----------------------------------------------------

    /// Draws the consequences of a change of a connection that is only about
    /// bytes: work for the link, a deadline, an event. Others are left.
    #[inline(always)]
    pub(crate) fn after_connection(&mut self, index: ConnIdx) -> Deferred {
        let (core, connections, links, tap) = self.parts();
        after_connection(core, connections, links, tap, index)
    }

    /// Notes events of a connection that has not ended.
    #[inline(always)]
    pub(crate) fn notify(&mut self, index: ConnIdx, what: Pending) {
        if let Some(record) = self.connections.at_mut(index)
            // The last event of a handle stays the last.
            && record.phase != Phase::Ended
        {
            record.notices |= what;
            self.core
                .connection_events
                .push_back(&mut self.connections, index);
        }
    }

    /// The next event, if it is that bytes arrived or that there is room for more, and
    /// the only one of its connection.
    #[inline(always)]
    pub(crate) fn next_of_bytes(&mut self) -> Option<Event> {
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
        let behind = self.core.connection_events.leave_front(record);
        behind.lead(&mut self.connections);
        Some(event)
    }
}

#[inline(never)]
fn after_connection<'a>(
    core: &'a mut Core,
    connections: Pool<'a, ConnectionRecord>,
    links: Pool<'a, Link>,
    tap: Tap<'a>,
    index: ConnIdx,
) -> Deferred {
    let mut path = DataPath {
        core,
        connections,
        links,
        tap,
    };
    let Some(record) = path.connections.at_mut(index) else {
        return Deferred::Nothing;
    };
    let (link, phase) = (record.link, record.phase);
    let Some(connection) = record.connection.as_mut() else {
        return Deferred::Nothing;
    };
    let wants_work = connection.has_work();
    let readable = phase == Phase::Active && connection.take_readable();
    let settled = connection.notices().is_empty();
    if let Some(deadline) = connection.moved_deadline() {
        path.set_conn_deadline(index, deadline);
    }
    if wants_work {
        path.queue_on_link(link, index);
    }
    if readable {
        path.notify(index, Pending::READABLE);
    }
    if settled {
        Deferred::Nothing
    } else {
        Deferred::Connection(index)
    }
}
