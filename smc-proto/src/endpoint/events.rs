//! Events out, in the order in which an application wants to hear of them.

use crate::data_path::Rest;
use crate::engine::Engine;
use crate::event::Event;
use crate::link_group::Told;

impl Engine<'_> {
    /// The next event. A group is told to be up before its first connection, and
    /// to be down after its last one.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        if let Some(index) = self.core.groups_up.pop_front(&mut self.groups) {
            let group = self.group_id(index);
            if let Some(g) = self.groups.at_mut(index) {
                g.told = Told::Up;
            }
            self.try_free_group(index);
            return Some(Event::GroupUp { group });
        }
        if let Some(event) = self.next_connection_event() {
            return Some(event);
        }
        let index = self.core.groups_down.pop_front(&mut self.groups)?;
        let group = self.group_id(index);
        self.groups.remove(index);
        Some(Event::GroupDown { group })
    }

    fn next_connection_event(&mut self) -> Option<Event> {
        while let Some(index) = self.core.connection_events.first() {
            let mut rest = Rest::Nothing;
            let event = self.data_path().next_event(&mut rest);
            self.carry_out(rest);
            if event.is_some() || self.core.connection_events.first() == Some(index) {
                return event;
            }
        }
        None
    }
}
