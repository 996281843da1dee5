//! Buffers that got memory and keys, or gave them back.

use super::super::Memory;
use super::super::buffer::Control;
use crate::engine::Engine;
use crate::id::{BufferId, LinkId, NONE};
use crate::wire::types::RToken;

impl Engine<'_> {
    pub(crate) fn on_registered(&mut self, buffer: BufferId, link: LinkId, rtoken: RToken) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.links.at(link).map(|l| l.position) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        if !b.on_registered(position, rtoken) {
            return;
        }
        let (group, waiter) = (b.group, b.waiter);
        self.poke_buffer(index);
        self.announce_rmb(group, index);
        if self
            .buffers
            .at(index)
            .is_some_and(|b| b.kind == crate::command::BufferKind::Send)
            && let Some(b) = self.buffers.at_mut(index)
        {
            b.waiter = NONE;
        }
        self.list_spare(index);
        self.wake(waiter);
    }

    pub(crate) fn on_deregistered(&mut self, buffer: BufferId, link: LinkId) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.links.at(link).map(|l| l.position) else {
            return;
        };
        if self
            .buffers
            .at_mut(index)
            .is_some_and(|b| b.on_deregistered(position))
        {
            if let Some(l) = self.links.at_mut(link) {
                l.registrations = l.registrations.saturating_sub(1);
            }
            self.poke_buffer(index);
            self.poke_link(link);
        }
    }

    /// A control command of a buffer failed.
    pub(crate) fn on_buffer_refused(&mut self, buffer: BufferId) {
        let Some(index) = self.live_buffer(buffer) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let Some(refused) = b.take_refused() else {
            return;
        };
        let (group, waiter) = (b.group, b.waiter);
        match refused {
            Control::Alloc => b.memory = Memory::Gone,
            // The element is lost, the RMB is not; without users it goes, but in
            // order, because the peer knows its key (RMB-030).
            Control::Clear(element) => {
                b.dirty.remove(element);
                if b.users == 0 {
                    b.idle_deadline = Some(self.core.now);
                    self.buffers.set_deadline(index, Some(self.core.now));
                }
                self.poke_buffer(index);
                return;
            }
            Control::Register(_) => self.end_registration(group),
            // What cannot be taken back counts as gone.
            Control::Deregister(position) => {
                b.forget_registration(position);
                self.end_registration(group);
            }
            Control::Free => {
                self.remove_buffer(index);
                return;
            }
        }
        if let Some(b) = self.buffers.at_mut(index) {
            b.retired = true;
        }
        self.list_spare(index);
        // The waiter leaves first, so that its element comes back.
        self.wake(waiter);
        self.run_wakes();
        self.drop_absent_buffer(index);
        self.poke_buffer(index);
    }

    /// One buffer less is registered on the link of a group.
    fn end_registration(&mut self, group: u32) {
        let link = self.groups.at(group).map_or(NONE, |g| g.link);
        if let Some(l) = self.links.at_mut(link) {
            l.registrations = l.registrations.saturating_sub(1);
        }
        self.poke_link(link);
    }
}
