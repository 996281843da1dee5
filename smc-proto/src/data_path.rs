//! The engine as the data path sees it: two tables, and nothing that is rare.
//!
//! Everything octets of a connection need on their way (committed, written,
//! announced, received, consumed) is here and in the methods that `link_group/`
//! adds. What follows from them once in a connection's life needs the whole
//! [`Engine`] and is handed to it as [`Rest`].

use crate::connection::{ApiMisuse, Connection, Notices};
use crate::connection_record::{ConnectionRecord, Pending, Phase, list as connection_list};
use crate::engine::Core;
#[cfg(doc)]
use crate::engine::Engine;
use crate::id::{ConnId, LinkId};
use crate::link_group::{Link, link_list};
use crate::slots::{Linked, Pool};
use crate::storage::Tables;

/// Core and the tables of the data path, borrowed for one call.
///
/// Its methods are inlined where they are called, most often once in the facade
/// and once in the engine: handed on by reference, all of it would have to stand
/// in memory at each call.
pub(crate) struct DataPath<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connections: Pool<'a, ConnectionRecord>,
    pub(crate) links: Pool<'a, Link>,
}

/// What the data path leaves to the whole engine. One number at most, so that it
/// stays in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Rest {
    /// Everything is done.
    Nothing,
    /// A connection changed in a way that is not only about octets.
    Connection(u32),
    /// A connection may be at its end.
    Idle(u32),
    /// The message on this link is not a CDC message.
    Llc(u32),
    /// The message on this link breaks the protocol.
    Violation(u32),
    /// A CDC message for a connection in rendezvous, with this handshake.
    Early(u32),
    /// Not only one CDC message was sent on this link: nothing is done yet.
    Sends(u32),
}

/// What a change of a connection leads to.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    link: u32,
    /// It is to be put on the list of its link.
    wants_work: bool,
    /// Its deadline moved.
    moved: bool,
    /// Whether there is an event; `None` if that takes the whole engine.
    told: Option<bool>,
}

impl Change {
    /// The consequences of what was done to a connection since the last call.
    #[inline(always)]
    pub(crate) fn of(record: &mut ConnectionRecord) -> Option<Self> {
        let queued = Linked::<{ connection_list::READY }>::links(record).is_linked();
        let connection = record.connection.as_mut()?;
        let wants_work = !queued && connection.has_work();
        let moved = connection.take_moved_timeout();
        let notices = connection.notices();
        let told = if notices.is_empty() {
            Some(false)
        } else if notices == Notices::READABLE && record.phase == Phase::Active {
            let _ = connection.take_notices();
            record.notices |= Pending::READABLE;
            Some(true)
        } else {
            None
        };
        Some(Self {
            link: record.link,
            wants_work,
            moved,
            told,
        })
    }
}

impl<'a> DataPath<'a> {
    #[inline(always)]
    pub(crate) fn new(core: &'a mut Core, tables: Tables<'a>) -> Self {
        Self {
            core,
            connections: tables.connections,
            links: tables.links,
        }
    }
}

impl DataPath<'_> {
    #[inline(always)]
    pub(crate) fn conn_id(&self, index: u32) -> ConnId {
        ConnId {
            index,
            generation: self.connections.generation(index),
        }
    }

    #[inline(always)]
    pub(crate) fn link_id(&self, index: u32) -> LinkId {
        LinkId {
            index,
            generation: self.links.generation(index),
        }
    }

    // ---- the application's side ------------------------------------------

    /// Sends the next octets of the send buffer: there is work for the link, or
    /// the link will find that it is held back.
    #[inline(always)]
    pub(crate) fn commit(&mut self, index: u32, len: u32) -> Result<(), ApiMisuse> {
        let Some(record) = self.connections.at_mut(index) else {
            return Err(ApiMisuse::SendClosed);
        };
        let link = record.link;
        let Some(connection) = record.connection.as_mut() else {
            return Err(ApiMisuse::SendClosed);
        };
        connection.commit(self.core.now, &self.core.config.connection, len)?;
        if connection.take_moved_timeout() {
            self.set_deadline(index);
        }
        self.queue_on_link(index, link);
        Ok(())
    }

    /// Frees octets that were read: at most a CDC message follows from that.
    #[inline(always)]
    pub(crate) fn consume(&mut self, index: u32, len: u32) -> Result<(), ApiMisuse> {
        let Some(record) = self.connections.at_mut(index) else {
            return Err(ApiMisuse::Closed);
        };
        let link = record.link;
        let Some(connection) = record.connection.as_mut() else {
            return Err(ApiMisuse::Closed);
        };
        connection.consume(len)?;
        if connection.has_work() {
            self.queue_on_link(index, link);
        }
        Ok(())
    }

    // ---- lists -----------------------------------------------------------

    /// Puts a link on its device's list if it has anything to fetch.
    #[inline(always)]
    pub(crate) fn poke_link(&mut self, index: u32) {
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
    fn queue_on_link(&mut self, index: u32, link: u32) {
        if let Some(state) = self.links.at_mut(link) {
            state.ready.push_back(&mut self.connections, index);
            self.poke_link(link);
        }
    }

    // ---- consequences ----------------------------------------------------

    /// Draws the consequences of a change of a connection that is only about
    /// octets: work for the link, a deadline, an event. Others are left.
    #[inline(always)]
    pub(crate) fn after_connection(&mut self, index: u32) -> Rest {
        match self.connections.at_mut(index).and_then(Change::of) {
            Some(change) => self.follow(index, change),
            None => Rest::Nothing,
        }
    }

    /// Draws the consequences of a change that is already known.
    #[inline(always)]
    pub(crate) fn follow(&mut self, index: u32, change: Change) -> Rest {
        if change.moved {
            self.set_deadline(index);
        }
        if change.wants_work {
            self.queue_on_link(index, change.link);
        }
        match change.told {
            Some(true) => {
                self.core
                    .connection_events
                    .push_back(&mut self.connections, index);
                Rest::Nothing
            }
            Some(false) => Rest::Nothing,
            None => Rest::Connection(index),
        }
    }

    /// Moves the deadline of a connection to where it says.
    #[inline(always)]
    fn set_deadline(&mut self, index: u32) {
        let deadline = self
            .connections
            .at(index)
            .and_then(|record| record.connection.as_ref())
            .and_then(Connection::next_timeout);
        self.connections.set_deadline(index, deadline);
    }

    /// Notes events of a connection that has not ended.
    #[inline(always)]
    pub(crate) fn tell(&mut self, index: u32, what: Pending) {
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

    /// The first connection with an event, if octets arrived and that is all.
    #[inline(always)]
    pub(crate) fn next_readable(&mut self) -> Option<ConnId> {
        let index = self.core.connection_events.first()?;
        let record = self.connections.at_mut(index)?;
        if record.notices != Pending::READABLE || record.phase != Phase::Active {
            return None;
        }
        record.notices = Pending::empty();
        self.core
            .connection_events
            .remove(&mut self.connections, index);
        Some(self.conn_id(index))
    }
}
