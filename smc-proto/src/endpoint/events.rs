//! Events out, in the order in which an application wants to hear of them.

use crate::connection_record::{End, Pending};
use crate::engine::Engine;
use crate::event::Event;
use crate::link_group::GroupNotices;

impl Engine<'_> {
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        while let Some(index) = self.core.connection_events.first() {
            let conn = self.conn_id(index);
            let record = self.connections.at_mut(index)?;
            let pending = record.notices;
            let Some(next) = pending.first() else {
                self.core
                    .connection_events
                    .remove(&mut self.connections, index);
                self.release(index);
                continue;
            };
            record.notices.remove(next);
            let (group, first_contact, end) = (record.group, record.first_contact, record.end);
            if record.notices.is_empty() {
                self.core
                    .connection_events
                    .remove(&mut self.connections, index);
                self.release(index);
            }
            return Some(match next {
                Pending::PROPOSED => Event::Proposed { conn },
                Pending::ESTABLISHED => Event::Established {
                    conn,
                    group: self.group_id(group),
                    first_contact,
                },
                Pending::URGENT => Event::Urgent { conn },
                Pending::READABLE => Event::Readable { conn },
                Pending::WRITABLE => Event::Writable { conn },
                _ => match end {
                    Some(End::FellBack(why)) => Event::FellBack { conn, why },
                    Some(End::Closed(reason)) => Event::Closed { conn, reason },
                    None => continue,
                },
            });
        }
        let index = self.core.group_events.first()?;
        let group = self.group_id(index);
        let g = self.groups.at_mut(index)?;
        let up = g.notices.contains(GroupNotices::UP);
        g.notices.remove(if up {
            GroupNotices::UP
        } else {
            GroupNotices::DOWN
        });
        if g.notices.is_empty() {
            self.core.group_events.remove(&mut self.groups, index);
        }
        if up {
            return Some(Event::GroupUp { group });
        }
        self.groups.remove(index);
        Some(Event::GroupDown { group })
    }
}
