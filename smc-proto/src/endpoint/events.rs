//! Events, in the order in which an application needs them.

use crate::connection_record::{End, Pending};
use crate::engine::Engine;
use crate::event::{CloseReason, Event};
use crate::link_group::{GroupNotified, LinkNotified};
use crate::trace::TraceEvent;

impl Engine<'_> {
    /// The next event. A group is reported up before its first connection, and
    /// to be down after its last one.
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        if let Some(index) = self
            .groups
            .data
            .core
            .groups_up
            .pop_front(&mut self.groups.data.groups)
        {
            let group = self.groups.group_id(index);
            if let Some(g) = self.groups.data.groups.at_mut(index) {
                g.notified = GroupNotified::Up;
            }
            self.groups.try_free_group(index);
            return Some(Event::GroupUp { group });
        }
        if let Some(event) = self.next_link_event() {
            return Some(event);
        }
        if let Some(event) = self.next_connection_event() {
            return Some(event);
        }
        let index = self
            .groups
            .data
            .core
            .groups_down
            .pop_front(&mut self.groups.data.groups)?;
        let group = self.groups.group_id(index);
        self.groups.trace_group(index, || TraceEvent::GroupFreed);
        self.groups.data.groups.remove(index);
        Some(Event::GroupDown { group })
    }

    /// A link that came up; or, behind that, one that is gone.
    fn next_link_event(&mut self) -> Option<Event> {
        let index = self
            .groups
            .data
            .core
            .link_events
            .pop_front(&mut self.groups.data.links)?;
        let link = self.groups.data.link_id(index);
        let l = self.groups.data.links.at_mut(index)?;
        let group = l.group;
        let rising = l.notified == LinkNotified::Rising;
        l.notified = LinkNotified::Up;
        let group = self.groups.group_id(group);
        if rising {
            self.groups.drop_absent_link(index);
            return Some(Event::LinkUp { group, link });
        }
        self.groups.trace_freed(index);
        self.groups.data.links.remove(index);
        Some(Event::LinkDown { group, link })
    }

    #[inline]
    fn next_connection_event(&mut self) -> Option<Event> {
        while let Some(index) = self.groups.data.core.connection_events.first() {
            let conn = self.groups.data.conn_id(index);
            let record = self.groups.data.connections.at_mut(index)?;
            let next = record.notices.first();
            record.notices.remove(next.unwrap_or(Pending::empty()));
            let (home, first_contact, end) = (record.home, record.first_contact, record.end);
            let (cause, end_of_stream) = match &record.connection {
                Some(connection) => (connection.cause(), connection.is_done_in_order()),
                None => (None, false),
            };
            if record.notices.is_empty() {
                self.groups
                    .data
                    .core
                    .connection_events
                    .remove(&mut self.groups.data.connections, index);
                self.groups.release(index);
            }
            let Some(next) = next else {
                continue;
            };
            let event = match (next, end) {
                (Pending::PROPOSED, _) => Event::Proposed { conn },
                (Pending::ESTABLISHED, _) => Event::Established {
                    conn,
                    group: home,
                    first_contact,
                },
                (Pending::URGENT, _) => Event::Urgent { conn },
                (Pending::READABLE, _) => Event::Readable { conn },
                (Pending::WRITABLE, _) => Event::Writable { conn },
                (Pending::RESET, _) => Event::Reset {
                    conn,
                    reason: cause.map_or(CloseReason::LocalAbort, CloseReason::from),
                    end_of_stream,
                },
                (_, Some(End::FellBack(why))) => Event::FellBack { conn, why },
                (_, Some(End::Closed(reason))) => Event::Closed { conn, reason },
                _ => continue,
            };
            return Some(event);
        }
        None
    }
}
