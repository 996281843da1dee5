//! Buffers that got memory and keys, or gave them back.

use super::super::buffer::Control;
use super::super::{LinkState, Memory};
use super::UselessBuffer;
use crate::command::BufferKind;
use crate::id::{BufferId, BufferIdx, GroupIdx, Idx, LinkId};
use crate::link_group::Groups;
use crate::trace::TraceEvent;
use crate::wire::types::RToken;

impl Groups<'_> {
    pub(crate) fn on_registered(&mut self, buffer: BufferId, link: LinkId, rtoken: RToken) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.link(link).map(|l| l.position) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        if !b.on_registered(position, rtoken) {
            return;
        }
        let group = b.group;
        let id = self.data.link_id(link);
        self.trace_buffer(index, || TraceEvent::BufferRegistered { link: id });
        self.schedule_buffer(index);
        self.on_buffer_changed(group, index);
        self.on_addition_progress(group);
    }

    /// A buffer is registered on one link more, or one link less needs it.
    pub(crate) fn on_buffer_changed(&mut self, group: GroupIdx, index: BufferIdx) {
        let active = self.active_links(group);
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let waiter = b.waiter;
        let ready = !b.registered().is_empty() && b.is_registered_on(active);
        if ready && b.kind == BufferKind::Send {
            b.waiter = Idx::NONE;
        }
        if ready {
            self.announce_rmb(group, index);
        }
        self.list_spare(index);
        if waiter.is_none() {
            self.wake_rendezvous(group);
        }
        self.data.wake(waiter);
    }

    pub(crate) fn on_deregistered(&mut self, buffer: BufferId, link: LinkId) {
        let (Some(index), Some(link)) = (self.live_buffer(buffer), self.live_link(link)) else {
            return;
        };
        let Some(position) = self.link(link).map(|l| l.position) else {
            return;
        };
        if self
            .buffers
            .at_mut(index)
            .is_some_and(|b| b.on_deregistered(position))
        {
            if let Some(l) = self.data.links.at_mut(link) {
                l.registrations = l.registrations.saturating_sub(1);
            }
            let id = self.data.link_id(link);
            self.trace_buffer(index, || TraceEvent::BufferDeregistered { link: id });
            self.schedule_buffer(index);
            self.data.schedule_link(link);
        }
    }

    /// The links of a group changed: buffers may have work, or need less of it.
    pub(crate) fn review_buffers(&mut self, group: GroupIdx) {
        let active = self.data.groups.at(group).is_some_and(|g| g.is_active());
        self.each_buffer(group, |groups, index| {
            groups.schedule_buffer(index);
            // One that lacked but a link that is gone can be given out again: all that wait
            // for one are woken below.
            if active {
                groups.relist_buffer(index);
            }
            if groups.buffers.at(index).is_some_and(|b| b.waiter.is_some()) {
                groups.on_buffer_changed(group, index);
            }
        });
        self.wake_rendezvous(group);
        self.on_addition_progress(group);
    }

    /// A control command of a buffer failed.
    pub(super) fn on_buffer_refused(&mut self, buffer: BufferId) -> Option<UselessBuffer> {
        let index = self.live_buffer(buffer)?;
        let b = self.buffers.at_mut(index).filter(|b| b.ism.is_none())?;
        let refused = b.take_refused()?;
        let (group, waiter) = (b.group, b.waiter);
        self.trace_buffer(index, || TraceEvent::BufferRefused {
            step: refused.into(),
        });
        let b = self.buffers.at_mut(index)?;
        match refused {
            Control::Alloc => b.memory = Memory::Gone,
            // The element is lost, the RMB is not; without users it goes, but in
            // order, because the peer knows its key (RMB-030).
            Control::Clear(element) => {
                b.dirty.remove(element);
                if b.users == 0 {
                    self.set_buffer_deadline(index, Some(self.data.core.now));
                }
                self.schedule_buffer(index);
                return None;
            }
            Control::Register(position) => {
                self.end_registration(group, position);
                if !self.needs_registration(group, position) {
                    self.schedule_buffer(index);
                    self.on_buffer_changed(group, index);
                    return None;
                }
            }
            // What cannot be taken back counts as gone; the buffer may be in use on
            // other links.
            Control::Deregister(position) => {
                b.forget_registration(position);
                self.end_registration(group, position);
                self.schedule_buffer(index);
                return None;
            }
            // Never asked of an RNIC.
            Control::Attach | Control::Detach => {}
            Control::Free => {
                self.remove_buffer(index);
                return None;
            }
        }
        if let Some(b) = self.buffers.at_mut(index) {
            b.retired = true;
        }
        self.list_spare(index);
        self.wake_rendezvous(group);
        self.data.wake(waiter);
        Some(UselessBuffer {
            group,
            buffer: index,
        })
    }

    /// A buffer is of no use, and the connection that waited for it knows.
    pub(crate) fn drop_useless(&mut self, UselessBuffer { group, buffer }: UselessBuffer) {
        self.drop_absent_buffer(buffer);
        self.schedule_buffer(buffer);
        self.on_addition_progress(group);
    }

    /// Whether a buffer that could not be registered on a link is of no use. On a
    /// link that is only being added, the link is given up instead.
    fn needs_registration(&mut self, group: GroupIdx, position: u8) -> bool {
        let link = self
            .links_of(group)
            .get(usize::from(position))
            .copied()
            .unwrap_or(Idx::NONE);
        match self.link(link).map(|l| l.link_state) {
            Some(LinkState::Offered | LinkState::Adding) if self.addition(group).link == link => {
                self.lose_addition(group);
                false
            }
            Some(LinkState::Leaving(_)) => self.data.groups.at(group).is_none_or(|g| g.is_ending()),
            _ => true,
        }
    }

    /// One buffer less is registered on a link.
    fn end_registration(&mut self, group: GroupIdx, position: u8) {
        let link = self
            .links_of(group)
            .get(usize::from(position))
            .copied()
            .unwrap_or(Idx::NONE);
        if let Some(l) = self.data.links.at_mut(link) {
            l.registrations = l.registrations.saturating_sub(1);
        }
        self.data.schedule_link(link);
    }
}
