//! The engine as the data path sees it: three tables, and nothing that is rare.
//!
//! Everything octets of a connection need on their way (committed, written,
//! announced, received, consumed) is here and in the methods that `link_group/`
//! adds. What follows from them once in a connection's life needs the whole
//! [`Engine`] and is handed to it as [`Rest`].

use crate::connection::{ApiMisuse, Notices};
use crate::connection_record::{ConnectionRecord, End, Pending, Phase, list as connection_list};
use crate::engine::Core;
#[cfg(doc)]
use crate::engine::Engine;
use crate::event::Event;
use crate::id::{BufferId, ConnId, LinkId};
use crate::link_group::{Buffer, Link, link_list};
use crate::slots::{Linked, Pool};
use crate::storage::Tables;
use crate::wire::types::AlertToken;

/// Core and the tables of the data path, borrowed for one call.
pub(crate) struct DataPath<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connections: Pool<'a, ConnectionRecord>,
    pub(crate) links: Pool<'a, Link>,
    pub(crate) buffers: Pool<'a, Buffer>,
}

/// What the data path leaves to the whole engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Rest {
    /// Everything is done.
    Nothing,
    /// A connection changed in a way that is not only about octets.
    Connection { index: u32, notices: Notices },
    /// A connection on a link's list had nothing to send, and may be at its end.
    Idle { index: u32 },
    /// The message is not a CDC message.
    Llc { link: u32 },
    /// The message breaks the protocol.
    Violation { link: u32 },
    /// A CDC message for a connection whose rendezvous is not over.
    Early { handshake: u32 },
    /// Not only one CDC message was sent: nothing is done yet.
    Sends { link: u32 },
}

impl<'a> DataPath<'a> {
    #[inline(always)]
    pub(crate) fn new(core: &'a mut Core, tables: Tables<'a>) -> Self {
        Self {
            core,
            connections: tables.connections,
            links: tables.links,
            buffers: tables.buffers,
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

    #[inline(always)]
    pub(crate) fn buffer_id(&self, index: u32) -> BufferId {
        BufferId {
            index,
            generation: self.buffers.generation(index),
        }
    }

    /// The connection that owns a token, if it is in the group of the link that
    /// brought it.
    //= CDC-005
    #[inline(always)]
    pub(crate) fn conn_by_token(&self, token: AlertToken, group: u32) -> Option<u32> {
        let index = self.core.tokens.as_ref()?.open(token);
        let record = self.connections.at(index)?;
        (record.token == token && record.group == group && record.phase != Phase::Ended)
            .then_some(index)
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
        let deadline = connection.next_timeout();
        self.connections.set_deadline(index, deadline);
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
        if connection.wants_work() {
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

    /// Draws the consequences of a change: work for the link, events; the end is
    /// left to the engine.
    #[inline(always)]
    pub(crate) fn after_connection(&mut self, index: u32) -> Rest {
        let Some(record) = self.connections.at_mut(index) else {
            return Rest::Nothing;
        };
        let queued = Linked::<{ connection_list::READY }>::links(record).is_linked();
        let link = record.link;
        let Some(connection) = record.connection.as_mut() else {
            return Rest::Nothing;
        };
        let notices = connection.take_notices();
        let deadline = connection.next_timeout();
        let wanted = !queued && connection.wants_work();
        self.connections.set_deadline(index, deadline);
        if wanted {
            self.queue_on_link(index, link);
        }
        if notices.is_empty() {
            return Rest::Nothing;
        }
        if notices == Notices::READABLE {
            self.tell(index, Pending::READABLE);
            return Rest::Nothing;
        }
        Rest::Connection { index, notices }
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

    /// The next event of the first connection that has any.
    #[inline(always)]
    pub(crate) fn next_event(&mut self, rest: &mut Rest) -> Option<Event> {
        let index = self.core.connection_events.first()?;
        let conn = self.conn_id(index);
        let record = self.connections.at_mut(index)?;
        let next = record.notices.first();
        record.notices.remove(next.unwrap_or(Pending::empty()));
        let (home, first_contact, end) = (record.home, record.first_contact, record.end);
        if record.notices.is_empty() {
            if record.phase != Phase::Active {
                *rest = Rest::Idle { index };
            }
            self.core
                .connection_events
                .remove(&mut self.connections, index);
        }
        Some(match (next?, home, end) {
            (Pending::READABLE, _, _) => Event::Readable { conn },
            (Pending::WRITABLE, _, _) => Event::Writable { conn },
            (Pending::URGENT, _, _) => Event::Urgent { conn },
            (Pending::PROPOSED, _, _) => Event::Proposed { conn },
            (Pending::ESTABLISHED, Some(group), _) => Event::Established {
                conn,
                group,
                first_contact,
            },
            (_, _, Some(End::FellBack(why))) => Event::FellBack { conn, why },
            (_, _, Some(End::Closed(reason))) => Event::Closed { conn, reason },
            _ => return None,
        })
    }
}
