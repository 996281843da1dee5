//! The context of link groups, and the lists of what their buffers have to do.

use super::{Buffer, Control, Link, RemoteRmb};
use crate::connection_record::ConnectionRecord;
use crate::data_path::DataPath;
use crate::devices::BufferDevice;
use crate::id::{BufferId, BufferIdx, ConnIdx, GroupId, GroupIdx, LinkIdx};
use crate::slots::Pool;
use crate::time::Instant;
use crate::trace::{self, TimerKind};

/// Link groups with what belongs to them, and below it the data path, borrowed for one call.
pub(crate) struct Groups<'a> {
    pub(crate) data: DataPath<'a>,
    pub(crate) buffers: Pool<'a, Buffer>,
    pub(crate) remote_rmbs: Pool<'a, RemoteRmb>,
}

impl Groups<'_> {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.data.core.now
    }

    /// A connection.
    #[inline]
    pub(crate) fn conn(&self, conn: ConnIdx) -> Option<&ConnectionRecord> {
        self.data.connections.at(conn)
    }

    /// A link.
    #[inline]
    pub(crate) fn link(&self, link: LinkIdx) -> Option<&Link> {
        self.data.links.at(link)
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        self.data.core.step();
    }

    pub(crate) fn group_id(&self, index: GroupIdx) -> GroupId {
        GroupId {
            index,
            generation: self.data.groups.generation(index),
        }
    }

    #[inline]
    pub(crate) fn buffer_id(&self, index: BufferIdx) -> BufferId {
        BufferId {
            index,
            generation: self.buffers.generation(index),
        }
    }

    /// Sets or clears the deadline of a link.
    #[inline(always)]
    pub(crate) fn set_link_deadline(&mut self, link: LinkIdx, deadline: Option<Instant>) {
        if self.data.tap.is_on() && self.data.links.deadline(link) != deadline {
            self.trace_link(link, || trace::deadline(TimerKind::Link, deadline));
        }
        self.data.links.set_deadline(link, deadline);
    }

    /// Sets or clears the deadline of a link group.
    #[inline(always)]
    pub(crate) fn set_group_deadline(&mut self, group: GroupIdx, deadline: Option<Instant>) {
        if self.data.tap.is_on() && self.data.groups.deadline(group) != deadline {
            self.trace_group(group, || trace::deadline(TimerKind::Group, deadline));
        }
        self.data.groups.set_deadline(group, deadline);
    }

    /// Sets or clears the deadline of a buffer.
    #[inline(always)]
    pub(crate) fn set_buffer_deadline(&mut self, buffer: BufferIdx, deadline: Option<Instant>) {
        if self.data.tap.is_on() && self.buffers.deadline(buffer) != deadline {
            self.trace_buffer(buffer, || trace::deadline(TimerKind::Buffer, deadline));
        }
        self.buffers.set_deadline(buffer, deadline);
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
            self.data.core.devices.buffers_mut(device),
            self.buffers.at_mut(index),
        ) {
            buffer.listed_at = device;
            list.push_back(&mut self.buffers, index);
        }
    }

    /// The next control command of a buffer, and the device it is for:
    /// registrations are a matter of the link's RNIC.
    pub(crate) fn buffer_work(&self, index: BufferIdx) -> Option<(Control, BufferDevice)> {
        let buffer = self.buffers.at(index)?;
        if let Some(ism) = buffer.ism {
            let group = self.data.groups.at(buffer.group);
            let is_open = group.is_some_and(|group| !group.is_ending());
            return Some((buffer.wanted_of_ism(ism, is_open)?, buffer.device));
        }
        let wanted = buffer.wanted(|| self.registrable(buffer.group))?;
        let link = wanted.link_position().and_then(|position| {
            let links = self.links_of(buffer.group);
            self.link(*links.get(usize::from(position))?)
        });
        let device = link.map_or(buffer.device, |link| BufferDevice::Rnic(link.path.device));
        Some((wanted, device))
    }

    /// Takes a buffer off the list of the device it waits for.
    pub(crate) fn unlist_buffer(&mut self, index: BufferIdx) {
        let Some(device) = self.buffers.at(index).map(|b| b.listed_at) else {
            return;
        };
        if let Some(list) = self.data.core.devices.buffers_mut(device) {
            list.remove(&mut self.buffers, index);
        }
    }
}
